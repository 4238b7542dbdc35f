/** Answers as bytes on a connection. */

import { STATUS_CODES } from "node:http";
import { put } from "../../wire/bytes.ts";
import { type Answer, StreamAnswer, WholeAnswer } from "../../wire/http-message.ts";
import type { Upgrade } from "./exchange.ts";

/** The connection that an answer goes out by. */
export interface Carrier {
  /** Lines of the head that are the connection's. */
  readonly connectionLines: string;
  readonly bufferedBytes: number;
  readonly isOver: boolean;
  endsByClosing(): boolean;
  /** To be called when the client leaves before the answer is finished. */
  whenLeft(leave: () => void): void;
  write(bytes: Uint8Array, from?: number, to?: number): void;
  room(): Promise<void>;
  finished(): void;
  /** In the middle of an answer: nobody can tell any more where it ends. */
  failed(thrown: unknown): void;
}

/** Head and body go out in one write up to here, copied together. */
const TOGETHER_BYTES_MAX = 64 * 1024;
/** So much may wait for a slow client before whoever makes the answer waits too. */
const AHEAD_BYTES_MAX = 64 * 1024;
/** Writing copies into the kernel, or into the connection: one buffer serves all. */
const scratch = Buffer.allocUnsafeSlow(TOGETHER_BYTES_MAX);
const LAST_CHUNK = Buffer.from("0\r\n\r\n");
const CRLF = 0x0d0a;
const NOTHING = new Uint8Array(0);

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

export function writeWhole(carrier: Carrier, answer: WholeAnswer, isBodyless: boolean): void {
  const { status, headers, body } = answer;
  const length = isBare(status) ? "" : `content-length: ${body.length}\r\n`;
  const head = `${statusLine(status)}${headers}${carrier.connectionLines}${length}\r\n`;
  writeTogether(carrier, head, isBodyless || isBare(status) ? null : body);
  carrier.finished();
}

function writeTogether(carrier: Carrier, head: string, body: Uint8Array | null): void {
  const bodyBytes = body?.length ?? 0;
  if (head.length + bodyBytes > TOGETHER_BYTES_MAX) {
    carrier.write(Buffer.from(head, "latin1"));
    if (body !== null) carrier.write(body);
    return;
  }
  scratch.write(head, 0, "latin1");
  const to = body === null ? head.length : put(scratch, head.length, body);
  carrier.write(scratch, 0, to);
}

export function startStream(carrier: Carrier, answer: StreamAnswer, isBodyless: boolean): void {
  const { headers, source } = answer;
  const flow = writeStreamHead(carrier, 200, headers);
  if (isBodyless) {
    source.leave();
    carrier.finished();
    return;
  }
  carrier.whenLeft(() => source.leave());
  source.flowTo(flow);
}

function writeStreamHead(carrier: Carrier, status: number, headers: string): Flow {
  const isChunked = !carrier.endsByClosing();
  const encoding = isChunked ? "transfer-encoding: chunked\r\n" : "";
  writeTogether(carrier, `${statusLine(status)}${headers}${carrier.connectionLines}${encoding}\r\n`, null);
  return new Flow(carrier, isChunked);
}

class Flow {
  private readonly carrier: Carrier;
  private readonly isChunked: boolean;
  /** The connection goes on with another answer. */
  private hasEnded = false;

  constructor(carrier: Carrier, isChunked: boolean) {
    this.carrier = carrier;
    this.isChunked = isChunked;
  }

  write(bytes: Uint8Array): Promise<unknown> | null {
    const { carrier } = this;
    if (this.hasEnded || carrier.isOver || bytes.length === 0) return null;
    if (this.isChunked) writeChunk(carrier, bytes);
    else carrier.write(bytes);
    return carrier.bufferedBytes > AHEAD_BYTES_MAX ? carrier.room() : null;
  }

  end(): void {
    const { carrier } = this;
    if (this.hasEnded || carrier.isOver) return;
    this.hasEnded = true;
    if (this.isChunked) carrier.write(LAST_CHUNK);
    carrier.finished();
  }
}

const SIZE_BYTES_MAX = 10;

function writeChunk(carrier: Carrier, bytes: Uint8Array): void {
  const size = bytes.length.toString(16);
  if (bytes.length + SIZE_BYTES_MAX + 4 > TOGETHER_BYTES_MAX) {
    carrier.write(Buffer.from(`${size}\r\n`));
    carrier.write(bytes);
    carrier.write(LAST_CHUNK, 3);
    return;
  }
  let to = scratch.write(size, 0, "latin1");
  scratch.writeUInt16BE(CRLF, to);
  to = put(scratch, to + 2, bytes);
  scratch.writeUInt16BE(CRLF, to);
  carrier.write(scratch, 0, to + 2);
}

/** For answers that are rare. Whoever made it learns that the client left by its stream being cancelled. */
export async function writeResponse(
  carrier: Carrier,
  response: Response,
  isBodyless: boolean,
): Promise<void> {
  const { status, headers, body } = response;
  const lines = [...headers].map(([name, value]) => `${name}: ${value}\r\n`).join("");
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
      writeWhole(carrier, new WholeAnswer(status, lines, first ?? NOTHING), isBodyless);
      return;
    }
    const flow = writeStreamHead(carrier, status, lines);
    if (isBodyless) {
      leave();
      carrier.finished();
      return;
    }
    let piece = first === undefined || second === undefined ? first : Buffer.concat([first, second]);
    while (reader !== null && !carrier.isOver) {
      if (piece !== undefined) await flow.write(piece);
      const read = await reader.read();
      if (read.done) break;
      piece = read.value;
    }
    flow.end();
  } catch (thrown) {
    // A source may fail because its client has left; that is no fault.
    if (!carrier.isOver) carrier.failed(thrown);
  }
}

/** Nobody is there to take it. */
export function abandon(answer: Answer | Upgrade): void {
  if (answer instanceof StreamAnswer) answer.source.leave();
  else if (answer instanceof Response) answer.body?.cancel().catch(() => {});
}

/** Whoever sent too slowly goes on sending: nobody waits for the rest. */
export function isLate(answer: Answer | Upgrade): boolean {
  return answer instanceof WholeAnswer && answer.status === 408;
}
