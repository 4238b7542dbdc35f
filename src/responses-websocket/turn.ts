/** One `response.create` message: a separate request that passes the same pipeline as an HTTP request. */

import type { ApiError } from "../errors.ts";
import { lookUpKey } from "../gateway/admission/authenticate.ts";
import { deliverStream } from "../gateway/deliver.ts";
import type { Call, Gateway } from "../gateway/gateway.ts";
import { COSTLY_BODY_BYTES_MIN } from "../gateway/request/body.ts";
import { type BodyOwner, noCapacityError } from "../gateway/request/body-budget.ts";
import { SMALL_BODY_BYTES_MAX } from "../gateway/request/body-memory.ts";
import type { RequestContext } from "../gateway/request-context.ts";
import type { Relay } from "../gateway/stream/relay.ts";
import type { Transport } from "../gateway/transport.ts";
import type { Conversation } from "../gateway/upstream/attempt.ts";
import type { HeaderReader } from "../net/wire/http-fields.ts";
import type { Endpoint, KnownConversationPrefix, ModelRequest } from "../protocols/shared/request.ts";
import { allowSocket } from "./allow-socket.ts";
import type { CreateFrame, FrameMetadata } from "./client-frame.ts";
import type { TurnLane } from "./lanes.ts";
import type { StoredConversation } from "./memory.ts";

/** The connection, as a turn uses it. */
export interface TurnHost {
  readonly digest: string;
  readonly address: string;
  /** Builds the body of the turn. Throws the error for the client. */
  bodyOf(turn: Turn): Uint8Array | Promise<Uint8Array>;
  /** The response stream has started. */
  begun(turn: Turn, relay: Relay, passage: RequestContext<Turn>): void;
  refused(turn: Turn, error: ApiError): void;
  /** Closes the connection of a client that does not read. */
  cutOff(): void;
}

export interface TurnOptions {
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
  /** The remembered conversation that the turn continues, if any. Set when the body is built. */
  before: StoredConversation | null = null;
  heard: KnownConversationPrefix | null = null;
  readonly clientAddress = (): string => this.host.address;
  readonly cutOff = (): void => this.host.cutOff();
  private relay: Relay | null = null;
  private leaving: AbortController | null = null;
  private isGone = false;

  constructor(options: TurnOptions) {
    this.host = options.host;
    this.lane = options.lane;
    this.frame = options.frame;
    this.requestId = options.requestId;
    this.startedMs = options.startedMs;
    this.headers = options.headers;
    this.metadata = options.metadata;
  }

  get request(): Call["request"] {
    return this;
  }

  get conversation(): Conversation {
    return { thread: this.lane.thread, heard: this.heard };
  }

  get signal(): AbortSignal {
    this.leaving ??= new AbortController();
    if (this.isGone) this.leaving.abort();
    return this.leaving.signal;
  }

  begin(context: RequestContext<Turn>, relay: Relay): void {
    this.relay = relay;
    if (this.isGone) {
      relay.flowTo({ write: () => null, end() {} });
      relay.leave();
    } else this.host.begun(this, relay, context);
  }

  /** The client disconnected. */
  leave(): void {
    this.isGone = true;
    this.leaving?.abort();
    this.relay?.leave();
  }
}

/** The same endpoint as the POST. */
export const RESPONSES: Endpoint = { name: "responses", interface: "responses", path: "/responses" };

export const SOCKET: Transport<Turn, void> = {
  identify({ policy, auth }, { host }) {
    const caller = lookUpKey(host.digest, policy.snapshot(), auth);
    allowSocket(caller);
    return caller;
  },
  hasCostlyBody: ({ frame }) => frame.bytes.length > COSTLY_BODY_BYTES_MIN,
  // The frame is in memory already.
  deferBody() {},
  read(gateway, turn, endpoint, { key }) {
    const body = turn.host.bodyOf(turn);
    return body instanceof Promise
      ? body.then((built) => readTurn(gateway, turn, endpoint, key, built))
      : readTurn(gateway, turn, endpoint, key, body);
  },
  claim: () => null,
  // An error frame can reject a turn at any time before its response starts.
  deliver: (context) => deliverStream(context, Number.POSITIVE_INFINITY, begin),
  // Pings keep the connection alive in the meantime.
  keepWaiting: (_, serving) => serving,
  refuse: (turn, error) => turn.host.refused(turn, error),
};

function readTurn(
  { requests, bodies }: Pick<Gateway, "requests" | "bodies">,
  turn: Turn,
  endpoint: Endpoint,
  key: BodyOwner,
  body: Uint8Array,
): ModelRequest | Promise<ModelRequest> {
  const memory = body.length > SMALL_BODY_BYTES_MAX ? bodies.open(key, turn) : null;
  // Both the frame and the body are in memory already, so waiting would gain nothing.
  if (memory !== null && !memory.growNow(turn.frame.bytes.length + body.length)) {
    throw noCapacityError(bodies.retryAfterSeconds());
  }
  return requests.readJson(body, endpoint, memory);
}

function begin(context: RequestContext<Turn>, relay: Relay): void {
  context.call.begin(context, relay);
}
