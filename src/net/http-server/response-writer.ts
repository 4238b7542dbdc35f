/** Writes responses to a connection. */

import { STATUS_CODES } from "node:http";
import { NO_BYTES, writeBytes } from "../../base/bytes.ts";
import { Cache } from "../../base/cache.ts";
import { type Part, partsLength, wholePart } from "../../base/parts.ts";
import type { Backpressure } from "../wire/body-sink.ts";
import {
  type HeaderLines,
  type HttpResponse,
  type SharedResponse,
  StreamedResponse,
  type StreamSink,
  type StreamSource,
  WholeResponse,
} from "../wire/http-message.ts";
import { writeBatcher } from "../wire/write-batcher.ts";
import type { Upgrade } from "./incoming-request.ts";

export interface ResponseWriter {
  /** Header lines that belong to the connection. */
  readonly connectionLines: string;
  readonly bufferedBytes: number;
  readonly isOver: boolean;
  endsByClosing(): boolean;
  /**
   * The sender of the body: it is resumed when all buffered bytes are sent, and aborted when the client disconnects
   * before the response is complete.
   */
  bodySource: Backpressure | null;
  write(bytes: Uint8Array, from?: number, to?: number): void;
  /** Writes bytes that never change: what the socket does not accept at once is not copied. */
  writeShared(bytes: Uint8Array): void;
  /** Sends this range of the write batcher's buffer. */
  batch(from: number, to: number): void;
  endResponse(): void;
  /** The response failed in the middle, so the client cannot know where it ends. */
  failResponse(thrown: unknown): void;
}

/** Up to this size, head and body are copied together and sent in one write. */
const TOGETHER_BYTES_MAX = 64 * 1024;
/** A slow client may have this many unsent bytes before the producer of the response must wait. */
const AHEAD_BYTES_MAX = 64 * 1024;
const LINE_END = "\r\n";
const LINE_END_BYTES = LINE_END.length;
/** Space for the framing of a chunk. */
const FRAMING_BYTES_MAX = 32;
/** `write` copies into the kernel or into the connection, so one buffer serves all responses. */
const scratch = Buffer.allocUnsafeSlow(TOGETHER_BYTES_MAX + FRAMING_BYTES_MAX);
const CR = 0x0d;
const LF = 0x0a;
const LAST_CHUNK = wholePart(Buffer.from("0\r\n\r\n"));
const NO_PARTS: readonly Part[] = [];

const statusLines = new Cache<number, string>({ name: "status lines", entriesMax: 1_000 });

const buildStatusLine = (status: number): string =>
  `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Unknown"}\r\n`;

function statusLine(status: number): string {
  return statusLines.getOrCreate(status, buildStatusLine);
}

function isBare(status: number): boolean {
  return status === 204 || status === 304;
}

export function writeWhole(writer: ResponseWriter, response: WholeResponse, isBodyless: boolean): void {
  const { status, headers, body } = response;
  const length = isBare(status) ? "" : `content-length: ${partsLength(body)}\r\n`;
  const head = `${statusLine(status)}${headers}${writer.connectionLines}${length}\r\n`;
  const parts = isBodyless || isBare(status) ? NO_PARTS : body;
  const at = writeBatcher.reserve(head.length + partsLength(parts));
  if (at < 0) writeTogether(writer, head, parts);
  else {
    let to = at + writeBatcher.bytes.write(head, at, "latin1");
    for (const { bytes, start, end } of parts) to = writeBytes(writeBatcher.bytes, to, bytes, start, end);
    writer.batch(at, to);
  }
  writer.endResponse();
}

function writeTogether(writer: ResponseWriter, head: string, body: readonly Part[]): void {
  flushScratch(writer, gather(writer, putHead(writer, head), body));
}

export function writeShared(writer: ResponseWriter, response: SharedResponse, isBodyless: boolean): void {
  const { status, headers, bytes } = response;
  if (isBodyless || isBare(status) || bytes.length <= TOGETHER_BYTES_MAX) {
    writeWhole(writer, new WholeResponse(status, formatHeaders(headers), bytes), isBodyless);
    return;
  }
  const length = `content-length: ${bytes.length}\r\n`;
  flushScratch(
    writer,
    putHead(writer, statusLine(status) + formatHeaders(headers) + writer.connectionLines + length + LINE_END),
  );
  writer.writeShared(bytes);
  writer.endResponse();
}

function formatHeaders(headers: Headers): string {
  return [...headers].map(([name, value]) => `${name}: ${value}\r\n`).join("");
}

/** Writes the head to the start of the scratch buffer and returns its end position. */
function putHead(writer: ResponseWriter, head: string): number {
  if (head.length <= TOGETHER_BYTES_MAX) return scratch.write(head, 0, "latin1");
  writer.write(Buffer.from(head, "latin1"));
  return 0;
}

export function startStream(writer: ResponseWriter, response: StreamedResponse, isBodyless: boolean): void {
  const { headers, source } = response;
  const stream = new StreamWriter(writer, source, { status: 200, headers });
  if (isBodyless) {
    stream.begin();
    source.abort();
    writer.endResponse();
    return;
  }
  writer.bodySource = source;
  source.flowTo(stream);
  // If the source has data already, it has written it together with the head before this runs.
  queueMicrotask(() => {
    try {
      stream.begin();
    } catch (thrown) {
      stream.fail(thrown);
    }
  });
}

class StreamWriter implements StreamSink {
  readonly #writer: ResponseWriter;
  readonly #source: Backpressure;
  readonly #isChunked: boolean;
  /** Sent together with the first piece; empty once it was sent. */
  #head: string;
  /** The connection now belongs to the next response. */
  #hasEnded = false;

  constructor(
    writer: ResponseWriter,
    source: Backpressure,
    { status, headers }: { status: number; headers: HeaderLines },
  ) {
    this.#writer = writer;
    this.#source = source;
    this.#isChunked = !writer.endsByClosing();
    const encoding = this.#isChunked ? "transfer-encoding: chunked\r\n" : "";
    this.#head = `${statusLine(status)}${headers}${writer.connectionLines}${encoding}\r\n`;
  }

  /** Sends the head alone, unless it was sent. */
  begin(): void {
    if (!this.#hasEnded && !this.#writer.isOver) flushScratch(this.#writer, this.#takeHead());
  }

  data(parts: readonly Part[]): void {
    const writer = this.#writer;
    if (this.#hasEnded || writer.isOver) return;
    this.#send(parts, NO_PARTS);
    if (writer.bufferedBytes > AHEAD_BYTES_MAX) this.#source.pause();
  }

  end(last: readonly Part[]): void {
    const writer = this.#writer;
    if (this.#hasEnded || writer.isOver) return;
    this.#hasEnded = true;
    this.#send(last, LAST_CHUNK);
    writer.endResponse();
  }

  fail(thrown: unknown): void {
    if (this.#hasEnded || this.#writer.isOver) return;
    this.#hasEnded = true;
    this.#writer.failResponse(thrown);
  }

  #send(parts: readonly Part[], suffix: readonly Part[]): void {
    const writer = this.#writer;
    const at = this.#takeHead();
    const length = partsLength(parts);
    if (!this.#isChunked) flushScratch(writer, gather(writer, at, parts));
    else if (length > 0) writeChunk(writer, at, parts, length, suffix);
    // An empty chunk would be the last one.
    else flushScratch(writer, gather(writer, at, suffix));
  }

  /** Moves the head to the start of the scratch buffer, unless it was sent. Returns its end position. */
  #takeHead(): number {
    const head = this.#head;
    if (head === "") return 0;
    this.#head = "";
    return putHead(this.#writer, head);
  }
}

/** Writes a chunk and the parts after it. `at` is the end of what is already in the scratch buffer. */
function writeChunk(
  writer: ResponseWriter,
  at: number,
  parts: readonly Part[],
  length: number,
  suffix: readonly Part[],
): void {
  const end = lineEnd(gather(writer, sizeLine(at, length), parts));
  flushScratch(writer, gather(writer, end, suffix));
}

/**
 * Copies the parts into the scratch buffer from `at` on. The buffer is written whenever it is full. A part longer
 * than the buffer is written directly. Returns the end of what remains to be written.
 */
function gather(writer: ResponseWriter, at: number, parts: readonly Part[]): number {
  let to = at;
  for (const { bytes, start, end } of parts) {
    const length = end - start;
    if (to + length > TOGETHER_BYTES_MAX) {
      flushScratch(writer, to);
      to = 0;
    }
    if (length > TOGETHER_BYTES_MAX) writer.write(bytes, start, end);
    else to = writeBytes(scratch, to, bytes, start, end);
  }
  return to;
}

function flushScratch(writer: ResponseWriter, to: number): void {
  if (to > 0) writer.write(scratch, 0, to);
}

/** Writes digit by digit: creating a string costs more than all other work here. */
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

/** Writes a `Response`, for rare cases. When the client disconnects, its stream is cancelled. */
export async function writeResponse(
  writer: ResponseWriter,
  response: Response,
  isBodyless: boolean,
): Promise<void> {
  const { status, headers, body } = response;
  const lines = formatHeaders(headers);
  const isLive = headers.get("content-type")?.startsWith("text/event-stream") === true;
  const source = new ReaderSource(body?.getReader() ?? null);
  writer.bodySource = source;
  try {
    // The second read shows whether the first one was the whole body.
    const first = isLive ? undefined : await source.read();
    const second = first === undefined ? undefined : await source.read();
    if (writer.isOver) return;
    if (!isLive && second === undefined) {
      writeWhole(writer, new WholeResponse(status, lines, first ?? NO_BYTES), isBodyless);
      return;
    }
    const stream = new StreamWriter(writer, source, { status, headers: lines });
    if (isBodyless || first === undefined) stream.begin();
    if (isBodyless) {
      source.abort();
      writer.endResponse();
      return;
    }
    if (first !== undefined && second !== undefined) stream.data(wholePart(Buffer.concat([first, second])));
    source.flowTo(stream);
  } catch (thrown) {
    // A source may fail because its client disconnected, which is not an error.
    if (!writer.isOver) writer.failResponse(thrown);
  }
}

type BodyReader = Pick<ReadableStreamDefaultReader<Uint8Array>, "read" | "cancel">;

/** Sends the body of a `Response`. */
class ReaderSource implements StreamSource {
  readonly #reader: BodyReader | null;
  /** Resolves when the source is resumed; null unless it is paused. */
  #pause: PromiseWithResolvers<void> | null = null;

  constructor(reader: BodyReader | null) {
    this.#reader = reader;
  }

  /** Returns undefined at the end. */
  async read(): Promise<Uint8Array | undefined> {
    return (await this.#reader?.read())?.value;
  }

  flowTo(sink: StreamSink): void {
    this.#send(sink).catch((thrown: unknown) => sink.fail(thrown));
  }

  pause(): void {
    this.#pause ??= Promise.withResolvers();
  }

  resume(): void {
    this.#pause?.resolve();
    this.#pause = null;
  }

  abort(): void {
    this.resume();
    this.#reader?.cancel().catch(() => {});
  }

  async #send(sink: StreamSink): Promise<void> {
    await this.#pause?.promise;
    for (let piece = await this.read(); piece !== undefined; piece = await this.read()) {
      sink.data(wholePart(piece));
      await this.#pause?.promise;
    }
    sink.end(NO_PARTS);
  }
}

/** Discards a response whose client has disconnected. */
export function abandonResponse(response: HttpResponse | Upgrade): void {
  if (response instanceof StreamedResponse) response.source.abort();
  else if (response instanceof Response) response.body?.cancel().catch(() => {});
}

/** A client that sent too slowly may still be sending. The connection is closed instead of waiting for the rest. */
export function isTooLate(response: HttpResponse | Upgrade): boolean {
  return response instanceof WholeResponse && response.status === 408;
}
