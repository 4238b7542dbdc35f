/** What a client reads from a stream: its headers, its events, its single end, and what is removed. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { LedgerEntry } from "../../simulator/ledger.ts";
import { modelsIn } from "../support/collect-models.ts";
import { eventually } from "../support/eventually.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { asRecord, eventsIn, payload, type SentEvent } from "../support/sse-text.ts";
import { openStreamClient } from "../support/stream-client.ts";

const EVENT_BYTES_MAX = 256 * 1024;

/** Public model → behaviour of the simulator. */
const MODELS = {
  plain: "sim-fast@events=5",
  slow: "sim-fast@events=6,interval=5ms",
  reason: "sim-reason",
  split: "fault/split@events=5,interval=2ms",
  crlf: "fault/crlf@events=5",
  "no-event-lines": "fault/no-event-lines@events=5",
  badline: "fault/badline@chunk4,events=5",
  "large-line": "fault/hugeline@size=100000,events=5",
  "huge-line": "fault/hugeline@size=400000,events=5",
  "no-done": "fault/no-done",
  broken: "fault/rst@chunk6,events=9",
  cut: "fault/cut@chunk6,events=9",
  "error-event": "fault/error-in-stream",
  "broken-early": "fault/rst@chunk1",
  "cut-early": "fault/cut@chunk1",
  "error-early": "fault/error-in-stream@chunk1",
  context: "fault/context",
  failed: "fault/failed",
  incomplete: "fault/incomplete",
  "no-usage": "fault/no-usage",
  "usage-zero": "fault/usage-zero",
  "usage-negative": "fault/usage-negative",
} as const;
type PublicModel = keyof typeof MODELS;

const FAMILIES = ["chat", "responses", "images"] as const;
type Family = (typeof FAMILIES)[number];

const PATHS: Readonly<Record<Family, string>> = {
  chat: "/v1/chat/completions",
  responses: "/v1/responses",
  images: "/v1/images/generations",
};

const QUESTION = "Was heißt „größer“? 日本語も🙂";
const BODIES: Readonly<Record<Family, object>> = {
  chat: { messages: [{ role: "user", content: QUESTION }] },
  responses: { input: QUESTION, store: false },
  images: { prompt: QUESTION, partial_images: 2 },
};

let gateway: RunningGateway;

beforeAll(async () => {
  gateway = await startTestGateway({ models: MODELS, limits: { eventBytesMax: EVENT_BYTES_MAX } });
});

afterAll(() => gateway.stop());

interface Streamed {
  response: Response;
  text: string;
  events: SentEvent[];
}

async function stream(family: Family, model: PublicModel, fields: object = {}): Promise<Streamed> {
  const response = await ask(family, model, fields);
  const text = await response.text();
  expect(response.status, text).toBe(200);
  return { response, text, events: eventsIn(text) };
}

function ask(family: Family, model: PublicModel, fields: object = {}): Promise<Response> {
  return gateway.call(PATHS[family], { ...BODIES[family], model, stream: true, ...fields });
}

async function readRow(response: Response): Promise<Record<string, unknown>> {
  const id = response.headers.get("x-request-id");
  const rows = (await gateway.usageRows()).filter((row) => row.request_id === id);
  expect(rows.length).toBe(1);
  return asRecord(rows[0]);
}

/** What the upstream produced for the last request, once its ledger entry is closed. */
async function truth(): Promise<LedgerEntry> {
  const { ledger } = gateway.simulator;
  await eventually(() => ledger.totals().inFlight, { equals: 0 });
  const entry = ledger.last();
  if (entry === null) throw new Error("nothing reached the upstream");
  return entry;
}

const listTypes = (events: readonly SentEvent[]) => events.map(({ type }) => type);
const isDone = ({ data }: SentEvent) => data === "[DONE]";

/** The text of the model, assembled from its deltas. */
function outputText(events: readonly SentEvent[]): string {
  return events
    .filter((event) => !isDone(event))
    .map((event) => payload(event))
    .map((json) => {
      if (json.type === "response.output_text.delta") return json.delta;
      if (!Array.isArray(json.choices)) return "";
      return asRecord(asRecord(json.choices[0] ?? { delta: {} }).delta).content ?? "";
    })
    .join("");
}

describe("every stream", () => {
  test.each(FAMILIES)("has headers that disable buffering in proxies (%s)", async (family) => {
    const { response } = await stream(family, "plain");
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(response.headers.get("cache-control")).toBe("no-cache, no-transform");
    expect(response.headers.get("x-accel-buffering")).toBe("no");
    expect(response.headers.get("content-length")).toBeNull();
    expect(response.headers.get("content-encoding")).toBeNull();
    expect(response.headers.get("x-request-id")).toStartWith("req_");
  });

  test.each(FAMILIES.flatMap((family) => (["slow", "split"] as const).map((model) => ({ family, model }))))(
    "sends each event in one write ($family, $model)",
    async ({ family, model }) => {
      const client = openStreamClient(gateway.url, PATHS[family], { ...BODIES[family], model, stream: true });
      expect(await client.ended).toBe("message");
      const frames = client.frames().map((frame) => frame.toString());
      expect(frames.length).toBeGreaterThan(2);
      // Parsing each write alone fails if one begins or ends inside an event.
      const together = frames.flatMap((frame) => eventsIn(frame));
      expect(together).toEqual(eventsIn(client.text()));
      expect(together.length).toBeGreaterThan(2);
    },
  );

  test.each(["chat", "responses"] as const)("contains only the public model name (%s)", async (family) => {
    const { text, events } = await stream(family, "reason");
    const models = events.filter((event) => !isDone(event)).flatMap((event) => modelsIn(payload(event)));
    expect(models.length).toBeGreaterThan(1);
    expect([...new Set(models)]).toEqual(["reason"]);
    expect(text).not.toContain(MODELS.reason);
  });

  test.each(
    (["chat", "responses"] as const).flatMap((family) =>
      (["crlf", "no-event-lines", "split", "badline"] as const).map((model) => ({ family, model })),
    ),
  )("is well-formed for any formatting of the upstream ($family, $model)", async ({ family, model }) => {
    const good = await stream(family, "plain");
    const odd = await stream(family, model);
    expect(outputText(good.events)).toContain(QUESTION);
    expect(outputText(odd.events)).toBe(outputText(good.events));
    expect(listTypes(odd.events)).toEqual(listTypes(good.events));
    expect(odd.text).not.toContain("\r");
    expect(await readRow(odd.response)).toMatchObject({ outcome: "completed", usage_source: "upstream" });
  });

  test.each(["crlf", "no-event-lines", "split"] as const)(
    "carries images in well-formed events (%s)",
    async (model) => {
      const { events } = await stream("images", model);
      const type = "image_generation.partial_image";
      expect(listTypes(events)).toEqual([type, type, "image_generation.completed"]);
      expect(events.every((event) => payload(event).type === event.type)).toBe(true);
    },
  );

  test.each(["chat", "responses"] as const)(
    "forwards a large event and stops at one beyond the limit (%s)",
    async (family) => {
      const large = await stream(family, "large-line");
      expect(large.text.length).toBeGreaterThan(100_000);
      expect(outputText(large.events)).toContain(QUESTION);

      const response = await ask(family, "huge-line");
      const text = await response.text();
      expect(text).not.toContain("aaaaaaaa");
      expect(await readRow(response)).toMatchObject({ error_code: "response_too_large" });
      expect(text).toContain("The response exceeds the maximum size of this gateway.");
      if (response.status === 200) expect(failuresIn(eventsIn(text))).toBe(1);
      else expect(response.status).toBe(502);
    },
  );
});

describe("a chat stream", () => {
  test("ends with [DONE] and nothing after it", async () => {
    const { events } = await stream("chat", "plain");
    expect(events.findIndex(isDone)).toBe(events.length - 1);
    expect([...new Set(listTypes(events))]).toEqual([null]);
  });

  test("keeps one id and one creation time", async () => {
    const { events } = await stream("chat", "plain");
    const chunks = events.slice(0, -1).map((event) => payload(event));
    expect(new Set(chunks.map(({ id, created }) => `${id} ${created}`)).size).toBe(1);
  });

  test("gets [DONE] even if the upstream omits it", async () => {
    const { events, response } = await stream("chat", "no-done");
    expect(events.filter(isDone).length).toBe(1);
    expect(events.findIndex(isDone)).toBe(events.length - 1);
    expect(await readRow(response)).toMatchObject({ outcome: "completed", usage_source: "upstream" });
  });

  test("with several choices ends once", async () => {
    const { events, response } = await stream("chat", "plain", { n: 3 });
    expect(events.filter(({ data }) => data.includes('"finish_reason":"stop"')).length).toBe(3);
    expect(events.filter(isDone).length).toBe(1);
    expect(await readRow(response)).toMatchObject({ outcome: "completed" });
  });

  test.each([
    { stream_options: undefined },
    { stream_options: null },
    { stream_options: {} },
    { stream_options: { include_usage: false } },
  ])("omits usage by default, and records it (%j)", async (fields) => {
    const { text, response } = await stream("chat", "plain", fields);
    expect(text).not.toContain("usage");
    const entry = await truth();
    expect(entry.outputTokens).toBeGreaterThan(0);
    expect(await readRow(response)).toMatchObject({
      input_tokens: entry.inputTokens,
      output_tokens: entry.outputTokens,
      usage_source: "upstream",
    });
  });

  test("reports usage once, in a chunk without choices, with include_usage", async () => {
    const { events } = await stream("chat", "plain", { stream_options: { include_usage: true } });
    const chunks = events.slice(0, -1).map((event) => payload(event));
    const last = chunks.at(-1);
    expect(last).toMatchObject({ choices: [], usage: { total_tokens: expect.any(Number) } });
    expect(chunks.slice(0, -1).map(({ usage }) => usage)).toEqual(chunks.slice(0, -1).map(() => null));
  });
});

describe("a Responses stream", () => {
  test("numbers and names its events, and ends with one terminal event and [DONE]", async () => {
    const { events } = await stream("responses", "reason");
    const beforeLast = events.slice(0, -1);
    expect(events.findIndex(isDone)).toBe(events.length - 1);
    expect(beforeLast.map((event) => payload(event).sequence_number)).toEqual([...beforeLast.keys()]);
    expect(beforeLast.map((event) => payload(event).type)).toEqual(listTypes(beforeLast));
    expect(listTypes(beforeLast).slice(0, 2)).toEqual(["response.created", "response.in_progress"]);
    expect(beforeLast.findIndex(({ type }) => TERMINAL.has(type))).toBe(beforeLast.length - 1);
  });

  test.each(["broken", "cut", "error-event"] as const)(
    "that is cut off after content ends with a full response.failed (%s)",
    async (model) => {
      const { events, response } = await stream("responses", model);
      const beforeLast = events.slice(0, -1);
      expect(events.findIndex(isDone)).toBe(events.length - 1);
      expect(listTypes(beforeLast).filter((type) => TERMINAL.has(type) || type === "error")).toEqual([
        "response.failed",
      ]);
      expect(beforeLast.map((event) => payload(event).sequence_number)).toEqual([...beforeLast.keys()]);
      const begun = asRecord(payload(beforeLast[0]).response);
      const failed = asRecord(payload(beforeLast.at(-1)).response);
      expect(RESPONSE_KEYS.filter((key) => !(key in failed))).toEqual([]);
      expect(failed).toMatchObject({
        id: begun.id,
        created_at: begun.created_at,
        model,
        status: "failed",
        error: { code: "server_error", message: expect.stringContaining("in the middle") },
      });
      expect(await readRow(response)).toMatchObject({
        status: 200,
        outcome: model === "error-event" ? "failed" : "upstream_cut",
        error_code: "upstream_error",
      });
    },
  );

  test("reports a context overflow as an event, because coding agents compact only then", async () => {
    const { events, response } = await stream("responses", "context");
    expect(listTypes(events)).toEqual(["response.created", "response.failed", null]);
    expect(events.findIndex(isDone)).toBe(2);
    const [created, failed] = events.map((event) => (isDone(event) ? {} : asRecord(payload(event).response)));
    expect(created).toMatchObject({ status: "in_progress", error: null, model: "context" });
    expect(failed).toMatchObject({
      id: created?.id,
      status: "failed",
      error: { code: "context_length_exceeded", message: expect.stringContaining("8192") },
    });
    for (const object of [created, failed]) {
      expect(RESPONSE_KEYS.filter((key) => !(key in (object ?? {})))).toEqual([]);
    }
    expect(await readRow(response)).toMatchObject({
      outcome: "failed",
      error_code: "context_length_exceeded",
    });
  });

  test("that the upstream ends as failed is metered by its reported usage", async () => {
    const { events, response } = await stream("responses", "failed");
    expect(listTypes(events).filter((type) => TERMINAL.has(type))).toEqual(["response.failed"]);
    await expectMetered(response, "failed");
  });

  test("that the upstream ends as incomplete is metered and forwarded as such", async () => {
    const { events, response } = await stream("responses", "incomplete");
    expect(listTypes(events).filter((type) => TERMINAL.has(type))).toEqual(["response.incomplete"]);
    expect(events.findIndex(isDone)).toBe(events.length - 1);
    await expectMetered(response, "incomplete");
  });
});

describe("a stream that fails", () => {
  test.each(["broken", "cut", "error-event"] as const)(
    "after content ends a chat stream with an error chunk and without [DONE] (%s)",
    async (model) => {
      const { events, response } = await stream("chat", model);
      expect(events.filter(isDone)).toEqual([]);
      expect(failuresIn(events)).toBe(1);
      expect(payload(events.at(-1)).error).toMatchObject({
        code: "upstream_error",
        type: "server_error",
        request_id: response.headers.get("x-request-id"),
      });
      expect(await readRow(response)).toMatchObject({
        outcome: model === "error-event" ? "failed" : "upstream_cut",
        error_code: "upstream_error",
      });
    },
  );

  test("after a partial image ends with one error event", async () => {
    const { events } = await stream("images", "badline", {});
    expect(failuresIn(events)).toBe(0);
    const response = await gateway.call(PATHS.images, {
      ...BODIES.images,
      model: "cut-early",
      stream: true,
    });
    const cut = eventsIn(await response.text());
    expect(listTypes(cut)).toEqual(["image_generation.partial_image", "error"]);
    // The image was generated, although it never arrived whole.
    expect(await readRow(response)).toMatchObject({ outcome: "upstream_cut", images: 1 });
  });

  test.each(
    (["chat", "responses"] as const).flatMap((family) =>
      (["broken-early", "cut-early", "error-early"] as const).map((model) => ({ family, model })),
    ),
  )("before content is a plain HTTP error ($family, $model)", async ({ family, model }) => {
    const response = await ask(family, model);
    expect(response.status).toBe(502);
    expect(response.headers.get("content-type")).toStartWith("application/json");
    expect(await response.json()).toMatchObject({
      error: { code: "upstream_error", request_id: response.headers.get("x-request-id") },
    });
    expect(await readRow(response)).toMatchObject({ status: 502, outcome: "failed", usage_source: "none" });
  });

  test("for exceeded context length is a plain 400 in chat", async () => {
    const response = await ask("chat", "context");
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { code: "context_length_exceeded" } });
  });

  test("after reporting its usage is still metered in chat", async () => {
    const { events, response } = await stream("chat", "failed");
    expect(events.filter(isDone)).toEqual([]);
    expect(failuresIn(events)).toBe(1);
    await expectMetered(response, "failed");
  });
});

describe("the usage of a stream", () => {
  test("that the upstream does not report is counted locally and marked", async () => {
    const { response } = await stream("chat", "no-usage");
    const row = await readRow(response);
    expect(row.usage_source).toBe("estimated");
    expect(row.input_tokens).toBeGreaterThan(0);
  });

  test("of zero beside a response is counted, as for a paid request", async () => {
    const { response } = await stream("responses", "usage-zero");
    const row = await readRow(response);
    expect(row.usage_source).toBe("estimated");
    expect(row.output_tokens).toBeGreaterThan(0);
  });

  test("cannot be negative", async () => {
    const { response } = await stream("responses", "usage-negative");
    expect(await readRow(response)).toMatchObject({ input_tokens: 0, output_tokens: 0 });
  });

  test("counts images", async () => {
    const { response, events } = await stream("images", "plain", { n: 2 });
    expect(listTypes(events).filter((type) => type === "image_generation.completed").length).toBe(2);
    expect(await readRow(response)).toMatchObject({
      images: 2,
      outcome: "completed",
      output_tokens: (await truth()).outputTokens,
    });
  });
});

const TERMINAL: ReadonlySet<string | null> = new Set([
  "response.completed",
  "response.incomplete",
  "response.failed",
]);

/** The fields that a strict client requires in the response object of every life-cycle event. */
const RESPONSE_KEYS =
  "id object created_at completed_at status incomplete_details model previous_response_id instructions output error tools tool_choice truncation parallel_tool_calls text top_p presence_penalty frequency_penalty top_logprobs temperature reasoning usage max_output_tokens max_tool_calls store background service_tier metadata safety_identifier prompt_cache_key".split(
    " ",
  );

function failuresIn(events: readonly SentEvent[]): number {
  return events.filter(
    ({ type, data }) => type === "error" || type === "response.failed" || data.startsWith('{"error":'),
  ).length;
}

async function expectMetered(response: Response, outcome: string): Promise<void> {
  const entry = await truth();
  expect(entry.outputTokens).toBeGreaterThan(0);
  expect(await readRow(response)).toMatchObject({
    outcome,
    usage_source: "upstream",
    input_tokens: entry.inputTokens,
    output_tokens: entry.outputTokens,
  });
}
