/**
 * A strict client on a raw connection: it sends the given bytes in the given pieces and parses responses by the
 * letter of RFC 9112. A malformed response is an error.
 */

import { connect } from "node:net";

/** How the server ended the connection. */
export type ConnectionEnd = "fin" | "reset";

export interface RawResponse {
  version: "1.0" | "1.1";
  status: number;
  /** Null if there is none. A header that must occur once and is repeated is an error. */
  header(name: string): string | null;
  /** The names, in lower case. */
  names: readonly string[];
  framing: "none" | "length" | "chunked" | "until_close";
  body: Buffer;
  /** The chunks of the body; empty if it is not chunked. */
  chunks: readonly Buffer[];
}

export interface RawClient {
  /** Resolves when the bytes have left this process. */
  send(bytes: string | Uint8Array): Promise<void>;
  /** Each piece in a separate packet, which the other side reads before the next one is sent. */
  sendPieces(pieces: readonly (string | Uint8Array)[]): Promise<void>;
  /** The next response, interim ones included; or how the connection ended instead. */
  next(method?: "HEAD"): Promise<RawResponse | ConnectionEnd>;
  /** The next response; an end instead of it is an error. */
  readResponse(method?: "HEAD"): Promise<RawResponse>;
  readonly closed: Promise<ConnectionEnd>;
  /** Bytes that have arrived and are not part of a parsed response. */
  unread(): Buffer;
  /** Ends its own side of the connection, and continues to read. */
  finish(): void;
  /** Stops reading from the socket, or resumes. */
  pause(): void;
  resume(): void;
  close(how: ConnectionEnd): void;
}

const TIMEOUT_MS = 15_000;
const CRLF = "\r\n";

export async function openRawClient(url: string): Promise<RawClient> {
  const { port, hostname } = new URL(url);
  const socket = connect({ port: Number(port), host: hostname, noDelay: true, allowHalfOpen: true });
  const incoming = collectIncoming();
  socket.on("data", (part) => incoming.push(Buffer.from(part)));
  socket.on("end", () => incoming.end("fin"));
  socket.on("error", () => incoming.end("reset"));
  socket.on("close", () => incoming.end("fin"));
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", reject);
  });

  const client: RawClient = {
    // Writes to a connection that the server has closed are ignored: the responses show what happened.
    send: (bytes) => new Promise((resolve) => socket.write(bytes, () => resolve())),
    async sendPieces(pieces) {
      for (const piece of pieces) {
        await client.send(piece);
        await waitUntilRead();
      }
    },
    next: (method) => readRawResponse(incoming, method ?? null),
    async readResponse(method) {
      const next = await client.next(method);
      if (typeof next === "string") throw new Error(`no response but the end of the connection: ${next}`);
      return next;
    },
    closed: incoming.ended,
    unread: incoming.unread,
    finish: () => void socket.end(),
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
    close(how) {
      if (how === "reset") socket.resetAndDestroy();
      else socket.destroy();
    },
  };
  return client;
}

/** Two turns of the event loop: written bytes arrive in the first, and are read in the second. */
async function waitUntilRead(): Promise<void> {
  for (let round = 0; round < 2; round++) await new Promise<void>((resolve) => setImmediate(resolve));
}

interface Incoming {
  push(part: Buffer): void;
  end(how: ConnectionEnd): void;
  readonly ended: Promise<ConnectionEnd>;
  unread(): Buffer;
  /** A line without its end; null if the connection ended before the line began. */
  line(): Promise<string | null>;
  exactly(length: number): Promise<Buffer>;
  toEnd(): Promise<Buffer>;
  connectionEnd(): ConnectionEnd | null;
}

function collectIncoming(): Incoming {
  let parts: Buffer[] = [];
  let connectionEnd: ConnectionEnd | null = null;
  let wake = () => {};
  const ended = Promise.withResolvers<ConnectionEnd>();

  function all(): Buffer {
    const [first, second] = parts;
    const whole = first !== undefined && second === undefined ? first : Buffer.concat(parts);
    parts = [whole];
    return whole;
  }

  function take(length: number): Buffer {
    const whole = all();
    parts = [whole.subarray(length)];
    return whole.subarray(0, length);
  }

  /** False at the end of the connection. */
  async function more(): Promise<boolean> {
    if (connectionEnd !== null) return false;
    const woken = new Promise<true>((resolve) => {
      wake = () => resolve(true);
    });
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<false>((resolve) => {
      timer = setTimeout(resolve, TIMEOUT_MS, false);
    });
    const came = await Promise.race([woken, late]);
    clearTimeout(timer);
    if (!came) throw new Error(`nothing comes, and the connection stays open after: ${shown(all())}`);
    return true;
  }

  return {
    push(part) {
      parts.push(part);
      wake();
    },
    end(how) {
      connectionEnd ??= how;
      ended.resolve(connectionEnd);
      wake();
    },
    ended: ended.promise,
    unread: all,
    async line() {
      for (;;) {
        const whole = all();
        const end = whole.indexOf("\n");
        if (end >= 0) return lineIn(take(end + 1));
        if (await more()) continue;
        if (whole.length > 0) throw new Error(`the connection ended within a line: ${shown(whole)}`);
        return null;
      }
    },
    async exactly(length) {
      while (parts.reduce((sum, part) => sum + part.length, 0) < length) {
        if (!(await more()))
          throw new Error(`the connection ended ${connectionEnd} before ${length} bytes of a body`);
      }
      return take(length);
    },
    async toEnd() {
      while (await more());
      return take(all().length);
    },
    connectionEnd: () => connectionEnd,
  };
}

function lineIn(bytes: Buffer): string {
  const text = bytes.toString("latin1");
  if (!text.endsWith(CRLF) || text.indexOf("\r") !== text.length - 2) {
    throw new Error(`a line that does not end as lines do: ${shown(bytes)}`);
  }
  return text.slice(0, -2);
}

async function readRawResponse(
  incoming: Incoming,
  method: "HEAD" | null,
): Promise<RawResponse | ConnectionEnd> {
  const statusLine = await incoming.line();
  if (statusLine === null) return incoming.connectionEnd() ?? "fin";
  const [, version, status] = /^HTTP\/(1\.[01]) ([1-5]\d\d) [\x20-\x7e]*$/.exec(statusLine) ?? [];
  if (version === undefined) throw new Error(`no status line: ${JSON.stringify(statusLine)}`);
  const fields = await readFields(incoming);
  const header = (name: string): string | null => {
    const values = fields.filter(([other]) => other === name).map(([, value]) => value);
    if (values.length > 1) throw new Error(`${name} comes ${values.length} times`);
    return values[0] ?? null;
  };
  const length = header("content-length");
  const coding = header("transfer-encoding");
  if (length !== null && coding !== null) throw new Error("an response with a length and with chunks");
  const response = {
    version: version === "1.0" ? version : "1.1",
    status: Number(status),
    header,
    names: fields.map(([name]) => name),
  } as const;
  const code = response.status;
  if (code < 200 || code === 204 || code === 304 || method === "HEAD") {
    return { ...response, framing: "none", body: Buffer.alloc(0), chunks: [] };
  }
  if (length !== null) {
    if (!/^\d+$/.test(length)) throw new Error(`no length: ${length}`);
    return { ...response, framing: "length", body: await incoming.exactly(Number(length)), chunks: [] };
  }
  if (coding === null)
    return { ...response, framing: "until_close", body: await incoming.toEnd(), chunks: [] };
  if (coding !== "chunked") throw new Error(`an unknown coding: ${coding}`);
  const chunks = await readChunks(incoming);
  return { ...response, framing: "chunked", body: Buffer.concat(chunks), chunks };
}

async function readFields(incoming: Incoming): Promise<[name: string, value: string][]> {
  const fields: [string, string][] = [];
  for (;;) {
    const line = await incoming.line();
    if (line === "") return fields;
    const [, name, value] =
      /^([\w!#$%&'*+.^`|~-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*$/.exec(line ?? "") ?? [];
    if (name === undefined || value === undefined) throw new Error(`no header: ${JSON.stringify(line)}`);
    fields.push([name.toLowerCase(), value]);
  }
}

async function readChunks(incoming: Incoming): Promise<Buffer[]> {
  const chunks: Buffer[] = [];
  for (;;) {
    const line = await incoming.line();
    if (line === null || !/^[0-9a-fA-F]{1,8}$/.test(line))
      throw new Error(`no chunk: ${JSON.stringify(line)}`);
    const size = Number.parseInt(line, 16);
    if (size > 0) chunks.push(await incoming.exactly(size));
    if ((await incoming.line()) !== "") throw new Error("a chunk is longer than its size");
    if (size === 0) return chunks;
  }
}

function shown(bytes: Buffer): string {
  return JSON.stringify(bytes.toString("latin1", 0, 300));
}
