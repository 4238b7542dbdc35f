/** One `response.create` message: a separate request that passes the same pipeline as an HTTP request. */

import { type MaybePromise, whenReady } from "../base/maybe-promise.ts";
import type { ApiError } from "../errors.ts";
import { allowNetwork, type Caller, lookUpKey } from "../gateway/admission/authenticate.ts";
import { COSTLY_BODY_BYTES_MIN } from "../gateway/bodies/body.ts";
import { noCapacityError } from "../gateway/bodies/body-budget.ts";
import { SMALL_BODY_BYTES_MAX } from "../gateway/bodies/body-memory.ts";
import type { Call } from "../gateway/call.ts";
import type { Gateway } from "../gateway/gateway.ts";
import type { AuthenticatedRequest, ReservedRequest } from "../gateway/request-context.ts";
import type { Relay } from "../gateway/stream/relay.ts";
import type { Transport } from "../gateway/transport.ts";
import type { SocketTurn } from "../gateway/upstream/dispatch-request.ts";
import type { HeaderReader } from "../net/wire/http-fields.ts";
import type { KnownPrefix, ModelRequest } from "../protocols/shared/request.ts";
import { allowSocket } from "./allow-socket.ts";
import type { CreateFrame, FrameMetadata } from "./client-frame.ts";
import type { RememberedTurns } from "./lane-memory.ts";
import type { TurnLane } from "./lanes.ts";

export interface AdmittedClient {
  /** Of its key. */
  readonly digest: string;
  /** Behind a trusted proxy; null if it is unknown. Request policies may allow some networks only. */
  readonly networkAddress: string | null;
}

/** The connection, as a turn uses it. */
export interface TurnHost extends AdmittedClient {
  readonly address: string;
  /** Builds the body of the turn. Throws the error for the client. */
  buildBody(turn: Turn): MaybePromise<Uint8Array>;
  onResponseStart(turn: Turn, relay: Relay, context: ReservedRequest<Turn>): void;
  onRejected(turn: Turn, error: ApiError): void;
  /** Closes the connection of a client that does not read. */
  disconnect(): void;
}

interface TurnOptions {
  host: TurnHost;
  lane: TurnLane;
  frame: CreateFrame;
  requestId: string;
  startedMs: number;
  headers: HeaderReader;
  metadata: FrameMetadata | null;
}

/** The class is also its own `request`, so that a turn costs one object. A signal is created only when it is used. */
export class Turn implements Call {
  readonly host: TurnHost;
  readonly lane: TurnLane;
  readonly frame: CreateFrame;
  readonly requestId: string;
  readonly startedMs: number;
  readonly headers: HeaderReader;
  readonly metadata: FrameMetadata | null;
  /** Read at the start: the memory of a long message is released before the turn ends. */
  readonly bodyBytes: number;
  /** The remembered turns that the turn continues, if any. Set when the body is built. */
  rememberedTurns: RememberedTurns | null = null;
  knownPrefix: KnownPrefix | null = null;
  readonly clientAddress = (): string => this.host.address;
  readonly networkAddress = (): string | null => this.host.networkAddress;
  readonly closeConnection = (): void => this.host.disconnect();
  #relay: Relay | null = null;
  #abortController: AbortController | null = null;
  #isDisconnected = false;

  constructor(options: TurnOptions) {
    this.host = options.host;
    this.lane = options.lane;
    this.frame = options.frame;
    this.requestId = options.requestId;
    this.startedMs = options.startedMs;
    this.headers = options.headers;
    this.metadata = options.metadata;
    this.bodyBytes = options.frame.bytes.length;
  }

  get request(): Call["request"] {
    return this;
  }

  get socketTurn(): SocketTurn {
    return { upstreamLane: this.lane.upstreamLane, knownPrefix: this.knownPrefix };
  }

  get signal(): AbortSignal {
    this.#abortController ??= new AbortController();
    if (this.#isDisconnected) this.#abortController.abort();
    return this.#abortController.signal;
  }

  begin(context: ReservedRequest<Turn>, relay: Relay): void {
    this.#relay = relay;
    if (this.#isDisconnected) {
      relay.abort();
    } else this.host.onResponseStart(this, relay, context);
  }

  /** The client disconnected. */
  abort(): void {
    this.#isDisconnected = true;
    this.#abortController?.abort();
    this.#relay?.abort();
  }
}

/** The key may have changed since the connection was opened, so it is looked up for each turn. */
export function identifyTurn({ policy, auth }: Pick<Gateway, "policy" | "auth">, { host }: Turn): Caller {
  const caller = lookUpKey(host.digest, policy.snapshot(), auth);
  allowNetwork(caller, host.networkAddress);
  allowSocket(caller);
  return caller;
}

export const SOCKET: Transport<Turn, void> = {
  identify: identifyTurn,
  hasCostlyBody: ({ frame }) => frame.bytes.length > COSTLY_BODY_BYTES_MIN,
  // The frame is in memory already.
  deferBody() {},
  read: (gateway, context) =>
    whenReady(context.call.host.buildBody(context.call), (body) => readTurn(gateway, context, body)),
  claim: () => null,
  // An error frame can reject a turn at any time before its response starts.
  rejectableMs: () => Number.POSITIVE_INFINITY,
  // The body of a turn always requests a stream.
  sendWhole() {
    throw new Error("expected a stream, received a whole response");
  },
  sendStream: (_, context, { relay }) => context.call.begin(context, relay),
  // Pings keep the connection alive in the meantime.
  keepWaiting: (_gateway, _context, { serving }) => serving,
  reject: ({ call }, error) => call.host.onRejected(call, error),
};

function readTurn(
  { requests, bodyBudget }: Pick<Gateway, "requests" | "bodyBudget">,
  { call, caller, endpoint }: AuthenticatedRequest<Turn>,
  body: Uint8Array,
): MaybePromise<ModelRequest> {
  const memory = body.length > SMALL_BODY_BYTES_MAX ? bodyBudget.open(caller.key, call) : null;
  // Both the frame and the body are in memory already, so waiting would gain nothing.
  if (memory !== null && !memory.growNow(call.frame.bytes.length + body.length)) {
    throw noCapacityError(bodyBudget.retryAfterSeconds());
  }
  return requests.readJson({ bytes: body, owner: caller.key, reservation: memory }, endpoint);
}
