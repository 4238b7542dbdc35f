import { afterAll, describe, expect, test } from "bun:test";
import OpenAI, { BadRequestError, NotFoundError } from "openai";
import type { ResponseStreamEvent } from "openai/resources/responses/responses";
import { startSimulator } from "../../simulator/simulator.ts";

const simulator = startSimulator({ seed: 7 });
const client = new OpenAI({ baseURL: simulator.url, apiKey: "any", maxRetries: 0 });
afterAll(() => simulator.stop());

/** The SDK's promises start their work when they are awaited, and `rejects` does not await them. */
const failure = (call: PromiseLike<unknown>): PromiseLike<unknown> =>
  call.then(
    () => null,
    (reason: unknown) => reason,
  );

const TOOL = {
  type: "function" as const,
  name: "run",
  strict: false,
  parameters: { type: "object", properties: { command: { type: "string" } }, required: ["command"] },
};

/** Every field of a response object that a strict client requires. */
const REQUIRED = [
  ..."id object created_at completed_at status incomplete_details model previous_response_id".split(" "),
  ..."instructions output error tools tool_choice truncation parallel_tool_calls text top_p".split(" "),
  ..."presence_penalty frequency_penalty top_logprobs temperature reasoning usage max_output_tokens".split(
    " ",
  ),
  ..."max_tool_calls store background service_tier metadata safety_identifier prompt_cache_key".split(" "),
];

async function streamed(body: { model: string; input: string; [key: string]: unknown }) {
  const stream = await client.responses.create({ ...body, stream: true });
  const events: ResponseStreamEvent[] = [];
  for await (const event of stream) events.push(event);
  return events;
}

describe("a response", () => {
  test("has an id, all required fields and its usage", async () => {
    const answer = await client.responses.create({ model: "sim-fast", input: "Where is Lima?" });
    expect(answer.output_text).toContain("Where is Lima?");
    expect(answer).toMatchObject({ status: "completed", model: "sim-fast-2026-01-01", store: true });
    expect(Object.keys(answer)).toEqual(expect.arrayContaining(REQUIRED));
    expect(answer.usage).toMatchObject({
      input_tokens_details: { cached_tokens: 0 },
      output_tokens_details: { reasoning_tokens: 0 },
    });
  });

  test("echoes the parameters of the request", async () => {
    const answer = await client.responses.create({
      model: "sim-fast",
      input: "Hi",
      instructions: "Be brief.",
      metadata: { ticket: "1" },
      temperature: 0.25,
      text: { verbosity: "low" },
      tools: [TOOL],
    });
    expect(answer).toMatchObject({
      instructions: "Be brief.",
      metadata: { ticket: "1" },
      temperature: 0.25,
      text: { verbosity: "low", format: { type: "text" } },
      tools: [TOOL],
    });
  });

  test("that reaches its token limit is incomplete", async () => {
    const answer = await client.responses.create({ model: "sim-fast", input: "Hi", max_output_tokens: 16 });
    expect(answer.status).toBe("incomplete");
    expect(answer.incomplete_details).toEqual({ reason: "max_output_tokens" });
    expect(answer.usage?.output_tokens).toBe(16);
  });

  test("calls the first function, and returns text after the function's output", async () => {
    const first = await client.responses.create({ model: "sim-tools", input: "Run it", tools: [TOOL] });
    const call = first.output[0];
    if (call?.type !== "function_call") throw new Error("no call");
    expect(JSON.parse(call.arguments)).toEqual({ command: "echo hello" });
    const second = await client.responses.create({
      model: "sim-tools",
      tools: [TOOL],
      previous_response_id: first.id,
      input: [{ type: "function_call_output", call_id: call.call_id, output: "done: 3 files" }],
    });
    expect(second.output_text).toContain("done: 3 files");
    expect(second.previous_response_id).toBe(first.id);
    expect(second.usage?.input_tokens).toBeGreaterThan(first.usage?.total_tokens ?? Infinity);
  });
});

describe("a stream", () => {
  test("numbers its events from 0 and ends once", async () => {
    const events = await streamed({ model: "sim-fast@events=3", input: "Hi" });
    expect(events.map((event) => event.sequence_number)).toEqual([...events.keys()]);
    expect(events.map((event) => event.type)).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.delta",
      "response.output_text.delta",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.completed",
    ]);
  });

  test("carries a full response object in its first, second and last event", async () => {
    const events = await streamed({ model: "sim-fast", input: "Hi" });
    for (const event of [events[0], events[1], events.at(-1)]) {
      if (event === undefined || !("response" in event)) throw new Error("no response");
      expect(Object.keys(event.response)).toEqual(expect.arrayContaining(REQUIRED));
    }
  });

  test("has event lines that repeat the type", async () => {
    const answer = await fetch(`${simulator.url}/responses`, {
      method: "POST",
      body: JSON.stringify({ model: "sim-reason", input: "Hi", stream: true }),
    });
    expect(answer.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    for (const block of (await answer.text()).trimEnd().split("\n\n")) {
      const [, event, data] = /^event: (\S+)\ndata: (.*)$/.exec(block) ?? [];
      expect(JSON.parse(data ?? "{}").type).toBe(event);
    }
  });

  test("of a reasoning model sends the summary before the text", async () => {
    const events = await streamed({
      model: "sim-reason",
      input: "Why?",
      include: ["reasoning.encrypted_content"],
    });
    const types = events.map((event) => event.type);
    expect(types).toContain("response.reasoning_summary_text.delta");
    expect(types.indexOf("response.reasoning_summary_text.done")).toBeLessThan(
      types.indexOf("response.output_text.delta"),
    );
    const last = events.at(-1);
    if (last?.type !== "response.completed") throw new Error("not completed");
    expect(last.response.usage?.output_tokens_details.reasoning_tokens).toBeGreaterThan(0);
    expect(last.response.output[0]).toHaveProperty("encrypted_content");
  });

  test("of a function call is assembled by the SDK", async () => {
    const runner = client.responses.stream({ model: "sim-tools", input: "Run it", tools: [TOOL] });
    const call = (await runner.finalResponse()).output[0];
    expect(call?.type === "function_call" ? call.arguments : null).toBe('{"command":"echo hello"}');
  });
});

describe("a stored response", () => {
  test("can be retrieved, listed and deleted", async () => {
    const made = await client.responses.create({ model: "sim-fast", input: "Keep this" });
    const kept = await client.responses.retrieve(made.id);
    expect(kept.output).toEqual(made.output);
    const items = await client.responses.inputItems.list(made.id);
    expect(items.data).toMatchObject([
      { role: "user", content: [{ type: "input_text", text: "Keep this" }] },
    ]);
    await client.responses.delete(made.id);
    expect(await failure(client.responses.retrieve(made.id))).toBeInstanceOf(NotFoundError);
  });

  test("can be streamed again from any event", async () => {
    const made = await client.responses.create({ model: "sim-fast", input: "Keep this" });
    const stream = await client.responses.retrieve(made.id, { stream: true, starting_after: 3 });
    const events = await Array.fromAsync(stream);
    expect(events[0]?.sequence_number).toBe(4);
    expect(events.at(-1)?.type).toBe("response.completed");
  });

  test("lists its input items in pages, newest first", async () => {
    const input = ["a", "b", "c"].map((content) => ({ role: "user" as const, content }));
    const made = await client.responses.create({ model: "sim-fast", input });
    const page = await client.responses.inputItems.list(made.id, { limit: 2 });
    expect(page.has_more).toBe(true);
    const rest = await page.getNextPage();
    const texts = [...page.data, ...rest.data].map((item) => JSON.stringify(item).match(/"text":"(.)"/)?.[1]);
    expect(texts).toEqual(["c", "b", "a"]);
  });

  test("is not stored with store: false", async () => {
    const made = await client.responses.create({ model: "sim-fast", input: "Forget this", store: false });
    expect(await failure(client.responses.retrieve(made.id))).toBeInstanceOf(NotFoundError);
    const next = client.responses.create({ model: "sim-fast", input: "So?", previous_response_id: made.id });
    const error = await failure(next);
    expect(error).toBeInstanceOf(BadRequestError);
    expect(error).toMatchObject({ code: "previous_response_not_found", param: "previous_response_id" });
  });

  test("in the background is queued first, and completed when it is retrieved", async () => {
    const made = await client.responses.create({ model: "sim-fast", input: "Later", background: true });
    expect(made).toMatchObject({ status: "queued", output: [], background: true });
    expect((await client.responses.retrieve(made.id)).status).toBe("completed");
  });

  test("in the background can be cancelled while queued; others cannot be cancelled", async () => {
    const made = await client.responses.create({ model: "sim-fast", input: "Later", background: true });
    expect((await client.responses.cancel(made.id)).status).toBe("cancelled");
    expect((await client.responses.retrieve(made.id)).status).toBe("cancelled");
    const plain = await client.responses.create({ model: "sim-fast", input: "Now" });
    expect(await failure(client.responses.cancel(plain.id))).toBeInstanceOf(BadRequestError);
  });
});

test("the input token count equals the usage of the response", async () => {
  const counted = await client.responses.inputTokens.count({ model: "sim-fast", input: "How many?" });
  const made = await client.responses.create({ model: "sim-fast", input: "How many?" });
  expect(counted).toEqual({ object: "response.input_tokens", input_tokens: made.usage?.input_tokens ?? -1 });
});

test("compaction returns one compaction item and requires a model", async () => {
  const compacted = await client.responses.compact({ model: "sim-fast", input: "A long story" });
  expect(compacted.object).toBe("response.compaction");
  expect(compacted.output.filter((item) => item.type === "compaction")).toHaveLength(1);
  const refused = await fetch(`${simulator.url}/responses/compact`, {
    method: "POST",
    body: '{"input":"x"}',
  });
  expect(refused.status).toBe(400);
});
