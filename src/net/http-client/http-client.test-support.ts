/** Test support: an upstream that the test controls, and a response sink that records its calls. */

import { createServer, type Server, type Socket } from "node:net";
import { systemClock } from "../../base/clock.ts";
import { openDeadlines } from "../../base/deadlines.ts";
import { type Part, partBytes } from "../../base/parts.ts";
import { type HttpClientOptions, openHttpClient } from "./client.ts";
import type { HttpClient, ResponseHeaders } from "./contract.ts";
import type { DialTarget } from "./dial.ts";

const deadlines = openDeadlines(5, systemClock);

export function openClient(options: Partial<HttpClientOptions> = {}): HttpClient {
  return openHttpClient({
    deadlines,
    clock: systemClock,
    connectTimeoutMs: 5_000,
    idleMs: 10_000,
    idlePerOriginMax: 256,
    headBytesMax: 16_384,
    ...options,
  });
}

export function makeTarget(port: number, host = "127.0.0.1"): DialTarget {
  return { origin: `http://${host}:${port}`, hostHeader: null, tls: null };
}

/** The calls of the sink, in order. */
export class ResponseRecorder {
  status = 0;
  headers: ResponseHeaders | null = null;
  readonly pieces: Uint8Array[] = [];
  readonly calls: string[] = [];
  /** "end", or the failure. */
  readonly over = Promise.withResolvers<string>();
  afterHead: () => void = () => {};
  afterData: (bytes: Uint8Array) => void = () => {};

  head(status: number, headers: ResponseHeaders): void {
    this.calls.push("head");
    this.status = status;
    this.headers = headers;
    this.afterHead();
  }
  data(piece: Part): void {
    const bytes = partBytes(piece);
    this.calls.push("data");
    this.pieces.push(bytes);
    this.afterData(bytes);
  }
  end(): void {
    this.calls.push("end");
    this.over.resolve("end");
  }
  fail(failure: { kind: string; reason?: string }): void {
    this.calls.push(`failed ${failure.kind}`);
    this.over.resolve(`${failure.kind}: ${failure.reason}`);
  }
  get text(): string {
    return Buffer.concat(this.pieces).toString("latin1");
  }
}

export interface TestServer {
  readonly port: number;
  /** All connections, in the order in which they were opened. */
  readonly connections: Socket[];
  /** The bytes that each connection sent. */
  readonly received: string[];
  close(): void;
}

/** Calls back for each complete request head, with the index of the connection and of the request on it. */
export async function serve(
  onRequest: (socket: Socket, connection: number, request: number) => void,
  host = "127.0.0.1",
): Promise<TestServer> {
  const connections: Socket[] = [];
  const received: string[] = [];
  const server: Server = createServer({ allowHalfOpen: false }, (socket) => {
    const number = connections.push(socket) - 1;
    received.push("");
    let requests = 0;
    socket.on("error", () => {});
    socket.on("data", (bytes) => {
      received[number] += bytes.toString("latin1");
      const heads = (received[number] ?? "").split("\r\n\r\n").length - 1;
      while (requests < heads) onRequest(socket, number, requests++);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : 0,
    connections,
    received,
    close() {
      for (const socket of connections) socket.destroy();
      server.close();
    },
  };
}
