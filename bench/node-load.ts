/**
 * Load on the nodes of one installation, in a process of its own: `bun bench/node-load.ts`, with a `NodeLoad` as JSON on
 * stdin. It sends requests at a fixed rate, whether earlier ones have a response or not, or as many as the nodes
 * serve. The result is one line of JSON.
 */

import type { Socket } from "bun";
import { quantile } from "./measure.ts";

export interface NodeLoad {
  readonly urls: readonly string[];
  readonly keys: readonly string[];
  readonly path: string;
  readonly body: string;
  /** Of all nodes together. Null: each connection sends its next request as soon as the last one has its response. */
  readonly requestsPerSecond: number | null;
  readonly durationMs: number;
  /** For each node. */
  readonly connections: number;
  /** `one node`: all requests of a key reach the same node. */
  readonly keyReaches: "all nodes" | "one node";
}

export interface NodeLoadReport {
  requests: number;
  requestsPerSecond: number;
  p50Ms: number;
  p99Ms: number;
}

/** Times of these first milliseconds are left out: connections and the code of this process are new. */
const WARM_UP_MS = 300;
const HEAD_END = "\r\n\r\n";

class Connection {
  readonly #port: number;
  #socket: Socket | null = null;
  #received = "";
  #onResponse: (() => void) | null = null;

  constructor(port: number) {
    this.#port = port;
  }

  async open(): Promise<void> {
    this.#socket = await Bun.connect({
      hostname: "127.0.0.1",
      port: this.#port,
      socket: {
        data: (_, chunk) => this.#receive(chunk.toString("latin1")),
        close: () => fail("a connection was closed"),
        error: (_, error) => fail(String(error)),
      },
    });
  }

  send(request: Uint8Array, onResponse: () => void): void {
    this.#onResponse = onResponse;
    this.#socket?.write(request);
  }

  #receive(text: string): void {
    this.#received += text;
    const headEnd = this.#received.indexOf(HEAD_END);
    if (headEnd < 0) return;
    const length = /\r\ncontent-length: *(\d+)/i.exec(this.#received)?.[1];
    if (length === undefined) fail(`expected a whole response, got: ${this.#received.slice(0, 300)}`);
    if (this.#received.length < headEnd + HEAD_END.length + Number(length)) return;
    // A fast error is still an error: numbers that contain any are worth nothing.
    if (!this.#received.startsWith("HTTP/1.1 200"))
      fail(`expected 200, got: ${this.#received.slice(0, 600)}`);
    this.#received = "";
    this.#onResponse?.();
  }
}

function fail(reason: string): never {
  console.error(reason);
  process.exit(1);
}

class NodeClient {
  readonly #requests: readonly Uint8Array[];
  readonly #port: number;
  readonly #connectionsMax: number;
  readonly #idle: Connection[] = [];
  readonly #waiting: (() => void)[] = [];
  #opened = 0;

  constructor(url: string, load: NodeLoad) {
    const { host, port } = new URL(url);
    this.#requests = load.keys.map((key) => buildRequest(host, key, load));
    this.#port = Number(port);
    this.#connectionsMax = load.connections;
  }

  /** Opens a connection if none is idle, because a node closes one that is not used. Above the maximum it waits. */
  send(key: number, onResponse: () => void): void {
    const connection = this.#idle.pop();
    if (connection !== undefined) this.#sendOn(connection, key, onResponse);
    else if (this.#opened < this.#connectionsMax) void this.#open(key, onResponse);
    else this.#waiting.push(() => this.send(key, onResponse));
  }

  async #open(key: number, onResponse: () => void): Promise<void> {
    this.#opened++;
    const connection = new Connection(this.#port);
    await connection.open();
    this.#sendOn(connection, key, onResponse);
  }

  #sendOn(connection: Connection, key: number, onResponse: () => void): void {
    connection.send(this.#requests[key] ?? fail("no such key"), () => {
      this.#idle.push(connection);
      onResponse();
      this.#waiting.shift()?.();
    });
  }
}

function buildRequest(host: string, key: string, { path, body }: NodeLoad): Uint8Array {
  const fields = `host: ${host}\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json`;
  const length = `content-length: ${Buffer.byteLength(body)}`;
  return Buffer.from(`POST ${path} HTTP/1.1\r\n${fields}\r\n${length}${HEAD_END}${body}`);
}

class LoadRun {
  readonly #load: NodeLoad;
  readonly #clients: readonly NodeClient[];
  readonly #tookMs: number[] = [];
  #startedMs = 0;
  #sent = 0;
  #responded = 0;
  #onAllResponses: (() => void) | null = null;

  constructor(load: NodeLoad) {
    this.#load = load;
    this.#clients = load.urls.map((url) => new NodeClient(url, load));
  }

  async run(): Promise<NodeLoadReport> {
    const { durationMs, requestsPerSecond } = this.#load;
    this.#startedMs = performance.now();
    if (requestsPerSecond === null) this.#fillConnections();
    else await this.#keepRate(requestsPerSecond);
    await new Promise<void>((resolve) => {
      this.#onAllResponses = resolve;
      if (this.#sent === this.#responded && !this.#isRunning()) resolve();
    });
    const tookMs = Math.max(performance.now() - this.#startedMs, durationMs);
    return {
      requests: this.#responded,
      requestsPerSecond: (this.#responded * 1_000) / tookMs,
      p50Ms: quantile(this.#tookMs, 0.5),
      p99Ms: quantile(this.#tookMs, 0.99),
    };
  }

  async #keepRate(requestsPerSecond: number): Promise<void> {
    while (this.#isRunning()) {
      const dueCount = ((performance.now() - this.#startedMs) * requestsPerSecond) / 1_000;
      while (this.#sent < dueCount) this.#send(() => {});
      await Bun.sleep(1);
    }
  }

  #fillConnections(): void {
    const sendNext = () => {
      if (this.#isRunning()) this.#send(sendNext);
    };
    for (let i = 0; i < this.#load.connections * this.#clients.length; i++) sendNext();
  }

  #isRunning(): boolean {
    return performance.now() - this.#startedMs < this.#load.durationMs;
  }

  #send(onResponse: () => void): void {
    const { keys, keyReaches } = this.#load;
    const number = this.#sent++;
    const key = number % keys.length;
    const nodes = this.#clients.length;
    const round = Math.floor(number / keys.length);
    const node = keyReaches === "one node" ? key % nodes : (number + round) % nodes;
    const sentMs = performance.now();
    this.#clients[node]?.send(key, () => {
      const nowMs = performance.now();
      this.#responded++;
      if (sentMs - this.#startedMs > WARM_UP_MS) this.#tookMs.push(nowMs - sentMs);
      onResponse();
      if (this.#sent === this.#responded) this.#onAllResponses?.();
    });
  }
}

const load: NodeLoad = JSON.parse(await Bun.stdin.text());
console.log(JSON.stringify(await new LoadRun(load).run()));
process.exit(0);
