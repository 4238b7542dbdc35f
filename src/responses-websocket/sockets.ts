/** All WebSocket connections: admission, expiry of keys and connections, and shutdown. */

import type { NewId } from "../base/clock.ts";
import { ApiError } from "../errors.ts";
import { authenticate, lookUpKey, presentedDigest } from "../gateway/admission/authenticate.ts";
import type { HttpCall } from "../gateway/call.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { Pipeline } from "../gateway/pipeline.ts";
import { isOwnOrigin } from "../net/http-server/own-origin.ts";
import type { HeaderReader } from "../net/wire/http-fields.ts";
import { allowSocket } from "./allow-socket.ts";
import { ByteBudget } from "./byte-budget.ts";
import { FrameInspector } from "./frame-inspector.ts";
import { openMemoryPool } from "./lane-memory.ts";
import { Session } from "./session.ts";
import type { Retirement, SessionContext, SocketLimits } from "./session-context.ts";
import { readSubprotocolKey } from "./subprotocols.ts";
import { SOCKET } from "./turn.ts";
import { selectUpgradeHeaders } from "./upgrade-headers.ts";

interface SocketsOptions {
  gateway: Gateway;
  newId: NewId;
  /** Additional origins of web pages that may connect. Clients other than web pages send no origin. */
  allowedOrigins: readonly string[];
  publicUrl: string;
  limits: SocketLimits & {
    readonly socketAgeMs: number;
    readonly socketsPerKeyMax: number;
    readonly socketsWaitingKeyBytesMax: number;
    readonly socketsWaitingBytesMax: number;
    readonly socketMemoriesKeyBytesMax: number;
    readonly socketMemoriesBytesMax: number;
    readonly socketCheckIntervalMs: number;
  };
}

const GOING_AWAY = 1001;
const RESTARTING = 1012;

type SocketsState =
  | { readonly phase: "accepting" }
  /** `closed` resolves when the last connection is closed. */
  | { readonly phase: "draining"; readonly closed: PromiseWithResolvers<void> };

export function openSockets(options: SocketsOptions): Sockets {
  const sockets = new Sockets(options);
  sockets.start();
  return sockets;
}

export class Sockets {
  readonly #options: SocketsOptions;
  readonly #allowedOrigins: ReadonlySet<string>;
  readonly #sessionContext: SessionContext;
  /** In insertion order, so the oldest is first. */
  readonly #sessions = new Set<Session>();
  readonly #sessionsByKey = new Map<string, Set<Session>>();
  #state: SocketsState = { phase: "accepting" };
  #timer: ReturnType<typeof setInterval> | null = null;

  constructor(options: SocketsOptions) {
    this.#options = options;
    this.#allowedOrigins = new Set(options.allowedOrigins);
    this.#sessionContext = createSessionContext(options);
  }

  /** Starts the periodic checks of keys and ages. */
  start(): void {
    this.#timer ??= setInterval(() => {
      this.#closeRevokedKeys();
      this.#retireOld();
    }, this.#options.limits.socketCheckIntervalMs);
    this.#timer.unref();
  }

  /** Returns a session for an admitted client, or throws the error for the client. */
  admit(call: HttpCall): Session {
    this.#checkOrigin(call.request.headers);
    const headers = readSubprotocolKey(call.request.headers);
    const { auth, policy } = this.#options.gateway;
    allowSocket(authenticate(headers, policy.snapshot(), auth, call));
    checkUpgrade(headers);
    const digest = presentedDigest(headers, auth) ?? "";
    const { socketsPerKeyMax } = this.#options.limits;
    if ((this.#sessionsByKey.get(digest)?.size ?? 0) >= socketsPerKeyMax)
      throw tooManySocketsError(socketsPerKeyMax);
    if (this.#state.phase === "draining") throw stoppingError();
    const networkAddress = call.networkAddress(auth.publicUrl);
    return new Session(this.#sessionContext, { digest, networkAddress }, selectUpgradeHeaders(headers));
  }

  onOpen(session: Session): void {
    this.#sessions.add(session);
    this.#options.gateway.requestMetrics.socketsOpen++;
    const sameKey = this.#sessionsByKey.get(session.digest);
    if (sameKey === undefined) this.#sessionsByKey.set(session.digest, new Set([session]));
    else sameKey.add(session);
    if (this.#state.phase === "draining") session.retire(STOPPING);
  }

  onClose(session: Session): void {
    session.onClose();
    if (this.#sessions.delete(session)) this.#options.gateway.requestMetrics.socketsOpen--;
    const sameKey = this.#sessionsByKey.get(session.digest);
    sameKey?.delete(session);
    if (sameKey?.size === 0) this.#sessionsByKey.delete(session.digest);
    if (this.#state.phase === "draining" && this.#sessions.size === 0) this.#state.closed.resolve();
  }

  /** Accepts no more turns. Resolves when the last connection is closed. */
  drain(): Promise<void> {
    if (this.#state.phase === "accepting")
      this.#state = { phase: "draining", closed: Promise.withResolvers<void>() };
    const { closed } = this.#state;
    for (const session of [...this.#sessions]) session.retire(STOPPING);
    if (this.#sessions.size === 0) closed.resolve();
    return closed.promise;
  }

  /** Closes all remaining connections at once. */
  terminateAll(): void {
    for (const session of [...this.#sessions]) session.terminate();
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    this.#sessionContext.inspector.close();
  }

  #checkOrigin(headers: HeaderReader): void {
    const origin = headers.get("origin");
    if (origin === null || this.#allowedOrigins.has(origin)) return;
    if (!isOwnOrigin(origin, headers, this.#options.publicUrl)) throw originNotAllowed();
  }

  /** Checks keys instead of connections, because there are fewer of them. */
  #closeRevokedKeys(): void {
    const { policy, auth } = this.#options.gateway;
    const snapshot = policy.snapshot();
    for (const [digest, sessions] of this.#sessionsByKey) {
      try {
        allowSocket(lookUpKey(digest, snapshot, auth));
      } catch (thrown) {
        if (!(thrown instanceof ApiError)) throw thrown;
        for (const session of [...sessions]) session.closeWithError(thrown);
      }
    }
  }

  #retireOld(): void {
    const { gateway, limits } = this.#options;
    const openedBeforeMs = gateway.clock.monotonicMs() - limits.socketAgeMs;
    for (const session of this.#sessions) {
      if (session.openedMs > openedBeforeMs) return;
      session.retire(ageLimitReached(limits.socketAgeMs));
    }
  }
}

function createSessionContext({ gateway, newId, limits }: SocketsOptions): SessionContext {
  return {
    gateway,
    pipeline: new Pipeline(gateway, SOCKET),
    limits,
    newId,
    memories: openMemoryPool({
      bytesMax: limits.socketMemoriesBytesMax,
      keyBytesMax: limits.socketMemoriesKeyBytesMax,
      connectionBytesMax: limits.socketMemoryBytesMax,
    }),
    inspector: new FrameInspector({
      depthMax: limits.jsonDepthMax,
      echoBytesMax: limits.socketWarmUpEchoBytesMax,
      threadLimits: limits.inspectionThreads,
      monotonicMs: gateway.clock.monotonicMs,
    }),
    waitingBytes: new ByteBudget({
      bytesMax: limits.socketsWaitingBytesMax,
      keyBytesMax: limits.socketsWaitingKeyBytesMax,
    }),
  };
}

function checkUpgrade(headers: HeaderReader): void {
  const isUpgrade = headers.get("upgrade")?.toLowerCase() === "websocket";
  if (isUpgrade && headers.get("sec-websocket-version") === "13" && headers.has("sec-websocket-key")) return;
  throw new ApiError(
    "upgrade_required",
    "GET /v1/responses requires a WebSocket upgrade (version 13). Connect with a WebSocket client, or use POST /v1/responses.",
    { headers: { upgrade: "websocket", "sec-websocket-version": "13" } },
  );
}

function originNotAllowed(): ApiError {
  return new ApiError(
    "origin_not_allowed",
    "Web pages of this origin are not allowed to connect. Ask your administrator to add the origin to server.allowed_origins.",
  );
}

function tooManySocketsError(max: number): ApiError {
  return new ApiError(
    "rate_limit_exceeded",
    `Rate limit reached for this API key: ${max} concurrent WebSocket connections. Close a connection first.`,
    // Codex falls back to HTTP after several attempts and waits for this time before each of them.
    { headers: { "retry-after": "1" } },
  );
}

function stoppingError(): ApiError {
  return new ApiError("server_is_overloaded", "The gateway is restarting. Try again shortly.", {
    headers: { "retry-after": "1" },
  });
}

/** Clients reconnect after this close code. */
const STOPPING: Retirement = {
  error: new ApiError(
    "websocket_connection_limit_reached",
    "The gateway is restarting. Create a new websocket connection to continue.",
  ),
  code: RESTARTING,
  sendsErrorWhenIdle: false,
};

function ageLimitReached(ageMs: number): Retirement {
  const minutes = Math.max(1, Math.round(ageMs / 60_000));
  return {
    error: new ApiError(
      "websocket_connection_limit_reached",
      `Responses websocket connection limit reached (${minutes} minutes). Create a new websocket connection to continue.`,
    ),
    code: GOING_AWAY,
    sendsErrorWhenIdle: true,
  };
}
