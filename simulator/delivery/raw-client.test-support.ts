/** Test support: a raw TCP client that shows how a response was framed and how it ended. */

import { connect } from "node:net";

/** The raw bytes of a response: HTTP clients hide how a response ended. */
export interface RawHttpResponse {
  head: string;
  /** The chunks of the body, as framed. */
  chunks: Buffer[];
  body: string;
  ended: "message" | "reset" | "fin" | "open";
}

export interface RawOptions {
  /** Stop reading after this much of the response. */
  until?: (received: string) => boolean;
}

export function rawPost(
  base: string,
  path: string,
  body: object,
  options: RawOptions = {},
): Promise<RawHttpResponse> {
  const url = new URL(base);
  const text = JSON.stringify(body);
  const request = `POST ${url.pathname}${path} HTTP/1.1\r\nHost: ${url.host}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
  return new Promise((resolve) => {
    const socket = connect(Number(url.port), url.hostname);
    let received: Buffer = Buffer.alloc(0);
    const finish = (ended: RawHttpResponse["ended"]): void => {
      socket.destroy();
      resolve(parsed(received, ended));
    };
    socket.on("data", (part) => {
      received = Buffer.concat([received, Buffer.from(part)]);
      if (isWhole(received)) finish("message");
      else if (options.until?.(received.toString()) === true) finish("open");
    });
    socket.on("error", () => finish("reset"));
    socket.on("end", () => finish("fin"));
    socket.write(request);
  });
}

function isWhole(received: Buffer): boolean {
  const { head, body, bodyAt } = sections(received);
  if (bodyAt < 0) return false;
  const length = /^content-length: (\d+)$/im.exec(head);
  return length === null ? body.toString("latin1").endsWith("0\r\n\r\n") : body.length >= Number(length[1]);
}

function sections(received: Buffer): { head: string; body: Buffer; bodyAt: number } {
  const end = received.indexOf("\r\n\r\n");
  if (end < 0) return { head: received.toString(), body: Buffer.alloc(0), bodyAt: -1 };
  return { head: received.toString("latin1", 0, end), body: received.subarray(end + 4), bodyAt: end + 4 };
}

function parsed(received: Buffer, ended: RawHttpResponse["ended"]): RawHttpResponse {
  const { head, body } = sections(received);
  if (!/^transfer-encoding: chunked$/im.test(head))
    return { head, chunks: [body], body: body.toString(), ended };
  const chunks: Buffer[] = [];
  for (let at = 0; at < body.length; ) {
    const lineEnd = body.indexOf("\r\n", at);
    const size = Number.parseInt(body.toString("latin1", at, lineEnd), 16);
    if (lineEnd < 0 || !(size > 0)) break;
    chunks.push(body.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = lineEnd + 2 + size + 2;
  }
  return { head, chunks, body: Buffer.concat(chunks).toString(), ended };
}
