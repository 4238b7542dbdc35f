/** Answers as bytes on a connection. */

import { STATUS_CODES } from "node:http";
import { writeBytes } from "../wire/bytes.ts";
import {
  type ClientSink,
  type HttpResponse,
  type SharedAnswer,
  StreamedResponse,
  WholeResponse,
} from "../wire/http-message.ts";
import { type Part, partsLength, wholePart } from "../wire/parts.ts";
import { writeBatcher } from "../wire/write-batcher.ts";
import type { Upgrade } from "./incoming-request.ts";

/** The connection that an answer goes out by. */
export interface ResponseWriter {
  /** Lines of the head that are the connection's. */
  readonly connectionLines: string;
  readonly bufferedBytes: number;
  readonly isOver: boolean;
  endsByClosing(): boolean;
  /** To be called when the client leaves before the answer is finished. */
  whenLeft(leave: () => void): void;
  write(bytes: Uint8Array, from?: number, to?: number): void;
  /** Bytes that never change: what is not taken at once is not copied. */
  writeShared(bytes: Uint8Array): void;
  /** What stands there in the outbox. */
  post(from: number, to: number): void;
  room(): Promise<void>;
  finished(): void;
  /** It failed in the middle of an answer, so the client cannot tell where the answer ends. */
  failed(thrown: unknown): void;
}

/** Head and body go out in one write up to here, copied together. */
const TOGETHER_BYTES_MAX = 64 * 1024;
/** So much may wait for a slow client before whoever makes the answer waits too. */
const AHEAD_BYTES_MAX = 64 * 1024;
const LINE_END = "\r\n";
const LINE_END_BYTES = LINE_END.length;
/** What stands around a chunk always finds room. */
const FRAMING_BYTES_MAX = 32;
/** Writing copies into the kernel, or into the connection: one buffer serves all. */
const scratch = Buffer.allocUnsafeSlow(TOGETHER_BYTES_MAX + FRAMING_BYTES_MAX);
const CR = 0x0d;
const LF = 0x0a;
const LAST_CHUNK = wholePart(Buffer.from("0\r\n\r\n"));
const NO_BYTES = new Uint8Array(0);
const NO_PARTS: readonly Part[] = [];

const statusLines = new Map<number, string>();

function statusLine(status: number): string {
  let line = statusLines.get(status);
  if (line === undefined) {
    line = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Unknown"}\r\n`;
    statusLines.set(status, line);
  }
  return line;
}

function isBare(status: number): boolean {
  return status === 204 || status === 304;
}

export function writeWhole(carrier: ResponseWriter, answer: WholeResponse, isBodyless: boolean): void {
  const { status, headers, body } = answer;
  const length = isBare(status) ? "" : `content-length: ${partsLength(body)}\r\n`;
  const head = `${statusLine(status)}${headers}${carrier.connectionLines}${length}\r\n`;
  const parts = isBodyless || isBare(status) ? NO_PARTS : body;
  const at = writeBatcher.roomFor(head.length + partsLength(parts));
  if (at < 0) writeTogether(carrier, head, parts);
  else {
    let to = at + writeBatcher.bytes.write(head, at, "latin1");
    for (const { bytes, start, end } of parts) to = writeBytes(writeBatcher.bytes, to, bytes, start, end);
    carrier.post(at, to);
  }
  carrier.finished();
}

function writeTogether(carrier: ResponseWriter, head: string, body: readonly Part[]): void {
  finish(carrier, gather(carrier, putHead(carrier, head), body));
}

export function writeShared(carrier: ResponseWriter, answer: SharedAnswer, isBodyless: boolean): void {
  const { status, headers, bytes } = answer;
  if (isBodyless || isBare(status) || bytes.length <= TOGETHER_BYTES_MAX) {
    writeWhole(carrier, new WholeResponse(status, linesOf(headers), bytes), isBodyless);
    return;
  }
  const length = `content-length: ${bytes.length}\r\n`;
  finish(
    carrier,
    putHead(carrier, statusLine(status) + linesOf(headers) + carrier.connectionLines + length + LINE_END),
  );
  carrier.writeShared(bytes);
  carrier.finished();
}

function linesOf(headers: Headers): string {
  return [...headers].map(([name, value]) => `${name}: ${value}\r\n`).join("");
}

/** At the front of the scratch buffer. Returns where it ends there. */
function putHead(carrier: ResponseWriter, head: string): number {
  if (head.length <= TOGETHER_BYTES_MAX) return scratch.write(head, 0, "latin1");
  carrier.write(Buffer.from(head, "latin1"));
  return 0;
}

export function startStream(carrier: ResponseWriter, answer: StreamedResponse, isBodyless: boolean): void {
  const { headers, source } = answer;
  const flow = openFlow(carrier, 200, headers);
  if (isBodyless) {
    flow.begin();
    source.leave();
    carrier.finished();
    return;
  }
  carrier.whenLeft(() => source.leave());
  source.flowTo(flow);
  // A source that has something to say already says it before this.
  queueMicrotask(() => {
    try {
      flow.begin();
    } catch (thrown) {
      carrier.failed(thrown);
    }
  });
}

function openFlow(carrier: ResponseWriter, status: number, headers: string): Flow {
  const isChunked = !carrier.endsByClosing();
  const encoding = isChunked ? "transfer-encoding: chunked\r\n" : "";
  const head = `${statusLine(status)}${headers}${carrier.connectionLines}${encoding}\r\n`;
  return new Flow(carrier, head, isChunked);
}

class Flow implements ClientSink {
  private readonly carrier: ResponseWriter;
  private readonly isChunked: boolean;
  /** Goes out with what is said first; empty when it is gone. */
  private head: string;
  /** The connection goes on with another answer. */
  private hasEnded = false;

  constructor(carrier: ResponseWriter, head: string, isChunked: boolean) {
    this.carrier = carrier;
    this.head = head;
    this.isChunked = isChunked;
  }

  /** The head goes out alone, unless it is gone. */
  begin(): void {
    if (!this.hasEnded && !this.carrier.isOver) finish(this.carrier, this.takeHead());
  }

  write(parts: readonly Part[]): Promise<unknown> | null {
    const { carrier } = this;
    if (this.hasEnded || carrier.isOver) return null;
    this.send(parts, NO_PARTS);
    return carrier.bufferedBytes > AHEAD_BYTES_MAX ? carrier.room() : null;
  }

  end(last: readonly Part[]): void {
    const { carrier } = this;
    if (this.hasEnded || carrier.isOver) return;
    this.hasEnded = true;
    this.send(last, LAST_CHUNK);
    carrier.finished();
  }

  private send(parts: readonly Part[], behind: readonly Part[]): void {
    const { carrier } = this;
    const at = this.takeHead();
    const length = partsLength(parts);
    if (!this.isChunked) finish(carrier, gather(carrier, at, parts));
    else if (length > 0) writeChunk(carrier, at, parts, length, behind);
    // A chunk of nothing would be the last one.
    else finish(carrier, gather(carrier, at, behind));
  }

  /** Puts it at the front of the scratch buffer, if it is to go out now. Returns where it ends there. */
  private takeHead(): number {
    const { head } = this;
    if (head === "") return 0;
    this.head = "";
    return putHead(this.carrier, head);
  }
}

/** A chunk and what stands behind it; what stands before it ends at `at`. */
function writeChunk(
  carrier: ResponseWriter,
  at: number,
  parts: readonly Part[],
  length: number,
  behind: readonly Part[],
): void {
  const to = lineEnd(gather(carrier, sizeLine(at, length), parts));
  finish(carrier, gather(carrier, to, behind));
}

/**
 * Into the scratch buffer from here on, which is written whenever it is full; a part that is longer goes out from where
 * it stands. Returns where what is left to be written ends.
 */
function gather(carrier: ResponseWriter, at: number, parts: readonly Part[]): number {
  let to = at;
  for (const { bytes, start, end } of parts) {
    const length = end - start;
    if (to + length > TOGETHER_BYTES_MAX) {
      finish(carrier, to);
      to = 0;
    }
    if (length > TOGETHER_BYTES_MAX) carrier.write(bytes, start, end);
    else to = writeBytes(scratch, to, bytes, start, end);
  }
  return to;
}

function finish(carrier: ResponseWriter, to: number): void {
  if (to > 0) carrier.write(scratch, 0, to);
}

/** Digit by digit: a string of them costs more than all else here. */
function sizeLine(at: number, value: number): number {
  let to = at;
  for (let shift = (31 - Math.clz32(value)) & ~3; shift >= 0; shift -= 4) {
    const digit = (value >>> shift) & 15;
    scratch[to++] = digit < 10 ? 48 + digit : 87 + digit;
  }
  return lineEnd(to);
}

function lineEnd(at: number): number {
  scratch[at] = CR;
  scratch[at + 1] = LF;
  return at + LINE_END_BYTES;
}

/** For answers that are rare. Whoever made it learns that the client left by its stream being cancelled. */
export async function writeResponse(
  carrier: ResponseWriter,
  response: Response,
  isBodyless: boolean,
): Promise<void> {
  const { status, headers, body } = response;
  const lines = linesOf(headers);
  const isLive = headers.get("content-type")?.startsWith("text/event-stream") === true;
  const reader = body?.getReader() ?? null;
  const leave = () => void reader?.cancel().catch(() => {});
  carrier.whenLeft(leave);
  try {
    // Two reads tell whether one was all.
    const first = isLive ? undefined : (await reader?.read())?.value;
    const second = first === undefined ? undefined : (await reader?.read())?.value;
    if (carrier.isOver) return;
    if (!isLive && second === undefined) {
      writeWhole(carrier, new WholeResponse(status, lines, first ?? NO_BYTES), isBodyless);
      return;
    }
    const flow = openFlow(carrier, status, lines);
    if (isBodyless || first === undefined) flow.begin();
    if (isBodyless) {
      leave();
      carrier.finished();
      return;
    }
    let piece = first === undefined || second === undefined ? first : Buffer.concat([first, second]);
    while (reader !== null && !carrier.isOver) {
      if (piece !== undefined) await flow.write(wholePart(piece));
      const read = await reader.read();
      if (read.done) break;
      piece = read.value;
    }
    flow.end(NO_PARTS);
  } catch (thrown) {
    // A source may fail because its client has left; that is no fault.
    if (!carrier.isOver) carrier.failed(thrown);
  }
}

/** Nobody is there to take it. */
export function abandonResponse(answer: HttpResponse | Upgrade): void {
  if (answer instanceof StreamedResponse) answer.source.leave();
  else if (answer instanceof Response) answer.body?.cancel().catch(() => {});
}

/** Whoever sent too slowly goes on sending: nobody waits for the rest. */
export function isTooLate(answer: HttpResponse | Upgrade): boolean {
  return answer instanceof WholeResponse && answer.status === 408;
}
