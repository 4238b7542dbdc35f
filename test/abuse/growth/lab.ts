/**
 * A gateway in a separate process with one account of each dialect, and one of Amazon Bedrock. The upstreams are in the test's process and send
 * what the test has prepared. The lab measures the CPU time of the gateway's process, all threads.
 */

import { dlopen, FFIType, ptr } from "bun:ffi";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startGatewayProcess } from "../../support/gateway-process.ts";
import { TEST_KEY } from "../../support/running-gateway.ts";
import { readResidentBytes } from "../../support/spawned-gateway.ts";
import { SlowTurnLog } from "../slow-turns.ts";

export const DIALECTS = ["responses", "chat", "messages", "gemini"] as const;
export type Dialect = (typeof DIALECTS)[number];

const ACCOUNTS = [...DIALECTS, "bedrock"] as const;
export type LabAccount = (typeof ACCOUNTS)[number];

/** What the upstream sends. */
export interface Canned {
  readonly contentType: "application/json" | "text/event-stream" | "application/vnd.amazon.eventstream";
  readonly body: string | Buffer;
}

export interface Sent {
  readonly path: string;
  readonly body: string | Buffer;
  /** The key of a group without rules if absent. */
  readonly key?: string;
}

export interface Result {
  readonly status: number;
  readonly requestId: string | null;
  readonly cpuMs: number;
  /** Bytes that the client sent, or that the upstream sent: whichever are more. */
  readonly bytes: number;
  /** Bytes that the client received. */
  readonly receivedBytes: number;
  /** Whether the request reached the upstream. */
  readonly isForwarded: boolean;
  readonly text: string;
  /** Resident memory of the gateway. */
  readonly memory: { readonly before: number; readonly peak: number; readonly after: number };
  /** The longest turn of the event loop for it that the gateway has logged as slow so far; 0 without one. */
  slowTurnMs(): number;
}

export interface Lab {
  readonly pid: number;
  readonly url: string;
  /** The model of the account that is in use. */
  model(account: LabAccount): string;
  /** Ends the effects of a failure on the next run: sends requests that succeed, to another model if this one cools down. */
  recover(account: LabAccount, request: (model: string) => Sent, response: Canned): Promise<void>;
  run(sent: Sent, canned: Canned): Promise<Result>;
  stop(): Promise<void>;
}

/** The key of a group whose request policy has every rule on bodies. The rules change bodies and reject none. */
export const RULED_KEY = "key-of-the-growth-tests-with-a-policy";

/** More than the failures within one cool-down. */
const MODELS_PER_ACCOUNT = 64;

const KINDS: Readonly<Record<LabAccount, string>> = {
  responses: "openai",
  chat: "openai",
  messages: "anthropic",
  gemini: "gemini",
  bedrock: "bedrock",
};

/** Sends what the test has prepared, and counts the requests. */
class LabUpstream {
  canned: Canned = { contentType: "application/json", body: "{}" };
  requests = 0;
  readonly #server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    maxRequestBodySize: 256 * 1024 * 1024,
    fetch: async (request) => {
      this.requests++;
      await request.arrayBuffer();
      return new Response(this.canned.body, { headers: { "content-type": this.canned.contentType } });
    },
  });

  get origin(): string {
    return `http://127.0.0.1:${this.#server.port}`;
  }

  stop(): Promise<void> {
    return this.#server.stop(true);
  }
}

export async function startLab(buildFile = labFile): Promise<Lab> {
  const upstream = new LabUpstream();
  let failures = 0;
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-growth-"));
  await Bun.write(join(folder, "gateway.yaml"), buildFile(upstream.origin));
  const gateway = await startGatewayProcess({ folder, args: ["--config", "gateway.yaml"] });
  const slowTurns = new SlowTurnLog(gateway.output);
  const startedAtMs: number[] = [];
  const lab: Lab = {
    pid: gateway.pid,
    url: gateway.url,
    model: (account) => nameModel(account, failures % MODELS_PER_ACCOUNT),
    async recover(account, request, response) {
      for (let tries = 0; tries < MODELS_PER_ACCOUNT; tries++) {
        const { status } = await lab.run(request(lab.model(account)), response);
        if (status === 200) return;
        failures++;
      }
      throw new Error(`all models of ${account} cool down`);
    },
    async run({ path, body, key = TEST_KEY }, response) {
      upstream.canned = response;
      const requestsBefore = upstream.requests;
      const run = startedAtMs.push(Date.now()) - 1;
      const memory = new MemoryWatch(gateway.pid);
      const before = processCpuMs(gateway.pid);
      const { status, headers, received } = await post(gateway.url + path, body, key);
      // What the gateway does just after the response belongs to the request.
      await Bun.sleep(1);
      const cpuMs = processCpuMs(gateway.pid) - before;
      const sentBytes = Buffer.byteLength(body);
      const isForwarded = upstream.requests > requestsBefore;
      const requestId = headers.get("x-request-id");
      return {
        status,
        requestId,
        cpuMs,
        bytes: isForwarded ? Math.max(sentBytes, Buffer.byteLength(response.body)) : sentBytes,
        receivedBytes: received.length,
        isForwarded,
        text: received.toString("utf8", 0, 2_000),
        memory: memory.end(),
        slowTurnMs: () =>
          slowTurns.findLongestMs({
            requestId,
            startedAtMs: startedAtMs[run] ?? 0,
            endedAtMs: startedAtMs[run + 1] ?? Number.POSITIVE_INFINITY,
          }),
      };
    },
    async stop() {
      await gateway.stop();
      await upstream.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
  return lab;
}

const MEMORY_EVERY_MS = 10;

/** Resident memory of a process from now on. */
class MemoryWatch {
  readonly #pid: number;
  readonly #before: number;
  readonly #timer = setInterval(() => this.#read(), MEMORY_EVERY_MS);
  #peak: number;

  constructor(pid: number) {
    this.#pid = pid;
    this.#before = readResidentBytes(pid);
    this.#peak = this.#before;
  }

  end(): Result["memory"] {
    clearInterval(this.#timer);
    const after = this.#read();
    return { before: this.#before, peak: this.#peak, after };
  }

  #read(): number {
    const bytes = readResidentBytes(this.#pid);
    this.#peak = Math.max(this.#peak, bytes);
    return bytes;
  }
}

async function post(url: string, body: string | Buffer, key: string) {
  const response = await fetch(url, {
    method: "POST",
    body,
    headers: {
      "content-type": "application/json",
      authorization: `Bearer ${key}`,
      "anthropic-version": "2023-06-01",
    },
  });
  const received = Buffer.from(await response.arrayBuffer());
  return { status: response.status, headers: response.headers, received };
}

function nameModel(account: LabAccount, at: number): string {
  return `${account}-${at}`;
}

function labFile(origin: string): string {
  const all = [...DIALECTS, "embeddings", "images"];
  const listModels = (name: LabAccount) =>
    Array.from({ length: MODELS_PER_ACCOUNT }, (_, at) => nameModel(name, at));
  const models = ACCOUNTS.flatMap(listModels);
  const account = (name: LabAccount) => ({
    name,
    kind: KINDS[name],
    base_url: name === "gemini" || name === "bedrock" ? origin : `${origin}/v1`,
    credential: "credential",
    private_network: true,
    ...(name === "chat" ? { vendor: "openai", interfaces: ["chat", "embeddings", "images"] } : {}),
    ...(name === "responses" ? { interfaces: ["responses"] } : {}),
    ...(name === "bedrock" ? { region: "us-east-1" } : {}),
    models: Object.fromEntries(
      listModels(name).map((model) => [model, name === "bedrock" ? `anthropic.${model}` : model]),
    ),
  });
  // Without a queue, a request to a model that cools down fails at once.
  const group = { interfaces: all, models, accounts: ACCOUNTS, queue: { max_waiting: 0 } };
  const user = "dev@example.com";
  return JSON.stringify({
    models: models.map((id) => ({ id, interfaces: all })),
    accounts: ACCOUNTS.map(account),
    request_policies: [RULES],
    groups: [
      { ...group, name: "default" },
      { ...group, name: "ruled", request_policy: RULES.name },
    ],
    users: [{ email: user, role: "user" }],
    keys: [
      { name: "test", user, group: "default", secret: TEST_KEY },
      { name: "ruled", user, group: "ruled", secret: RULED_KEY },
    ],
  });
}

const RULES = {
  name: "rules",
  input_tokens: { max: 100_000_000 },
  output_tokens: { max: 16, over: "lower" },
  effort: { max: "low", over: "lower" },
  service_tiers: ["auto", "default", "standard", "standard_only", "flex", "priority"],
  tools: { deny: ["web_search", "code", "computer", "mcp", "file_search", "shell"], over: "drop" },
  inputs: { images: 1_000_000, files: 1_000_000, urls: 1_000_000, audio: 1_000_000 },
  force: { store: false, background: false },
};

const { symbols: libc } = dlopen("libc.so.6", {
  clock_gettime: { args: [FFIType.i32, FFIType.ptr], returns: FFIType.i32 },
});

/** CPU time of a process so far: of all threads, also of those that have ended. */
export function processCpuMs(pid: number): number {
  const time = new BigInt64Array(2);
  // The number of the clock of another process, as clock_getcpuclockid returns it.
  const clock = (~pid << 3) | 2;
  if (libc.clock_gettime(clock, ptr(time)) !== 0) throw new Error(`the process ${pid} has ended`);
  const [seconds = 0n, nanoseconds = 0n] = time;
  return Number(seconds) * 1_000 + Number(nanoseconds) / 1e6;
}

/** The path and body of a request in the client's dialect for a model. */
export function buildRequest(
  client: Dialect,
  { model, stream, body }: { model: string; stream: boolean; body: string },
): Sent {
  if (client === "gemini") {
    const method = stream ? "streamGenerateContent?alt=sse" : "generateContent";
    return { path: `/v1beta/models/${model}:${method}`, body };
  }
  const path = { chat: "/v1/chat/completions", responses: "/v1/responses", messages: "/v1/messages" }[client];
  return { path, body: `{"model":"${model}","stream":${stream},${body.slice(1)}` };
}

export function json(body: string): Canned {
  return { contentType: "application/json", body };
}

/** A stream in the upstream's dialect. */
export function eventStream(dialect: Dialect, events: readonly string[]): Canned {
  const isNamed = dialect === "responses" || dialect === "messages";
  const body = events.map((text) => {
    const type = isNamed ? /"type":"([\w.]{1,99})"/.exec(text.slice(0, 200))?.[1] : undefined;
    return `${type === undefined ? "" : `event: ${type}\n`}data: ${text}\n\n`;
  });
  return { contentType: "text/event-stream", body: body.join("") };
}
