/** An upstream on a raw socket, for responses that no HTTP library would send: cut, reset, paced by the byte. */

import { createServer, type Socket } from "node:net";

export interface ScriptedRequest {
  path: string;
  body: Record<string, unknown>;
}

export interface ScriptedConnection {
  /** Resolves when the bytes have left this process. */
  write(bytes: string | Uint8Array): Promise<void>;
  /** Sends a FIN, complete message or not. */
  end(): void;
  reset(): void;
}

export interface ScriptedUpstream {
  /** As an account's `base_url`. */
  url: string;
  stop(): Promise<void>;
}

/** `answer` is called for each request, and writes its response from the status line on. */
export async function startScriptedUpstream(
  respond: (asked: ScriptedRequest, connection: ScriptedConnection) => Promise<void>,
): Promise<ScriptedUpstream> {
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    let received: Buffer = Buffer.alloc(0);
    const connection: ScriptedConnection = {
      write: (bytes) => new Promise((resolve) => socket.write(bytes, () => resolve())),
      end: () => socket.end(),
      reset: () => socket.resetAndDestroy(),
    };
    socket.on("close", () => sockets.delete(socket));
    // The gateway closes connections whose response it no longer needs.
    socket.on("error", () => {});
    socket.on("data", (part) => {
      received = Buffer.concat([received, Buffer.from(part)]);
      const request = takeRequest(received);
      if (request === null) return;
      received = request.rest;
      void respond(request.asked, connection);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the upstream has no port");
  return {
    url: `http://127.0.0.1:${address.port}/v1`,
    stop() {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

function takeRequest(received: Buffer): { asked: ScriptedRequest; rest: Buffer } | null {
  const headEnd = received.indexOf("\r\n\r\n");
  if (headEnd < 0) return null;
  const head = received.toString("latin1", 0, headEnd);
  const length = Number(/^content-length: *(\d+)$/im.exec(head)?.[1] ?? 0);
  const bodyEnd = headEnd + 4 + length;
  if (received.length < bodyEnd) return null;
  return {
    asked: {
      path: head.split(" ", 2)[1] ?? "",
      body: length === 0 ? {} : JSON.parse(received.toString("utf8", headEnd + 4, bodyEnd)),
    },
    rest: received.subarray(bodyEnd),
  };
}

export const EVENT_STREAM_HEAD =
  "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
export const LAST_CHUNK = "0\r\n\r\n";

export function buildChunk(bytes: Uint8Array): Buffer {
  return Buffer.concat([
    Buffer.from(`${bytes.length.toString(16)}\r\n`, "latin1"),
    bytes,
    Buffer.from("\r\n", "latin1"),
  ]);
}
