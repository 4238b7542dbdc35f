/** A second port for faults that Bun.serve cannot produce. */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";

/**
 * The same simulator behind node:http, which allows to close its sockets: where the main port breaks a connection
 * with a reset, this one closes it with a plain FIN in the middle of the message, and `Content-Length` may be wrong.
 */
export interface FaultPort {
  port: number;
  close(): void;
}

export function openFaultPort(hostname: string, handle: (request: Request) => Promise<Response>): FaultPort {
  const server = createServer((incoming, outgoing) => {
    forward(incoming, outgoing, handle).catch(() => incoming.socket.destroy());
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

async function forward(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  handle: (request: Request) => Promise<Response>,
): Promise<void> {
  const parts: Buffer[] = [];
  for await (const part of incoming) parts.push(Buffer.from(part));
  const disconnected = new AbortController();
  outgoing.on("close", () => disconnected.abort());
  const method = incoming.method ?? "GET";
  const headers = new Headers();
  for (const [name, value] of Object.entries(incoming.headers)) {
    if (value !== undefined) headers.set(name, String(value));
  }
  const response = await handle(
    new Request(`http://${incoming.headers.host ?? "localhost"}${incoming.url ?? "/"}`, {
      method,
      headers,
      signal: disconnected.signal,
      ...(method === "GET" || method === "HEAD" ? {} : { body: Buffer.concat(parts) }),
    }),
  );
  const reader = response.body?.getReader();
  disconnected.signal.addEventListener("abort", () => void reader?.cancel().catch(() => {}));
  let isOpen = false;
  for (;;) {
    // A broken stream throws here, and the caller destroys the socket.
    const next = await (reader?.read() ?? { done: true, value: undefined });
    if (!isOpen) outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    isOpen = true;
    if (next.done) break;
    await new Promise<void>((flushed) => outgoing.write(next.value, () => flushed()));
  }
  outgoing.end();
}
