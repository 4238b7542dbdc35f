/** Bytes on a socket: for requests that no HTTP client would send, and for responses in their exact form. */

import { connect, type Socket } from "node:net";

export interface RawAnswer {
  status: number;
  /** The status line and the headers, as sent. */
  head: string;
  body: string;
}

const TIMEOUT_MS = 15_000;

/** Sends the text and reads one response. `after` runs once the text is sent: it may send more. */
export function rawRequest(
  url: string,
  request: string | Uint8Array,
  after: (socket: Socket) => void = () => {},
): Promise<RawAnswer> {
  const { port, hostname } = new URL(url);
  return new Promise((resolve, reject) => {
    let received: Buffer = Buffer.alloc(0);
    const socket = connect(Number(port), hostname, () => {
      socket.write(request, () => after(socket));
    });
    const timer = setTimeout(() => finish(), TIMEOUT_MS);
    const finish = (): void => {
      clearTimeout(timer);
      socket.destroy();
      const answer = parseAnswer(received);
      if (answer === null) reject(new Error(`no answer, only: ${JSON.stringify(received.toString())}`));
      else resolve(answer);
    };
    socket.on("data", (part) => {
      received = Buffer.concat([received, Buffer.from(part)]);
      if (isWhole(received)) finish();
    });
    socket.on("error", () => finish());
    socket.on("close", () => finish());
  });
}

export function readHeader(answer: Pick<RawAnswer, "head">, name: string): string | null {
  return new RegExp(`^${name}: *(.*)$`, "im").exec(answer.head)?.[1]?.trim() ?? null;
}

function parseAnswer(received: Buffer): RawAnswer | null {
  const end = received.indexOf("\r\n\r\n");
  if (end < 0) return null;
  const head = received.toString("latin1", 0, end).replaceAll("\r\n", "\n");
  return { status: Number(head.split(" ")[1]), head, body: received.toString("utf8", end + 4) };
}

function isWhole(received: Buffer): boolean {
  const answer = parseAnswer(received);
  if (answer === null) return false;
  const length = readHeader(answer, "content-length");
  return length === null
    ? answer.body.endsWith("\r\n0\r\n\r\n")
    : Buffer.byteLength(answer.body) >= Number(length);
}
