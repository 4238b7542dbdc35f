/** The usage that the gateway records, compared with the ledger of the upstream. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Row } from "../../src/store/engine/db.ts";
import { eventually } from "../support/eventually.ts";
import { OTHER_KEY, type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

const MODELS = {
  plain: "sim-fast",
  thinker: "sim-reason",
  painter: "sim-image",
  slow: "sim-fast@events=1000,interval=20ms",
  incomplete: "fault/incomplete",
  failed: "fault/failed",
  cut: "fault/cut@chunk6",
  reset: "fault/rst@chunk6",
  silent: "fault/no-usage",
  zero: "fault/usage-zero",
  negative: "fault/usage-negative",
  absurd: "fault/usage-absurd",
  refusing: "fault/400",
  limited: "fault/429",
  dead: "fault/refuse",
};

let gateway: RunningGateway;

beforeAll(async () => {
  gateway = await startTestGateway({ models: MODELS });
});

afterAll(() => gateway.stop());

const BODIES = {
  "/v1/chat/completions": { messages: [{ role: "user", content: "What is a ledger?" }] },
  "/v1/responses": { input: "What is a ledger?" },
  "/v1/responses/compact": { input: "What is a ledger?" },
  "/v1/responses/input_tokens": { input: "What is a ledger?" },
  "/v1/embeddings": { input: "What is a ledger?" },
  "/v1/images/generations": { prompt: "A ledger" },
  "/v1/images/edits": { prompt: "A ledger", images: [{ image_url: "data:," }] },
} as const;
type Path = keyof typeof BODIES;

const post = (path: Path, model: string, more: object = {}, init: RequestInit = {}) =>
  gateway.call(path, { model, ...BODIES[path], ...more }, init);

/** The usage row of a response that was read to its end. */
async function readRow(response: Response): Promise<Row> {
  await response.arrayBuffer();
  const id = response.headers.get("x-request-id");
  const rows = (await gateway.usageRows()).filter(({ request_id }) => request_id === id);
  expect(rows).toHaveLength(1);
  return rows[0] ?? {};
}

/** The upstream's ledger entry for the last request, with the column names of a usage row. */
function truth() {
  const entry = gateway.simulator.ledger.last();
  return {
    input_tokens: entry?.inputTokens,
    cached_tokens: entry?.cachedTokens,
    output_tokens: entry?.outputTokens,
    reasoning_tokens: entry?.reasoningTokens,
    images: entry?.images,
  };
}

const NOTHING = { input_tokens: 0, cached_tokens: 0, output_tokens: 0, reasoning_tokens: 0, images: 0 };

describe("usage is recorded as the upstream counted it, for every interface:", () => {
  const cases: [Path, string, string, object, number][] = [
    ["/v1/chat/completions", "chat.completions", "plain", {}, 0],
    ["/v1/chat/completions", "chat.completions", "thinker", { n: 2 }, 0],
    ["/v1/chat/completions", "chat.completions", "plain", { stream: true }, 1],
    ["/v1/chat/completions", "chat.completions", "thinker", { stream: true, n: 2 }, 1],
    [
      "/v1/chat/completions",
      "chat.completions",
      "plain",
      { stream: true, stream_options: { include_usage: true } },
      1,
    ],
    ["/v1/responses", "responses", "thinker", {}, 0],
    ["/v1/responses", "responses", "thinker", { stream: true }, 1],
    ["/v1/responses/compact", "responses.compact", "plain", {}, 0],
    ["/v1/embeddings", "embeddings", "plain", {}, 0],
    ["/v1/images/generations", "images.generations", "painter", { n: 2 }, 0],
    ["/v1/images/generations", "images.generations", "painter", { n: 2, stream: true, partial_images: 1 }, 1],
    ["/v1/images/edits", "images.edits", "painter", {}, 0],
    ["/v1/images/edits", "images.edits", "painter", { stream: true }, 1],
  ];

  test.each(cases)("%s (%s) by %s with %j", async (path, endpoint, model, more, stream) => {
    const response = await post(path, model, more);
    expect(response.status).toBe(200);
    const row = await readRow(response);
    expect(row).toMatchObject({
      ...truth(),
      endpoint,
      interface: endpoint.split(".")[0],
      public_model: model,
      upstream_model: MODELS[model === "plain" ? "plain" : model === "thinker" ? "thinker" : "painter"],
      stream,
      status: 200,
      outcome: "completed",
      error_code: null,
      usage_source: "upstream",
      attempts: 1,
    });
    expect(row.input_tokens).toBeGreaterThan(0);
    expect(row.account_id).toBeString();
    expect(row.first_byte_ms).toBeNumber();
    expect(row.duration_ms).toBeGreaterThanOrEqual(Number(row.first_byte_ms));
  });

  test("cached tokens are recorded too", async () => {
    for (const stream of [false, true]) {
      const cached = () => post("/v1/responses", "plain", { prompt_cache_key: `key-${stream}`, stream });
      expect((await readRow(await cached())).cached_tokens).toBe(0);
      const row = await readRow(await cached());
      expect(row).toMatchObject(truth());
      expect(row.cached_tokens).toBeGreaterThan(0);
    }
  });

  test("counting input tokens uses no tokens", async () => {
    expect(await readRow(await post("/v1/responses/input_tokens", "plain"))).toMatchObject({
      ...NOTHING,
      endpoint: "responses.input_tokens",
      outcome: "completed",
      usage_source: "none",
    });
  });
});

describe("every outcome is recorded:", () => {
  test.each([
    ["/v1/responses", false],
    ["/v1/responses", true],
  ] as const)("incomplete, %s (stream: %p)", async (path, stream) => {
    expect(await readRow(await post(path, "incomplete", { stream }))).toMatchObject({
      ...truth(),
      outcome: "incomplete",
      usage_source: "upstream",
    });
  });

  test.each(["/v1/chat/completions", "/v1/responses"] as const)(
    "failed with reported usage, in a stream of %s",
    async (path) => {
      const row = await readRow(await post(path, "failed", { stream: true }));
      expect(row).toMatchObject({ ...truth(), outcome: "failed", status: 200, error_code: "upstream_error" });
      expect(row.output_tokens).toBeGreaterThan(0);
    },
  );

  test("failed, as a whole response", async () => {
    expect(await readRow(await post("/v1/responses", "failed"))).toMatchObject({
      ...truth(),
      outcome: "failed",
    });
  });

  test.each([
    ["/v1/chat/completions", "cut"],
    ["/v1/chat/completions", "reset"],
    ["/v1/responses", "cut"],
    ["/v1/responses", "reset"],
  ] as const)("a stream of %s that was %s in the middle", async (path, model) => {
    const row = await readRow(await post(path, model, { stream: true }));
    expect(row).toMatchObject({
      outcome: "upstream_cut",
      status: 200,
      error_code: "upstream_error",
      usage_source: "partial",
    });
    // The route has not reported usage yet, so what the client received was counted.
    expect(row.output_tokens).toBeGreaterThan(0);
    expect(row.input_tokens).toBeGreaterThan(0);
  });

  test.each([
    ["refusing", 400, "invalid_value"],
    ["limited", 429, "rate_limit_exceeded"],
    ["dead", 502, "upstream_error"],
  ])("failed before the response began, by %s", async (model, status, code) => {
    for (const stream of [false, true]) {
      expect(await readRow(await post("/v1/chat/completions", model, { stream }))).toMatchObject({
        ...NOTHING,
        outcome: "failed",
        status,
        error_code: code,
        attempts: 1,
      });
    }
  });

  test.each([
    ["an unknown model", "nothing", {}, 404, "model_not_found", "nothing"],
    ["an invalid field", "plain", { n: "two" }, 400, "invalid_type", ""],
  ])("rejected for %s", async (_, model, more, status, code, written) => {
    expect(await readRow(await post("/v1/chat/completions", model, more))).toMatchObject({
      ...NOTHING,
      outcome: "refused",
      status,
      error_code: code,
      public_model: written,
      account_id: null,
      attempts: 0,
    });
  });

  test.each(["/v1/chat/completions", "/v1/responses"] as const)("client disconnected, %s", async (path) => {
    const response = await post(path, "slow", { stream: true });
    const id = response.headers.get("x-request-id");
    const reader = response.body?.getReader();
    await reader?.read();
    await reader?.cancel();
    const row = await eventually(async () =>
      (await gateway.usageRows()).find(({ request_id }) => request_id === id),
    );
    expect(row).toMatchObject({ outcome: "client_gone", status: 200, error_code: null });
  });

  test("cancelled after it was pending", async () => {
    const response = await post("/v1/responses", "plain", { background: true });
    const { id } = (await response.clone().json()) as { id: string };
    expect(await readRow(response)).toMatchObject({ outcome: "pending", response_id: id });
    await gateway.call(`/v1/responses/${id}/cancel`, undefined, { method: "POST" });
    const rows = (await gateway.usageRows()).filter(({ response_id }) => response_id === id);
    expect(rows).toMatchObject([{ outcome: "cancelled" }]);
  });
});

describe("wrong usage", () => {
  test("(negative) counts as zero", async () => {
    for (const path of ["/v1/chat/completions", "/v1/responses", "/v1/embeddings"] as const) {
      const row = await readRow(await post(path, "negative"));
      expect(row).toMatchObject({ ...NOTHING, outcome: "completed", usage_source: "upstream" });
    }
  });

  test.each(["silent", "zero"])(
    "(%s) is replaced by a local count, also for unpaid requests",
    async (model) => {
      for (const path of ["/v1/chat/completions", "/v1/responses", "/v1/embeddings"] as const) {
        const row = await readRow(await post(path, model));
        expect(row).toMatchObject({ outcome: "completed", usage_source: "estimated" });
        expect(row.input_tokens).toBeGreaterThan(0);
        if (path === "/v1/embeddings") expect(row.output_tokens).toBe(0);
        else expect(row.output_tokens).toBeGreaterThan(0);
      }
    },
  );

  test.each([
    ["silent", "/v1/chat/completions"],
    ["silent", "/v1/responses"],
    ["zero", "/v1/chat/completions"],
    ["zero", "/v1/responses"],
  ] as const)(
    "(%s) is replaced by a local count in streams of %s, after the first without usage",
    async (model, path) => {
      await readRow(await post(path, model, { stream: true }));
      const row = await readRow(await post(path, model, { stream: true }));
      expect(row).toMatchObject({ outcome: "completed", usage_source: "estimated" });
      expect(row.input_tokens).toBeGreaterThan(0);
      expect(row.output_tokens).toBeGreaterThan(0);
    },
  );

  test("(absurd) is recorded as a safe integer", async () => {
    const row = await readRow(await post("/v1/chat/completions", "absurd"));
    expect(row.outcome).toBe("completed");
    for (const name of ["input_tokens", "output_tokens"]) {
      expect(Number(row[name])).toBeGreaterThanOrEqual(0);
      expect(Number.isSafeInteger(Number(row[name]))).toBe(true);
    }
  });
});

test("a request without a valid key creates no usage row", async () => {
  const before = (await gateway.usageRows()).length;
  await post("/v1/chat/completions", "plain", {}, { headers: { authorization: "Bearer wrong" } });
  expect(await gateway.usageRows()).toHaveLength(before);
});

describe("GET /v1/usage", () => {
  let fresh: RunningGateway;

  beforeAll(async () => {
    fresh = await startTestGateway({ models: MODELS });
  });
  afterAll(() => fresh.stop());

  interface Totals {
    requests: number;
    failed_requests: number;
    refused_requests: number;
    input_tokens: number;
    cached_tokens: number;
    output_tokens: number;
    reasoning_tokens: number;
    total_tokens: number;
    images: number;
  }
  interface Report {
    key: { id: string; name: string };
    usage: { today: Totals & { since: number }; total: Totals };
  }
  const as = (key?: string): RequestInit =>
    key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } };
  const report = async (key?: string) =>
    (await (await fresh.call("/v1/usage", undefined, as(key))).json()) as Report;

  test("sums the usage of this key only", async () => {
    const chat = { messages: [{ role: "user", content: "Hello" }] };
    const calls: [path: string, body: object, key?: string][] = [
      ["/v1/chat/completions", { model: "plain", ...chat }],
      ["/v1/chat/completions", { model: "thinker", stream: true, ...chat }],
      ["/v1/responses", { model: "thinker", input: "Hello" }],
      ["/v1/embeddings", { model: "plain", input: "Hello" }],
      ["/v1/images/generations", { model: "painter", prompt: "Hello", n: 3 }],
      ["/v1/chat/completions", { model: "dead", ...chat }],
      ["/v1/chat/completions", { model: "nothing", ...chat }],
      ["/v1/chat/completions", { model: "plain", ...chat }, OTHER_KEY],
    ];
    for (const [path, body, key] of calls) await (await fresh.call(path, body, as(key))).arrayBuffer();

    const mine = await report();
    const others = await report(OTHER_KEY);
    const entries = fresh.simulator.ledger.entries();
    const sum = (
      field: "inputTokens" | "outputTokens" | "reasoningTokens" | "images",
      of = entries.slice(0, 6),
    ) => of.reduce((total, entry) => total + entry[field], 0);
    expect(mine.usage.total).toMatchObject({
      requests: 6,
      failed_requests: 1,
      refused_requests: 1,
      input_tokens: sum("inputTokens"),
      cached_tokens: 0,
      output_tokens: sum("outputTokens"),
      reasoning_tokens: sum("reasoningTokens"),
      total_tokens: sum("inputTokens") + sum("outputTokens"),
      images: 3,
    });
    expect(others.usage.total).toMatchObject({
      requests: 1,
      failed_requests: 0,
      output_tokens: sum("outputTokens", entries.slice(6)),
    });
    expect(mine.key.id).not.toBe(others.key.id);
  });

  test("shows the key, its group and the start of today", async () => {
    const mine = await report();
    const { since, ...today } = mine.usage.today;
    expect(mine).toMatchObject({
      object: "gateway.usage",
      key: { name: "test", id: expect.any(String), created_at: expect.any(Number), expires_at: null },
      group: { name: "default", interfaces: ["chat", "responses", "embeddings", "images"] },
      isValid: true,
      planName: "default",
    });
    expect(since % 86_400).toBe(0);
    expect(today).toEqual(mine.usage.total);
  });
});
