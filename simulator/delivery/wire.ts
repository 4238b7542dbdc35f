/** Operations on a simulated HTTP connection, with faults. */

import { type EventFraming, formatEventText, SERVER_EVENTS } from "../framing.ts";
import { googleBody } from "../gemini/google-rejection.ts";
import type { Fault, FaultPoint } from "../model/model-name.ts";
import { type Frame, frame } from "../reply.ts";

/** The operations on a connection, in order. Faults modify this list; `body-stream.ts` executes it. */
export type WireOp =
  | { kind: "bytes"; bytes: Uint8Array; frame: Frame | null }
  | { kind: "wait"; ms: number }
  /** Ends the body cleanly although the response is incomplete. */
  | { kind: "close" }
  | { kind: "reset" }
  | { kind: "stall" };

const HUGE_LINE_BYTES = 16 * 1024 * 1024;
const HUGE_PIECE = Buffer.alloc(64 * 1024, "a");
const PING_INTERVAL_MS = 50;
/** A reset discards bytes that the reader has not read from its socket, so it waits for this long first. */
const BEFORE_RESET_MS = 25;

type Render = (frame: Frame) => Buffer;

export function* eventOps(
  frames: Iterable<Frame>,
  fault: Fault | null,
  framing: EventFraming = SERVER_EVENTS,
): Generator<WireOp> {
  const render = renderFor(fault, framing);
  switch (fault?.name) {
    case "cut":
    case "rst":
    case "stall":
    case "pings":
    case "badline":
    case "hugeline":
    case "truncated":
    case "error-in-stream":
    case "corrupt":
      yield* applyFaultAtPoint(frames, fault, { framing, render });
      return;
    case "split":
      for (const one of frames) yield* splitIntoThree(render(one), one);
      return;
    default:
      for (const one of frames) yield { kind: "bytes", bytes: render(one), frame: one };
  }
}

function renderFor(fault: Fault | null, framing: EventFraming): Render {
  switch (fault?.name) {
    case "crlf":
      return (one) => Buffer.from(formatEventText(one).replaceAll("\n", "\r\n"));
    case "no-event-lines":
      return (one) => Buffer.from(`data: ${one.data}\n\n`);
    case "badjson":
      return (one) => framing.write({ ...one, data: one.data.slice(0, one.data.length / 2) });
    default:
      return framing.write;
  }
}

interface Writing {
  readonly framing: EventFraming;
  readonly render: Render;
}

function* applyFaultAtPoint(frames: Iterable<Frame>, fault: Fault, writing: Writing): Generator<WireOp> {
  const { framing, render } = writing;
  let point: FaultPoint | null = fault.point;
  let sentFrames = 0;
  let sentBytes = 0;
  let hasFailed = false;
  for (const one of frames) {
    point ??= defaultPoint(fault, one);
    const bytes = render(one);
    if (!hasFailed && isReached(point, sentFrames, sentBytes + bytes.length)) {
      hasFailed = true;
      const intact =
        point.unit === "byte" ? bytes.subarray(0, point.count - sentBytes) : bytes.subarray(0, 0);
      if (intact.length > 0) yield { kind: "bytes", bytes: intact, frame: null };
      else if (sentFrames === 0 && fault.name !== "cut") yield plain(framing.flush);
      yield* applyFault(fault, { next: one, bytes, sequence: sentFrames }, framing);
      if (!continuesAfter(fault)) return;
      yield { kind: "bytes", bytes: bytes.subarray(intact.length), frame: one };
    } else {
      yield { kind: "bytes", bytes, frame: one };
    }
    sentFrames++;
    sentBytes += bytes.length;
  }
}

function isReached(point: FaultPoint, sentFrames: number, bytesWithNext: number): boolean {
  return point.unit === "chunk" ? sentFrames === point.count : bytesWithNext > point.count;
}

/** An error in a stream follows delivered content; the other faults may occur anywhere. */
function defaultPoint(fault: Fault, first: Frame): FaultPoint {
  if (fault.name !== "error-in-stream") return { unit: "chunk", count: 3 };
  if (first.event === null) return { unit: "chunk", count: 3 };
  // After the start of the message, the start of its first block and two deltas.
  if (first.event === "message_start") return { unit: "chunk", count: 4 };
  return { unit: "chunk", count: first.event.startsWith("response.") ? 6 : 0 };
}

function continuesAfter(fault: Fault): boolean {
  if (fault.name === "stall") return fault.durationMs !== null;
  return fault.name === "badline" || fault.name === "hugeline";
}

interface FaultedEvent {
  readonly next: Frame;
  readonly bytes: Buffer;
  readonly sequence: number;
}

function* applyFault(
  fault: Fault,
  { next, bytes: nextBytes, sequence }: FaultedEvent,
  framing: EventFraming,
): Generator<WireOp> {
  switch (fault.name) {
    case "rst":
      yield* reset();
      return;
    case "truncated":
      yield plain(nextBytes.subarray(0, nextBytes.length / 2));
      yield* reset();
      return;
    case "stall":
      yield fault.durationMs === null ? { kind: "stall" } : { kind: "wait", ms: fault.durationMs };
      return;
    case "pings":
      for (;;) {
        yield { kind: "wait", ms: fault.durationMs ?? PING_INTERVAL_MS };
        yield plain(framing.ping);
      }
    case "badline":
      yield plain(framing.write(frame(next.event, '{"id":"broken","choices":[{"delta":')));
      return;
    case "corrupt":
      yield plain(flipLastByte(nextBytes));
      yield { kind: "stall" };
      return;
    case "hugeline":
      yield* hugeLine(next, fault.sizeBytes ?? HUGE_LINE_BYTES, framing);
      return;
    case "error-in-stream":
      yield plain(framing.write(errorFrame(next, sequence)));
      yield { kind: "close" };
      return;
    default:
      yield { kind: "close" };
  }
}

function* reset(): Generator<WireOp> {
  yield { kind: "wait", ms: BEFORE_RESET_MS };
  yield { kind: "reset" };
}

/** The end of a frame is its checksum. */
function flipLastByte(bytes: Buffer): Buffer {
  const flipped = Buffer.from(bytes);
  flipped[flipped.length - 1] = (flipped.at(-1) ?? 0) ^ 1;
  return flipped;
}

function* hugeLine(next: Frame, sizeBytes: number, framing: EventFraming): Generator<WireOp> {
  if (framing !== SERVER_EVENTS) {
    yield plain(framing.write({ ...next, data: JSON.stringify({ filler: "a".repeat(sizeBytes) }) }));
    return;
  }
  const event = next.event === null ? null : "response.simulator.filler";
  const opening =
    event === null
      ? '{"object":"chat.completion.chunk","choices":[],"filler":"'
      : `{"type":"${event}","filler":"`;
  const [head, tail] = formatEventText(frame(event, `${opening}\0"}`)).split("\0");
  yield plain(Buffer.from(head ?? ""));
  for (let left = sizeBytes; left > 0; left -= HUGE_PIECE.length) {
    yield plain(HUGE_PIECE.subarray(0, left));
  }
  yield plain(Buffer.from(tail ?? ""));
}

const MESSAGES_EVENT = /^(?:message|content_block)_|^ping$/;

function errorFrame(next: Frame, sequence: number): Frame {
  if (next.event !== null && MESSAGES_EVENT.test(next.event)) {
    const error = { type: "api_error", message: "Internal server error" };
    return frame("error", JSON.stringify({ type: "error", error }));
  }
  const message = "The server had an error while processing your request. Sorry about that!";
  const error = { message, type: "server_error", param: null, code: "server_error" };
  if (next.data.startsWith('{"candidates"')) return frame(null, googleBody(500, message));
  if (next.event === null) return frame(null, JSON.stringify({ error }));
  if (!next.event.startsWith("response.")) return frame("error", JSON.stringify({ type: "error", error }));
  const flat = { type: "error", code: "server_error", message, param: null, sequence_number: sequence };
  return frame("error", JSON.stringify(flat));
}

/** Three writes, one of which ends inside a multi-byte character if there is one. */
function* splitIntoThree(bytes: Buffer, one: Frame): Generator<WireOp> {
  const wide = bytes.findIndex((byte) => byte >= 0xc0);
  const first = wide >= 0 ? wide + 1 : Math.floor(bytes.length / 3);
  const second = Math.max(first + 1, bytes.length - 1);
  yield plain(bytes.subarray(0, first));
  yield plain(bytes.subarray(first, second));
  yield { kind: "bytes", bytes: bytes.subarray(second), frame: one };
}

/** The same faults for a plain JSON response. */
export function* bodyOps(text: string, fault: Fault): Generator<WireOp> {
  const bytes = Buffer.from(text);
  const half = Math.floor(bytes.length / 2);
  const at = fault.point?.unit === "byte" ? Math.min(fault.point.count, bytes.length) : half;
  switch (fault.name) {
    case "cut":
      yield plain(bytes.subarray(0, at));
      yield { kind: "close" };
      return;
    case "rst":
    case "truncated":
      if (at > 0) yield plain(bytes.subarray(0, at));
      yield* reset();
      return;
    case "stall":
    case "pings":
      if (at > 0) yield plain(bytes.subarray(0, at));
      if (fault.durationMs === null) yield { kind: "stall" };
      else yield { kind: "wait", ms: fault.durationMs };
      yield plain(bytes.subarray(at));
      return;
    case "badjson":
    case "badline":
      yield plain(bytes.subarray(0, -1));
      yield plain(Buffer.from(",,"));
      return;
    case "hugeline":
      yield plain(Buffer.from('{"filler":"'));
      for (let left = fault.sizeBytes ?? HUGE_LINE_BYTES; left > 0; left -= HUGE_PIECE.length) {
        yield plain(HUGE_PIECE.subarray(0, left));
      }
      yield plain(Buffer.from(`",${text.slice(1)}`));
      return;
    case "split":
      yield* splitIntoThree(bytes, frame(null, ""));
      return;
    default:
      yield plain(bytes);
  }
}

/** The faults of `bodyOps`. Any other fault leaves a plain JSON response intact. */
export const BODY_FAULTS: ReadonlySet<string> = new Set([
  "cut",
  "rst",
  "truncated",
  "stall",
  "pings",
  "badjson",
  "badline",
  "hugeline",
  "split",
]);

function plain(bytes: Buffer): WireOp {
  return { kind: "bytes", bytes, frame: null };
}
