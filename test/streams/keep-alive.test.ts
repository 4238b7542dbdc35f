/** What a client receives while its upstream is silent, and when the silence lasts too long. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { asRecord, payload, readStream, type SentEvent, type SentStream } from "../support/sse-text.ts";

const KEEP_ALIVE_MS = 400;
const LIMITS = {
  keepAliveMs: KEEP_ALIVE_MS,
  silentReasoningMs: 700,
  idleTimeoutMs: 2_000,
  keepAliveTickMs: 20,
} as const;

/** Longer than one keep-alive interval and shorter than two. */
const LATE = `${KEEP_ALIVE_MS * 1.8}ms`;
const VERY_LATE = `${KEEP_ALIVE_MS * 4}ms`;

const MODELS = {
  lively: "sim-fast@events=40,interval=40ms",
  "late-headers": `fault/slow-headers@${LATE}`,
  "late-content": `fault/stall@chunk1,${VERY_LATE}`,
  "late-refusal": `fault/500@first=${LATE}`,
  "late-context": `fault/context@first=${LATE}`,
  "falls-silent": `fault/stall@chunk5,${VERY_LATE},events=8`,
  "only-pings": "fault/pings@chunk5,events=8",
  "pings-first": "fault/pings@chunk1",
  slow: "sim-fast@events=1,interval=600ms",
} as const;
type PublicModel = keyof typeof MODELS;

const PATHS = { chat: "/v1/chat/completions", responses: "/v1/responses" } as const;
type Family = keyof typeof PATHS;
const FAMILIES: readonly Family[] = ["chat", "responses"];
const POOLED_KEY = "pooled-key-0123456789-0123456789-0123456";

let gateway: RunningGateway;
let second: Simulator;

beforeAll(async () => {
  second = startSimulator({ seed: 2 });
  const names = Object.keys(MODELS);
  gateway = await startTestGateway({
    limits: LIMITS,
    environment: { SECOND_URL: second.url },
    file: `
models:
${names.map((id) => `  - { id: ${id}, interfaces: [chat, responses] }`).join("\n")}
accounts:
  - name: sim
    kind: openai
    base_url: \${SIMULATOR_URL}
    credential: a
    private_network: true
    models: ${JSON.stringify(MODELS)}
  - { name: second, kind: openai, base_url: "\${SECOND_URL}", credential: b, private_network: true, priority: 2, models: { "late-refusal": sim-fast } }
groups:
  - { name: default, models: [${names}], accounts: [sim] }
  - { name: pooled, models: [${names}], accounts: [sim, second] }
keys:
  - { name: test, group: default, secret: ${TEST_KEY} }
  - { name: pooled, group: pooled, secret: ${POOLED_KEY} }
`,
  });
});

afterAll(async () => {
  await gateway.stop();
  await second.stop();
});

interface FetchedStream extends SentStream {
  text: string;
  row(): Promise<Record<string, unknown>>;
}

async function fetchStream(
  family: Family,
  model: PublicModel,
  headers: Record<string, string> = {},
): Promise<FetchedStream> {
  const prompt = family === "chat" ? { messages: [{ role: "user", content: "Hello" }] } : { input: "Hello" };
  const response = await gateway.call(PATHS[family], { ...prompt, model, stream: true }, { headers });
  const text = await response.text();
  expect(response.status, text).toBe(200);
  return {
    ...readStream(text),
    text,
    async row() {
      const id = response.headers.get("x-request-id");
      return asRecord((await gateway.usageRows()).find((row) => row.request_id === id));
    },
  };
}

const listTypes = (events: readonly SentEvent[]) => events.map(({ type }) => type);
const isDone = ({ data }: SentEvent) => data === "[DONE]";
const progressIn = (events: readonly SentEvent[]) =>
  listTypes(events).filter((type) => type === "response.in_progress").length;

function endedWell(family: Family, events: readonly SentEvent[]): boolean {
  if (events.findIndex(isDone) !== events.length - 1) return false;
  return family === "chat" || listTypes(events).at(-2) === "response.completed";
}

/** The Responses API has one code for all upstream failures. */
const clientCode = (family: Family, code: string) => (family === "chat" ? code : "server_error");

/** Returns the one failure at the end of a stream; throws if there is none, or anything else. */
function failureIn(family: Family, events: readonly SentEvent[]): Record<string, unknown> {
  if (family === "chat") {
    expect(events.filter(isDone)).toEqual([]);
    expect(events.filter(({ data }) => data.startsWith('{"error":')).length).toBe(1);
    return asRecord(payload(events.at(-1)).error);
  }
  expect(events.findIndex(isDone)).toBe(events.length - 1);
  const ends = listTypes(events).filter((type) =>
    /\.(completed|failed|incomplete)$|^error$/.test(type ?? ""),
  );
  expect(ends).toEqual(["response.failed"]);
  return asRecord(asRecord(payload(events.at(-2)).response).error);
}

describe.each(FAMILIES)("while a %s upstream is silent", (family) => {
  test.concurrent("a stream without silence carries no comment", async () => {
    const { comments, events } = await fetchStream(family, "lively");
    // The stream lasts four times as long as the silence that triggers a comment; a busy machine can pause once.
    expect(comments.length).toBeLessThan(2);
    expect(endedWell(family, events)).toBe(true);
  });

  test.concurrent("before its headers, the client gets comments and then the response", async () => {
    const { comments, events, text, row } = await fetchStream(family, "late-headers");
    expect(comments).toContain("keep-alive");
    expect(text).toStartWith(": keep-alive\n\n");
    expect(endedWell(family, events)).toBe(true);
    expect(await row()).toMatchObject({ outcome: "completed", usage_source: "upstream" });
  });

  test.concurrent("before its first content, the client gets comments and then the response", async () => {
    const { comments, events } = await fetchStream(family, "late-content");
    expect(comments).toContain("keep-alive");
    expect(endedWell(family, events)).toBe(true);
  });

  test.concurrent("in the middle, the client gets comments and then the rest", async () => {
    const { comments, events, text } = await fetchStream(family, "falls-silent");
    expect(comments.length).toBeGreaterThan(1);
    expect(endedWell(family, events)).toBe(true);
    const [before, after] = [text.slice(0, text.indexOf(":")), text.slice(text.lastIndexOf(": keep-alive"))];
    expect(before).not.toContain("[DONE]");
    expect(after).toContain("[DONE]");
  });

  test.concurrent("and then fails, the error is sent in the stream that has begun", async () => {
    const { comments, events, row } = await fetchStream(family, "late-refusal");
    expect(comments).toContain("keep-alive");
    expect(failureIn(family, events)).toMatchObject({ code: clientCode(family, "upstream_error") });
    expect(events.length).toBe(family === "chat" ? 1 : 3);
    expect(await row()).toMatchObject({ status: 200, outcome: "failed", error_code: "upstream_error" });
  });

  test.concurrent("and then rejects the request, the reason is sent in the stream that has begun", async () => {
    const { events, row } = await fetchStream(family, "late-context");
    expect(failureIn(family, events)).toMatchObject({ code: "context_length_exceeded" });
    expect(await row()).toMatchObject({ outcome: "failed", error_code: "context_length_exceeded" });
  });

  test.concurrent("and then fails, failover still happens", async () => {
    const authorization = `Bearer ${POOLED_KEY}`;
    const { comments, events, row } = await fetchStream(family, "late-refusal", { authorization });
    expect(comments).toContain("keep-alive");
    expect(endedWell(family, events)).toBe(true);
    expect(await row()).toMatchObject({ attempts: 2, outcome: "completed" });
  });
});

describe("clients that count only data events", () => {
  const codex = [
    { originator: "codex_exec" },
    { "user-agent": "codex_cli_rs/0.166.0 (Debian 12.0.0; x86_64)" },
  ];

  test.concurrent.each(codex)(
    "receive response.in_progress repeatedly during a silence (%j)",
    async (headers) => {
      const { events } = await fetchStream("responses", "falls-silent", headers);
      expect(progressIn(events)).toBeGreaterThan(1);
      expect(endedWell("responses", events)).toBe(true);
      const repeated = events
        .filter(({ type }) => type === "response.in_progress")
        .map((event) => payload(event));
      for (const { type, response } of repeated) {
        expect(type).toBe("response.in_progress");
        expect(response).toEqual(repeated[0]?.response);
        expect(response).toMatchObject({ status: "in_progress", model: "falls-silent" });
      }
    },
  );

  test.concurrent("receive response.created when the content is late", async () => {
    const { events } = await fetchStream("responses", "late-content", { originator: "codex_exec" });
    expect(listTypes(events)[0]).toBe("response.created");
    expect(progressIn(events)).toBeGreaterThan(1);
    expect(endedWell("responses", events)).toBe(true);
  });

  test.concurrent("are the only ones that receive it", async () => {
    const headers = { originator: "opencode", "user-agent": "OpenAI/JS 7.53.0" };
    const { events, comments } = await fetchStream("responses", "falls-silent", headers);
    expect(progressIn(events)).toBe(1);
    expect(comments.length).toBeGreaterThan(1);
  });
});

describe.each(FAMILIES)("a %s upstream that sends pings but no data", (family) => {
  test.concurrent("times out, and the client gets the error", async () => {
    const { events, row } = await fetchStream(family, "only-pings");
    expect(failureIn(family, events)).toMatchObject({
      code: clientCode(family, "upstream_timeout"),
      message: expect.stringContaining("stopped sending"),
    });
    expect(await row()).toMatchObject({ outcome: "upstream_cut", error_code: "upstream_timeout" });
    const entries = gateway.simulator.ledger.entries().filter(({ model }) => model === MODELS["only-pings"]);
    expect(entries.length).toBeGreaterThan(0);
    expect(entries.every(({ finished }) => !finished)).toBe(true);
  });

  test.concurrent("times out before its first content too", async () => {
    const { events } = await fetchStream(family, "pings-first");
    expect(failureIn(family, events)).toMatchObject({ code: clientCode(family, "upstream_timeout") });
  });

  test.concurrent("is distinguished from a slow one", async () => {
    const { events } = await fetchStream(family, "slow");
    expect(endedWell(family, events)).toBe(true);
  });
});
