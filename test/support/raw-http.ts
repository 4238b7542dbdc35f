/** Bytes on a socket: for requests that no HTTP client would send, and for responses in their exact form. */

import { connect, type Socket } from "node:net";

export interface RawHttpResponse {
  status: number;
  /** The status line and the headers, as sent. */
  head: string;
  body: string;
}

const TIMEOUT_MS = 15_000;
const CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n";

/** Sends the text and reads one response. `after` runs once the text is sent: it may send more. */
export function rawRequest(
  url: string,
  request: string | Uint8Array,
  after: (socket: Socket, received: () => Buffer) => void = () => {},
): Promise<RawHttpResponse> {
  const { port, hostname } = new URL(url);
  return new Promise((resolve, reject) => {
    let received: Buffer = Buffer.alloc(0);
    const socket = connect(Number(port), hostname, () => {
      socket.write(request, () => after(socket, () => received));
    });
    const timer = setTimeout(() => finish(), TIMEOUT_MS);
    const finish = (): void => {
      clearTimeout(timer);
      socket.destroy();
      const response = parseResponse(received);
      if (response === null) reject(new Error(`no answer, only: ${JSON.stringify(received.toString())}`));
      else resolve(response);
    };
    socket.on("data", (part) => {
      received = Buffer.concat([received, Buffer.from(part)]);
      if (isWhole(received)) finish();
    });
    socket.on("error", () => finish());
    socket.on("close", () => finish());
  });
}

export function readHeader(response: Pick<RawHttpResponse, "head">, name: string): string | null {
  return new RegExp(`^${name}: *(.*)$`, "im").exec(response.head)?.[1]?.trim() ?? null;
}

function parseResponse(received: Buffer): RawHttpResponse | null {
  const start = received.indexOf(CONTINUE) === 0 ? CONTINUE.length : 0;
  const end = received.indexOf("\r\n\r\n", start);
  if (end < 0) return null;
  const head = received.toString("latin1", start, end).replaceAll("\r\n", "\n");
  return { status: Number(head.split(" ")[1]), head, body: received.toString("utf8", end + 4) };
}

function isWhole(received: Buffer): boolean {
  const response = parseResponse(received);
  if (response === null) return false;
  const length = readHeader(response, "content-length");
  return length === null
    ? response.body.endsWith("\r\n0\r\n\r\n")
    : Buffer.byteLength(response.body) >= Number(length);
}
