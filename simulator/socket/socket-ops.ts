/** Operations on a simulated WebSocket, with faults. */

import { CANARY_WORDS } from "../delivery/faults.ts";
import type { Fault, FaultPoint } from "../model/model-name.ts";
import type { Frame } from "../reply.ts";

/** The operations on a WebSocket, in order: the counterpart of `wire.ts` for messages. `socket.ts` executes them. */
export type SocketOp =
  | { kind: "message"; text: string; frame: Frame | null }
  | { kind: "ping" }
  | { kind: "wait"; ms: number }
  | { kind: "error"; status: number; code: string; message: string }
  /** Closes although the response is incomplete. */
  | { kind: "close"; code: number }
  | { kind: "reset" }
  | { kind: "stall" };

const HUGE_MESSAGE_BYTES = 16 * 1024 * 1024;
const PING_INTERVAL_MS = 50;
/** A reset discards bytes that the reader has not read from its socket, so it waits for this long first. */
const BEFORE_RESET_MS = 25;
const FAULT_POINTS: ReadonlyMap<string, FaultPoint> = new Map([
  // After the second text delta: an error in a stream follows delivered content.
  ["error-in-stream", { unit: "chunk", count: 6 }],
  ["crash", { unit: "chunk", count: 0 }],
]);
const DEFAULT_POINT: FaultPoint = { unit: "chunk", count: 3 };

export function* messageOps(frames: Iterable<Frame>, fault: Fault | null): Generator<SocketOp> {
  if (fault?.name === "private-events") yield* privateEvents();
  if (fault === null || !INTERRUPTING.has(fault.name)) {
    for (const one of frames) yield { kind: "message", text: formatText(one, fault), frame: one };
    if (fault?.name === "late-events") yield* lateEvents(fault.durationMs ?? 0);
    return;
  }
  const point = fault.point ?? FAULT_POINTS.get(fault.name) ?? DEFAULT_POINT;
  let sentCount = 0;
  let sentBytes = 0;
  let hasFailed = false;
  for (const one of frames) {
    sentBytes += Buffer.byteLength(one.data);
    if (!hasFailed && (point.unit === "chunk" ? sentCount === point.count : sentBytes > point.count)) {
      hasFailed = true;
      yield* applyFault(fault);
      if (!CONTINUING.has(fault.name) && !(fault.name === "stall" && fault.durationMs !== null)) return;
    }
    yield { kind: "message", text: one.data, frame: one };
    sentCount++;
  }
}

function formatText({ data }: Frame, fault: Fault | null): string {
  if (fault?.name === "badjson") return data.slice(0, data.length / 2);
  if (fault?.name !== "event-headers") return data;
  const headers = JSON.stringify({ "openai-organization": CANARY_WORDS[0] });
  return data.replace('"response":{', `"headers":${headers},"response":{"headers":${headers},`);
}

const CONTINUING: ReadonlySet<string> = new Set(["badline", "hugeline"]);
const INTERRUPTING: ReadonlySet<string> = new Set([
  ...CONTINUING,
  "cut",
  "rst",
  "truncated",
  "stall",
  "pings",
  "error-in-stream",
  "crash",
]);

function* applyFault(fault: Fault): Generator<SocketOp> {
  switch (fault.name) {
    case "cut":
      yield { kind: "close", code: 1000 };
      return;
    case "crash":
      yield { kind: "close", code: 1011 };
      return;
    case "stall":
      yield fault.durationMs === null ? { kind: "stall" } : { kind: "wait", ms: fault.durationMs };
      return;
    case "pings":
      for (;;) {
        yield { kind: "wait", ms: fault.durationMs ?? PING_INTERVAL_MS };
        yield { kind: "ping" };
      }
    case "badline":
      yield plain('{"type":"response.output_text.delta","delta":');
      return;
    case "hugeline": {
      const filler = "a".repeat(fault.sizeBytes ?? HUGE_MESSAGE_BYTES);
      yield plain(`{"type":"response.simulator.filler","filler":"${filler}"}`);
      return;
    }
    case "error-in-stream":
      yield {
        kind: "error",
        status: 500,
        code: "server_error",
        message: "The server had an error while processing your request. Sorry about that!",
      };
      return;
    default:
      yield { kind: "wait", ms: BEFORE_RESET_MS };
      yield { kind: "reset" };
  }
}

/** Messages of OpenAI to Codex about the account. A gateway must not forward them to its clients. */
function* privateEvents(): Generator<SocketOp> {
  const secret = CANARY_WORDS.join(" ");
  yield plain(JSON.stringify({ type: "codex.rate_limits", plan_type: secret, rate_limits: {} }));
  yield plain(JSON.stringify({ type: "response.metadata", headers: { "x-codex-turn-state": secret } }));
  yield plain(JSON.stringify({ headers: { "x-models-etag": secret }, type: "codex.response.metadata" }));
}

/** Further events of a response that has ended. */
function* lateEvents(afterMs: number): Generator<SocketOp> {
  yield { kind: "wait", ms: afterMs };
  const secret = CANARY_WORDS.join(" ");
  yield plain(JSON.stringify({ type: "response.output_text.delta", sequence_number: 1, delta: secret }));
  const response = { id: "resp_late", object: "response", status: "completed", output: [], note: secret };
  yield plain(JSON.stringify({ type: "response.completed", sequence_number: 2, response }));
}

function plain(text: string): SocketOp {
  return { kind: "message", text, frame: null };
}
