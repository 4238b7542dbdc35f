/**
 * A WebSocket at `/v1/responses`, as OpenAI serves it: one response at a time per lane, the others queued, and a
 * memory of each lane's last response that ends with the connection.
 */

import type { ServerWebSocket, WebSocketHandler } from "bun";
import { book, readCredential, SLOW_HEADERS_MS } from "../delivery/delivery.ts";
import { earlyFault } from "../delivery/faults.ts";
import type { Call } from "../endpoint.ts";
import { forcedFault, openEntry, REQUEST_ID } from "../entry.ts";
import {
  createRejection,
  invalid,
  missing,
  notJson,
  type Rejection,
  unsupportedParameter,
} from "../errors.ts";
import { isRecord, type JsonFields, parseJson, stringField, topLevelFields } from "../json-fields.ts";
import type { LedgerEntry } from "../ledger.ts";
import { type Fault, readBehaviour } from "../model/model-name.ts";
import { warmUpEvents } from "../openai/response-events.ts";
import type { ResponseStore, StoredResponse } from "../openai/response-store.ts";
import { createResponse } from "../openai/responses.ts";
import { type Frame, producedTokens, type Reply } from "../reply.ts";
import { readText } from "../request-body.ts";
import type { Simulation } from "../simulation.ts";
import { messageOps, type SocketOp } from "./socket-ops.ts";

const LANES_MAX = 32;
const WAITING_MAX = 64;
const LANE_NAME = /^[A-Za-z0-9_.-]{1,256}$/;
const MESSAGE_BYTES_MAX = 128 * 1024 * 1024;

export const SOCKET_HANDLERS: WebSocketHandler<SimulatedSocket> = {
  open: (ws) => ws.data.opened(ws),
  message: (ws, message) => ws.data.received(message),
  drain: (ws) => ws.data.drained(),
  close: (ws) => ws.data.closed(),
  maxPayloadLength: MESSAGE_BYTES_MAX,
  backpressureLimit: MESSAGE_BYTES_MAX,
  // Stalls are intended here, too.
  idleTimeout: 0,
  sendPings: false,
  perMessageDeflate: false,
};

interface Lane {
  /** Null is the lane of requests without a name. */
  readonly name: string | null;
  last: StoredResponse | null;
  readonly waiting: { text: string; fields: JsonFields }[];
  isBusy: boolean;
}

export class SimulatedSocket {
  readonly #simulation: Simulation;
  #number = 0;
  readonly #path: string;
  readonly #headers: Headers;
  readonly #lanes = new Map<string, Lane>();
  #ws: ServerWebSocket<SimulatedSocket> | null = null;
  readonly #gone = Promise.withResolvers<void>();
  #isGone = false;
  #goOn: (() => void) | null = null;

  constructor(simulation: Simulation, path: string, headers: Headers) {
    this.#simulation = simulation;
    this.#path = path;
    this.#headers = headers;
  }

  opened(ws: ServerWebSocket<SimulatedSocket>): void {
    this.#ws = ws;
    this.#number = this.#simulation.ledger.openSocket();
    this.#simulation.sockets.add(this);
  }

  drained(): void {
    this.#goOn?.();
  }

  closed(): void {
    this.#isGone = true;
    this.#simulation.sockets.delete(this);
    this.#simulation.ledger.closeSocket();
    this.#gone.resolve();
    this.#goOn?.();
  }

  /** Without a code the connection is reset. */
  end(code: number | null): void {
    if (code === null) this.#ws?.terminate();
    else this.#ws?.close(code);
  }

  received(message: string | Buffer): void {
    const rejection = this.#enqueue(message);
    if (rejection !== null) this.#reject(rejection, null);
  }

  #enqueue(message: string | Buffer): Rejection | null {
    if (typeof message !== "string") return invalid("type", "Send text frames.");
    const fields = topLevelFields(message);
    if (fields === null) return notJson();
    if (stringField(fields, "type") !== "response.create") {
      return invalid("type", "The only message known here is 'response.create'.");
    }
    const lane = this.#openLane(fields);
    if ("kind" in lane) return lane;
    if (lane.waiting.length >= WAITING_MAX) {
      return createRejection(429, { message: "Too many requests wait on this lane.", code: "slow_down" });
    }
    lane.waiting.push({ text: message, fields });
    if (!lane.isBusy) void this.#work(lane);
    return null;
  }

  #openLane(fields: JsonFields): Lane | Rejection {
    const streamIdField = fields.get("stream_id");
    const name = streamIdField === undefined ? null : (stringField(fields, "stream_id") ?? "");
    if (name !== null && !LANE_NAME.test(name)) {
      return createRejection(400, {
        message: "Bad lane name.",
        param: "stream_id",
        code: "invalid_stream_id",
      });
    }
    const key = name ?? "";
    const existing = this.#lanes.get(key);
    if (existing !== undefined) return existing;
    if (name !== null && [...this.#lanes.keys()].filter((one) => one !== "").length >= LANES_MAX) {
      return createRejection(400, {
        message: `A connection has at most ${LANES_MAX} lanes.`,
        param: "stream_id",
        code: "websocket_stream_limit_reached",
      });
    }
    const lane: Lane = { name, last: null, waiting: [], isBusy: false };
    this.#lanes.set(key, lane);
    return lane;
  }

  async #work(lane: Lane): Promise<void> {
    lane.isBusy = true;
    for (let next = lane.waiting.shift(); next !== undefined; next = lane.waiting.shift()) {
      if (this.#isGone) break;
      await this.#respond(lane, next.text, next.fields);
    }
    lane.isBusy = false;
  }

  async #respond(lane: Lane, text: string, received: JsonFields): Promise<void> {
    const simulation = this.#simulation;
    if (simulation.tokens.ready !== null) await simulation.tokens.ready;
    const model = stringField(received, "model");
    const behaviour = readBehaviour(model ?? "");
    const fault = forcedFault(simulation) ?? behaviour.fault;
    const id = simulation.newId(REQUEST_ID);
    const headers = this.#headers;
    const socket = this.#number;
    const body = readText(text, simulation.ledger.full);
    const entry = openEntry({ id, path: this.#path, headers, model: model ?? "", body, socket }, simulation);
    entry.stream = true;
    simulation.ledger.open(entry);

    const delayMs =
      fault?.name === "slow-headers" ? (fault.durationMs ?? SLOW_HEADERS_MS) : behaviour.firstMs;
    if (delayMs > 0) await this.#waited(delayMs);
    const early =
      fault === null
        ? null
        : earlyFault(fault, {
            streams: true,
            nowMs: entry.at,
            credential: readCredential(headers) ?? "",
          });
    if (early === "never") await this.#gone.promise;
    if (early === "reset") this.end(null);
    if (this.#isGone || early === "never" || early === "reset") {
      entry.abortedByClient = early !== "reset";
      simulation.ledger.close(entry);
      return;
    }
    const started: { response: StoredResponse | null } = { response: null };
    const reply = early ?? this.#replyTo(received, model, fault, entry, started);
    const how = await this.#deliver(lane, reply, entry, fault, behaviour.intervalMs);
    entry.finished = how === "finished";
    entry.abortedByClient = how === "aborted";
    simulation.ledger.close(entry);
    const isSuccess = how === "finished" && reply.kind === "events";
    if (isSuccess) lane.last = started.response;
    else this.#forget(stringField(received, "previous_response_id"));
    if (fault?.name === "connection-limit") this.end(1000);
  }

  #replyTo(
    received: JsonFields,
    model: string | null,
    fault: Fault | null,
    entry: LedgerEntry,
    started: { response: StoredResponse | null },
  ): Reply {
    const simulation = this.#simulation;
    if (fault?.name === "connection-limit") return connectionLimit();
    if (fault?.name === "forgets") for (const lane of this.#lanes.values()) lane.last = null;
    if (model === null) return missing("model");
    if (received.get("background") === "true") {
      return unsupportedParameter("background", "'background' is not supported over a WebSocket.");
    }
    // Fields of the transport are not part of the response.
    const fields = new Map(received);
    for (const name of ["type", "generate", "stream_id", "background", "stream_options"]) fields.delete(name);
    fields.set("stream", "true");
    const call: Call = {
      fields,
      behaviour: readBehaviour(model),
      fault,
      seed: simulation.seed,
      createdAt: Math.floor(entry.at / 1_000),
      newId: simulation.newId,
      promptCache: simulation.promptCache,
      tokens: simulation.tokens,
    };
    const keep = (response: StoredResponse) => {
      started.response = response;
    };
    if (received.get("generate") === "false") return warmUpEvents(call, keep);
    return createResponse(call, this.#memory(), keep);
  }

  /** Responses of this connection take precedence over stored ones. */
  #memory(): ResponseStore {
    const { store } = this.#simulation;
    return {
      ...store,
      get: (id) => this.#lastWith(id)?.last ?? store.get(id),
    };
  }

  #lastWith(id: string): Lane | undefined {
    return [...this.#lanes.values()].find(({ last }) => last?.planned.id === id);
  }

  /** A failed continuation cannot be retried from the same response. */
  #forget(id: string | null): void {
    const lane = id === null ? undefined : this.#lastWith(id);
    if (lane !== undefined) lane.last = null;
  }

  async #deliver(
    lane: Lane,
    reply: Reply,
    entry: LedgerEntry,
    fault: Fault | null,
    intervalMs: number,
  ): Promise<"finished" | "broken" | "aborted"> {
    if (reply.kind === "rejection") {
      this.#reject(reply, lane);
      return "finished";
    }
    if (reply.kind === "json") throw new Error("a WebSocket has nothing but streams");
    entry.inputTokens = reply.usage.input;
    entry.cachedTokens = reply.usage.cached;
    const tally = this.#simulation.tokens.openTally();
    const how = await this.#play(lane, messageOps(reply.frames, fault), intervalMs, (frame) => {
      entry.eventsSent++;
      if (frame.isTextDelta) entry.textDeltasSent++;
      tally.add(frame);
    });
    book(entry, reply, producedTokens(reply, tally.tokens(), how !== "finished"));
    return how;
  }

  async #play(
    lane: Lane,
    ops: Iterable<SocketOp>,
    intervalMs: number,
    onSent: (frame: Frame) => void,
  ): Promise<"finished" | "broken" | "aborted"> {
    let isFirst = true;
    for (const op of ops) {
      if (!isFirst) await (intervalMs > 0 ? this.#waited(intervalMs) : nextTurn());
      isFirst = false;
      if (this.#isGone) return "aborted";
      switch (op.kind) {
        case "message":
          await this.#send(withLane(op.text, lane.name));
          if (op.frame !== null) onSent(op.frame);
          break;
        case "ping":
          this.#ws?.ping();
          break;
        case "wait":
          await this.#waited(op.ms);
          break;
        case "error":
          this.#reject(
            createRejection(op.status, { message: op.message, type: op.code, code: op.code }),
            lane,
          );
          return "broken";
        case "close":
          this.end(op.code);
          return "broken";
        case "reset":
          this.end(null);
          return "broken";
        case "stall":
          await this.#gone.promise;
          return "aborted";
      }
    }
    return "finished";
  }

  /** Waits while the other side does not read. */
  async #send(text: string): Promise<void> {
    if (this.#ws === null || this.#ws.sendText(text) !== -1) return;
    await new Promise<void>((resolve) => {
      this.#goOn = resolve;
    });
    this.#goOn = null;
  }

  #reject(rejection: Rejection, lane: Lane | null): void {
    const parsed = parseJson(rejection.body);
    const errorFields =
      isRecord(parsed) && isRecord(parsed.error)
        ? parsed
        : { error: { type: "server_error", code: null, message: "Something went wrong.", param: null } };
    const { status, headers } = rejection;
    this.#ws?.sendText(
      withLane(JSON.stringify({ ...errorFields, type: "error", status, headers }), lane?.name ?? null),
    );
  }

  #waited(ms: number): Promise<unknown> {
    return Promise.race([Bun.sleep(ms), this.#gone.promise]);
  }
}

function connectionLimit(): Rejection {
  return createRejection(400, {
    message:
      "Responses websocket connection limit reached (60 minutes). Create a new websocket connection to continue.",
    code: "websocket_connection_limit_reached",
  });
}

function withLane(text: string, name: string | null): string {
  return name === null ? text : `${text.slice(0, -1)},"stream_id":"${name}"}`;
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
