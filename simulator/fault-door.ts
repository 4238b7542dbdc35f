import { createServer, type IncomingMessage, type ServerResponse } from "node:http";

/**
 * The same simulator behind node:http, which lets go of its sockets: where the main port breaks a connection
 * by a reset, this one ends it with a plain FIN in the middle of the message, and a `Content-Length` may lie.
 */
export interface FaultDoor {
  port: number;
  close(): void;
}

export function openFaultDoor(hostname: string, handle: (request: Request) => Promise<Response>): FaultDoor {
  const server = createServer((incoming, outgoing) => {
    pass(incoming, outgoing, handle).catch(() => incoming.socket.destroy());
  });
  server.listen(0, hostname);
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : 0,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

async function pass(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  handle: (request: Request) => Promise<Response>,
): Promise<void> {
  const parts: Buffer[] = [];
  for await (const part of incoming) parts.push(Buffer.from(part));
  const gone = new AbortController();
  outgoing.on("close", () => gone.abort());
  const method = incoming.method ?? "GET";
  const headers = new Headers();
  for (const [name, value] of Object.entries(incoming.headers)) {
    if (value !== undefined) headers.set(name, String(value));
  }
  const response = await handle(
    new Request(`http://${incoming.headers.host ?? "localhost"}${incoming.url ?? "/"}`, {
      method,
      headers,
      signal: gone.signal,
      ...(method === "GET" || method === "HEAD" ? {} : { body: Buffer.concat(parts) }),
    }),
  );
  const reader = response.body?.getReader();
  gone.signal.addEventListener("abort", () => void reader?.cancel().catch(() => {}));
  let isOpen = false;
  for (;;) {
    // A stream that breaks throws here, and the caller lets the socket go.
    const next = await (reader?.read() ?? { done: true, value: undefined });
    if (!isOpen) outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    isOpen = true;
    if (next.done) break;
    await new Promise<void>((flushed) => outgoing.write(next.value, () => flushed()));
  }
  outgoing.end();
}
