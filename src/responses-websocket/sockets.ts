/** All WebSocket connections: admission, expiry of keys and connections, and shutdown. */

import { ApiError } from "../errors.ts";
import { authenticate, lookUpKey, presentedDigest } from "../gateway/admission/authenticate.ts";
import type { Gateway, HttpCall } from "../gateway/gateway.ts";
import type { NewId } from "../net/wire/clock.ts";
import type { HeaderReader } from "../net/wire/http-fields.ts";
import { isOwnOrigin } from "../own-origin.ts";
import { allowSocket } from "./allow-socket.ts";
import { ByteBudget } from "./byte-budget.ts";
import { FrameInspector } from "./frame-inspector.ts";
import { openMemoryPool } from "./memory.ts";
import { type Retirement, Session, type SessionContext, type SocketLimits } from "./session.ts";
import { readSubprotocolKey } from "./subprotocols.ts";
import { selectUpgradeHeaders } from "./upgrade-headers.ts";

export interface SocketsOptions {
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
    readonly socketLookMs: number;
  };
}

export interface Sockets {
  /** Returns a session for an admitted client, or throws the error for the client. */
  admit(call: HttpCall): Session;
  opened(session: Session): void;
  closed(session: Session): void;
  /** Accepts no more turns. Resolves when the last connection is closed. */
  drain(): Promise<void>;
  /** Closes all remaining connections at once. */
  cut(): void;
  stop(): void;
}

const GOING_AWAY = 1001;
const RESTARTING = 1012;

export function openSockets(options: SocketsOptions): Sockets {
  const { gateway, newId, limits, publicUrl } = options;
  const origins = new Set(options.allowedOrigins);
  const context: SessionContext = {
    gateway,
    limits,
    newId,
    memories: openMemoryPool({
      bytesMax: limits.socketMemoriesBytesMax,
      keyBytesMax: limits.socketMemoriesKeyBytesMax,
      connectionBytesMax: limits.socketMemoryBytesMax,
    }),
    inspector: new FrameInspector(limits.jsonDepthMax),
    waitingBytes: new ByteBudget({
      bytesMax: limits.socketsWaitingBytesMax,
      keyBytesMax: limits.socketsWaitingKeyBytesMax,
    }),
  };
  /** In insertion order, so the oldest is first. */
  const allSessions = new Set<Session>();
  const byKey = new Map<string, Set<Session>>();
  let drained: PromiseWithResolvers<void> | null = null;

  function admit(call: HttpCall): Session {
    const origin = call.request.headers.get("origin");
    if (origin !== null && !origins.has(origin) && !isOwnOrigin(origin, call.request.headers, publicUrl)) {
      throw originNotAllowed();
    }
    const headers = readSubprotocolKey(call.request.headers);
    const { auth, policy } = gateway;
    allowSocket(authenticate(headers, policy.snapshot(), auth, call));
    checkUpgrade(headers);
    const digest = presentedDigest(headers, auth) ?? "";
    if ((byKey.get(digest)?.size ?? 0) >= limits.socketsPerKeyMax) throw tooMany(limits.socketsPerKeyMax);
    if (drained !== null) throw stopping();
    return new Session(context, digest, selectUpgradeHeaders(headers));
  }

  function opened(session: Session): void {
    allSessions.add(session);
    const others = byKey.get(session.digest);
    if (others === undefined) byKey.set(session.digest, new Set([session]));
    else others.add(session);
    if (drained !== null) session.retire(STOPPING);
  }

  function closed(session: Session): void {
    session.closed();
    allSessions.delete(session);
    const others = byKey.get(session.digest);
    others?.delete(session);
    if (others?.size === 0) byKey.delete(session.digest);
    if (allSessions.size === 0) drained?.resolve();
  }

  /** Checks keys instead of connections, because there are fewer of them. */
  function expelRevokedKeys(): void {
    const snapshot = gateway.policy.snapshot();
    for (const [digest, sessions] of byKey) {
      try {
        allowSocket(lookUpKey(digest, snapshot, gateway.auth));
      } catch (thrown) {
        if (!(thrown instanceof ApiError)) throw thrown;
        for (const session of [...sessions]) session.expel(thrown);
      }
    }
  }

  function retireOld(): void {
    const openedBeforeMs = gateway.clock.monotonicMs() - limits.socketAgeMs;
    for (const session of allSessions) {
      if (session.openedMs > openedBeforeMs) return;
      session.retire(ageLimitReached(limits.socketAgeMs));
    }
  }

  const timer = setInterval(() => {
    expelRevokedKeys();
    retireOld();
  }, limits.socketLookMs);
  timer.unref();

  return {
    admit,
    opened,
    closed,
    drain() {
      drained ??= Promise.withResolvers<void>();
      for (const session of [...allSessions]) session.retire(STOPPING);
      if (allSessions.size === 0) drained.resolve();
      return drained.promise;
    },
    cut() {
      for (const session of [...allSessions]) session.terminate();
    },
    stop() {
      clearInterval(timer);
      context.inspector.close();
    },
  };
}

function checkUpgrade(headers: HeaderReader): void {
  const isUpgrade = headers.get("upgrade")?.toLowerCase() === "websocket";
  if (isUpgrade && headers.get("sec-websocket-version") === "13" && headers.has("sec-websocket-key")) return;
  throw new ApiError(
    "upgrade_required",
    "GET /v1/responses is for WebSocket, version 13. Connect with a WebSocket client, or use POST /v1/responses.",
    { headers: { upgrade: "websocket", "sec-websocket-version": "13" } },
  );
}

function originNotAllowed(): ApiError {
  return new ApiError(
    "origin_not_allowed",
    "Web pages of this origin may not connect. Ask your administrator to add it to server.allowed_origins.",
  );
}

function tooMany(max: number): ApiError {
  return new ApiError(
    "rate_limit_exceeded",
    `Rate limit reached for this API key: ${max} WebSocket connections at once. Close some of them first.`,
    // Codex falls back to HTTP after several attempts and waits for this time before each of them.
    { headers: { "retry-after": "1" } },
  );
}

function stopping(): ApiError {
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
  isTold: false,
};

function ageLimitReached(ageMs: number): Retirement {
  const minutes = Math.max(1, Math.round(ageMs / 60_000));
  return {
    error: new ApiError(
      "websocket_connection_limit_reached",
      `Responses websocket connection limit reached (${minutes} minutes). Create a new websocket connection to continue.`,
    ),
    code: GOING_AWAY,
    isTold: true,
  };
}
