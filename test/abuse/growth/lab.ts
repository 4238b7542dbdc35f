/**
 * A gateway in a separate process with one account of each dialect. The upstreams are in the test's process and send
 * what the test has prepared. The lab measures the CPU time of the gateway's process, all threads.
 */

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startGatewayProcess } from "../../support/gateway-process.ts";
import { TEST_KEY } from "../../support/running-gateway.ts";

export const DIALECTS = ["responses", "chat", "messages", "gemini"] as const;
export type Dialect = (typeof DIALECTS)[number];

/** What the upstream sends. */
export interface Canned {
  readonly contentType: "application/json" | "text/event-stream";
  readonly body: string | Buffer;
}

export interface Sent {
  readonly path: string;
  readonly body: string | Buffer;
}

export interface Result {
  readonly status: number;
  readonly cpuMs: number;
  /** Bytes that the client sent, or that the upstream sent: whichever are more. */
  readonly bytes: number;
  /** Bytes that the client received. */
  readonly receivedBytes: number;
  /** Whether the request reached the upstream. */
  readonly isForwarded: boolean;
  readonly text: string;
}

export interface Lab {
  readonly pid: number;
  readonly url: string;
  output(): string;
  run(sent: Sent, canned: Canned): Promise<Result>;
  stop(): Promise<void>;
}

const KINDS: Readonly<Record<Dialect, string>> = {
  responses: "openai",
  chat: "openai",
  messages: "anthropic",
  gemini: "gemini",
};

export async function startLab(): Promise<Lab> {
  let canned: Canned = { contentType: "application/json", body: "{}" };
  let requests = 0;
  const upstream = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    maxRequestBodySize: 256 * 1024 * 1024,
    async fetch(request) {
      requests++;
      await request.arrayBuffer();
      return new Response(canned.body, { headers: { "content-type": canned.contentType } });
    },
  });
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-growth-"));
  await Bun.write(join(folder, "gateway.yaml"), labFile(`http://127.0.0.1:${upstream.port}`));
  const gateway = await startGatewayProcess({ folder, args: ["--config", "gateway.yaml"] });
  return {
    pid: gateway.pid,
    url: gateway.url,
    output: gateway.output,
    async run({ path, body }, response) {
      canned = response;
      const requestsBefore = requests;
      const before = processCpuMs(gateway.pid);
      const result = await fetch(gateway.url + path, {
        method: "POST",
        body,
        headers: {
          "content-type": "application/json",
          authorization: `Bearer ${TEST_KEY}`,
          "anthropic-version": "2023-06-01",
        },
      });
      const received = Buffer.from(await result.arrayBuffer());
      // The kernel adds the time of a running thread when the thread pauses.
      await Bun.sleep(1);
      const cpuMs = processCpuMs(gateway.pid) - before;
      const sentBytes = Buffer.byteLength(body);
      const isForwarded = requests > requestsBefore;
      return {
        status: result.status,
        cpuMs,
        bytes: isForwarded ? Math.max(sentBytes, Buffer.byteLength(response.body)) : sentBytes,
        receivedBytes: received.length,
        isForwarded,
        text: received.toString("utf8", 0, 2_000),
      };
    },
    async stop() {
      await gateway.stop();
      await upstream.stop(true);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A model is named after the dialect of its account. */
function labFile(origin: string): string {
  const all = [...DIALECTS, "embeddings", "images"];
  const account = (dialect: Dialect) => ({
    name: dialect,
    kind: KINDS[dialect],
    base_url: dialect === "gemini" ? origin : `${origin}/v1`,
    credential: "credential",
    private_network: true,
    ...(dialect === "chat" ? { vendor: "openai", interfaces: ["chat", "embeddings", "images"] } : {}),
    ...(dialect === "responses" ? { interfaces: ["responses"] } : {}),
    models: { [dialect]: "up" },
  });
  return JSON.stringify({
    models: DIALECTS.map((id) => ({ id, interfaces: all })),
    accounts: DIALECTS.map(account),
    groups: [{ name: "default", interfaces: all, models: DIALECTS, accounts: DIALECTS }],
    users: [{ email: "dev@example.com", role: "user" }],
    keys: [{ name: "test", user: "dev@example.com", group: "default", secret: TEST_KEY }],
  });
}

/** CPU time of all threads of a process so far, in nanosecond resolution. */
export function processCpuMs(pid: number): number {
  let nanoseconds = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    try {
      const text = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8");
      nanoseconds += Number(text.slice(0, text.indexOf(" ")));
    } catch {
      // The thread has ended.
    }
  }
  return nanoseconds / 1e6;
}

/** The path and body of a request in the client's dialect for a model. */
export function buildRequest(
  client: Dialect,
  { model, stream, body }: { model: Dialect; stream: boolean; body: string },
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
