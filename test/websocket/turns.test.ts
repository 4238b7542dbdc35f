/** Turns on one connection: what goes upstream, what is returned, and what is remembered in between. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import { OTHER_KEY, type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { eventsIn } from "../support/sse-text.ts";
import { openSocketClient, type SocketClient, type SocketOptions } from "../support/turn-client.ts";

const MODELS = {
  "fast-chat": "sim-fast",
  tools: "sim-tools",
  reasoning: "sim-reasoning",
  broken: "fault/rst@chunk6",
  full: "fault/context",
  refused: "fault/400",
  flaky: "sim-fast",
};
const WEATHER = {
  type: "function",
  name: "get_weather",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

let gateway: RunningGateway;
const clients: SocketClient[] = [];
beforeAll(async () => {
  gateway = await startTestGateway({ models: MODELS });
});
afterEach(() => {
  gateway.simulator.force(null);
  for (const client of clients.splice(0)) client.close();
});
afterAll(() => gateway.stop());

async function open(options?: SocketOptions): Promise<SocketClient> {
  const client = await openSocketClient(gateway.url, options);
  clients.push(client);
  return client;
}

/** The last body that the upstream received. */
function lastBody(): Record<string, unknown> {
  const { ledger } = gateway.simulator;
  return JSON.parse(Buffer.from(ledger.findBody(ledger.last()?.id ?? "") ?? []).toString());
}

const asked = () => gateway.simulator.ledger.totals().requests;

describe("a turn", () => {
  test("has the events of the same request over HTTP, one JSON object per frame", async () => {
    const request = { model: "fast-chat", input: "Say “hello”", store: false };
    const response = await gateway.call("/v1/responses", { ...request, stream: true });
    const overHttp = eventsIn(await response.text()).flatMap(({ data }) => (data === "[DONE]" ? [] : [data]));
    const { events } = await (await open()).turn(request);
    const shape = (event: Record<string, unknown>) => [
      event.type,
      event.sequence_number,
      event.delta ?? null,
    ];
    expect(events.map(shape)).toEqual(overHttp.map((data) => shape(JSON.parse(data ?? ""))));
    expect(events.every((event) => !("stream_id" in event))).toBe(true);
  });

  test("is a separate request with its own id and usage row", async () => {
    const client = await open();
    const before = (await gateway.usageRows()).length;
    await client.turn({ model: "fast-chat", input: "One" });
    await client.turn({ model: "fast-chat", input: "Two" });
    const rows = (await gateway.usageRows()).slice(before);
    expect(rows).toMatchObject([
      { outcome: "completed", status: 200, endpoint: "responses", stream: 1, public_model: "fast-chat" },
      { outcome: "completed", status: 200, endpoint: "responses", stream: 1, public_model: "fast-chat" },
    ]);
    expect(new Set(rows.map(({ request_id }) => request_id)).size).toBe(2);
  });

  test("goes upstream as a streaming POST, with unknown fields and big numbers unchanged", async () => {
    const client = await open();
    client.send(
      '{"type":"response.create","model":"fast-chat","stream_id":"main","generate":true,"stream":false,"background":false,' +
        '"input":"Hi","metadata":{"n":"1"},"x_unknown":12345678901234567890}',
    );
    await client.until("response.completed");
    const body = Buffer.from(
      gateway.simulator.ledger.findBody(gateway.simulator.ledger.last()?.id ?? "") ?? [],
    ).toString();
    expect(body).toBe(
      '{"model":"sim-fast","stream":true,"input":"Hi","metadata":{"n":"1"},"x_unknown":12345678901234567890}',
    );
  });

  test("in the background is rejected, as Open Responses specifies, and the connection stays open", async () => {
    const client = await open();
    for (const fields of [{}, { generate: false }, { store: true }]) {
      const { last } = await client.turn({ model: "fast-chat", input: "Hi", background: true, ...fields });
      expect(last).toMatchObject({
        type: "error",
        status: 400,
        error: { type: "invalid_request_error", code: "unsupported_parameter", param: "background" },
      });
    }
    expect((await client.turn({ model: "fast-chat", input: "Hi", background: null })).last.type).toBe(
      "response.completed",
    );
  });

  test("can be nested in a response object", async () => {
    const client = await open();
    client.send({ type: "response.create", response: { model: "fast-chat", input: "Nested", store: false } });
    expect((await client.until("response.completed", "error")).at(-1)?.type).toBe("response.completed");
    expect(lastBody()).toEqual({ model: "sim-fast", input: "Nested", store: false, stream: true });
  });

  test("that an upstream cuts off ends with response.failed, and the connection stays open", async () => {
    const client = await open();
    const { last } = await client.turn({ model: "broken", input: "Hi" });
    expect(last).toMatchObject({ type: "response.failed", response: { status: "failed", model: "broken" } });
    expect((await client.turn({ model: "fast-chat", input: "Hi" })).last.type).toBe("response.completed");
  });

  test("that exceeds the context length ends with response.failed, on which Codex compacts", async () => {
    const { events } = await (await open()).turn({ model: "full", input: "Hi" });
    expect(events.map(({ type }) => type)).toEqual(["response.created", "response.failed"]);
    expect(events.at(-1)).toMatchObject({ response: { error: { code: "context_length_exceeded" } } });
  });

  test("that is rejected gets an error frame with status, sequence number, request id and headers", async () => {
    const client = await open();
    const { last } = await client.turn({ model: "nobody", input: "Hi" });
    expect(last).toEqual({
      type: "error",
      status: 404,
      sequence_number: 0,
      error: {
        type: "invalid_request_error",
        code: "model_not_found",
        message: expect.stringContaining("nobody"),
        param: "model",
        request_id: expect.stringMatching(/^req_/),
      },
      headers: { "x-request-id": expect.stringMatching(/^req_/) },
    });
    const { last: refused } = await client.turn({ model: "refused", input: "Hi" });
    expect(refused).toMatchObject({ type: "error", status: 400 });
    expect((await client.turn({ model: "fast-chat", input: "Hi" })).last.type).toBe("response.completed");
  });

  test("whose client disconnects aborts its upstream call and is recorded so", async () => {
    gateway.simulator.force("stall@chunk6", 1);
    const client = await open();
    client.create({ model: "flaky", input: "Hi" });
    await client.until("response.output_text.delta");
    client.close();
    await eventually(() => gateway.simulator.ledger.totals().inFlight, { equals: 0 });
    expect(gateway.simulator.ledger.last()).toMatchObject({ abortedByClient: true });
    await eventually(async () => (await gateway.usageRows()).at(-1)?.outcome, { equals: "client_gone" });
  });
});

describe("a turn that continues another", () => {
  test("sends the whole conversation upstream: previous input, previous output and new input", async () => {
    const client = await open();
    const request = { model: "fast-chat", store: false };
    const first = await client.turn({ ...request, input: "My name is Ada." });
    const second = await client.turn({
      ...request,
      previous_response_id: first.responseId,
      input: [{ role: "user", content: "What is it?" }],
    });
    expect(second.last).toMatchObject({
      type: "response.completed",
      response: { previous_response_id: first.responseId },
    });
    await client.turn({ ...request, previous_response_id: second.responseId, input: "Really?" });
    const outputText = (turn: typeof first) =>
      turn.events.filter(({ type }) => type === "response.output_item.done").map(({ item }) => item);
    expect(lastBody()).toEqual({
      ...request,
      model: "sim-fast",
      stream: true,
      input: [
        { type: "message", role: "user", content: "My name is Ada." },
        ...outputText(first),
        { role: "user", content: "What is it?" },
        ...outputText(second),
        { type: "message", role: "user", content: "Really?" },
      ],
    });
  });

  test("sends no id of reasoning that the upstream has not stored", async () => {
    const client = await open();
    const request = { model: "reasoning", store: false };
    const { responseId, events } = await client.turn({ ...request, input: "Think" });
    const outputText = events.find(({ type }) => type === "response.output_item.done")?.item;
    expect(outputText).toMatchObject({ type: "reasoning", id: expect.stringMatching(/^rs_/) });
    await client.turn({ ...request, previous_response_id: responseId, input: "Again" });
    const [, reasoning] = lastBody().input as object[];
    expect(reasoning).toMatchObject({ type: "reasoning" });
    expect(reasoning).not.toHaveProperty("id");
  });

  test("may have no new input", async () => {
    const client = await open();
    const request = { model: "fast-chat", store: false };
    const { responseId } = await client.turn({ ...request, input: "Begin" });
    const { last } = await client.turn({ ...request, previous_response_id: responseId, input: [] });
    expect(last.type).toBe("response.completed");
    expect(lastBody().input).toMatchObject([{ role: "user" }, { role: "assistant" }]);
  });

  test("answers the tool call of the model", async () => {
    const client = await open();
    const request = { model: "tools", store: false, tools: [WEATHER] };
    const first = await client.turn({ ...request, input: "Weather in Rome?" });
    const call = first.events.find(({ type }) => type === "response.output_item.done")?.item as {
      call_id: string;
    };
    const output = { type: "function_call_output", call_id: call.call_id, output: "sunny" };
    const { last } = await client.turn({
      ...request,
      previous_response_id: first.responseId,
      input: [output],
    });
    expect(last.type).toBe("response.completed");
    expect(lastBody().input).toMatchObject([{ role: "user" }, { type: "function_call" }, output]);
  });

  test("is rejected for an unknown tool call, and the previous response is forgotten", async () => {
    const client = await open();
    const request = { model: "fast-chat", store: false };
    const { responseId } = await client.turn({ ...request, input: "Hi" });
    const orphan = { type: "function_call_output", call_id: "call_nobody", output: "42" };
    const before = asked();
    const failed = await client.turn({ ...request, previous_response_id: responseId, input: [orphan] });
    expect(failed.last).toMatchObject({ status: 400, error: { code: "invalid_value", param: "input" } });
    const again = await client.turn({ ...request, previous_response_id: responseId, input: "Hi" });
    expect(again.last).toMatchObject({
      status: 400,
      error: { code: "previous_response_not_found", param: "previous_response_id" },
    });
    expect(asked()).toBe(before);
  });

  test.each(["broken", "refused"])("is forgotten when the upstream fails it (%s)", async (model) => {
    const client = await open();
    const { responseId } = await client.turn({ model: "fast-chat", store: false, input: "Hi" });
    await client.turn({ model, store: false, previous_response_id: responseId, input: "Go on" });
    const { last } = await client.turn({
      model: "fast-chat",
      store: false,
      previous_response_id: responseId,
      input: "Go on",
    });
    expect(last).toMatchObject({ error: { code: "previous_response_not_found" } });
  });

  test("is not known to another connection, unless the upstream stored the response", async () => {
    const first = await (await open()).turn({ model: "fast-chat", store: false, input: "Hi" });
    const stored = await (await open()).turn({ model: "fast-chat", input: "Hi" });
    const client = await open();
    const lost = await client.turn({
      model: "fast-chat",
      store: false,
      previous_response_id: first.responseId,
      input: "Go on",
    });
    expect(lost.last).toMatchObject({ status: 400, error: { code: "previous_response_not_found" } });
    const found = await client.turn({
      model: "fast-chat",
      previous_response_id: stored.responseId,
      input: "Go on",
    });
    expect(found.last.type).toBe("response.completed");
    expect(lastBody()).toMatchObject({ previous_response_id: stored.responseId, input: "Go on" });
  });

  test("is found regardless of what connections of another key remember", async () => {
    const small = await startTestGateway({
      limits: { socketMemoriesBytesMax: 40_000, socketMemoriesKeyBytesMax: 20_000 },
    });
    const all: SocketClient[] = [];
    const connect = async (key: string) => {
      const client = await openSocketClient(small.url, { key });
      all.push(client);
      return client;
    };
    try {
      const client = await connect(OTHER_KEY);
      const request = { model: "fast-chat", store: false };
      const { responseId } = await client.turn({ ...request, input: "Hi" });
      for (let i = 0; i < 6; i++) {
        const warm = { ...request, generate: false, input: "x".repeat(10_000) };
        await (await connect(TEST_KEY)).turn(warm);
      }
      const { last } = await client.turn({ ...request, previous_response_id: responseId, input: "Go on" });
      expect(last.type).toBe("response.completed");
    } finally {
      for (const client of all) client.close();
      await small.stop();
    }
  });

  test("is not found if it exceeds the memory of a connection", async () => {
    const small = await startTestGateway({ limits: { socketMemoryBytesMax: 2_000 } });
    try {
      const client = await openSocketClient(small.url);
      const request = { model: "fast-chat", store: false };
      const short = await client.turn({ ...request, input: "Hi" });
      const long = await client.turn({
        ...request,
        previous_response_id: short.responseId,
        input: "x".repeat(4_000),
      });
      expect(long.last.type).toBe("response.completed");
      const lost = await client.turn({ ...request, previous_response_id: long.responseId, input: "Hi" });
      expect(lost.last).toMatchObject({ error: { code: "previous_response_not_found" } });
      client.close();
    } finally {
      await small.stop();
    }
  });
});

describe("a warm-up", () => {
  test("repeats the settings of its request as a complete response object", async () => {
    const client = await open();
    const tool = { type: "function", name: "look_up", parameters: { type: "object", properties: {} } };
    const settings = {
      tools: [tool, { type: "web_search" }],
      prompt_cache_key: "thread-1",
      tool_choice: { type: "function", name: "look_up" },
      instructions: "Be brief.",
      parallel_tool_calls: false,
      reasoning: { effort: "low" },
      text: { verbosity: "low" },
      metadata: { a: "1" },
      store: true,
      max_output_tokens: 100,
    };
    const { events } = await client.turn({
      ...settings,
      model: "fast-chat",
      generate: false,
      input: [],
      temperature: null,
      truncation: 7,
    });
    const echo = {
      ...settings,
      tools: [{ ...tool, description: null, strict: null }, { type: "web_search" }],
      reasoning: { effort: "low", summary: null },
      text: { format: { type: "text" }, verbosity: "low" },
      // Neither null nor a value of the wrong type is repeated.
      temperature: 1,
      truncation: "disabled",
    };
    expect(events).toMatchObject([
      { type: "response.created", response: { ...echo, status: "in_progress" } },
      { type: "response.completed", response: { ...echo, status: "completed" } },
    ]);
  });

  test("omits settings that are too large", async () => {
    const client = await open();
    const tools = [{ type: "function", name: "large", description: "x".repeat(2 * 2 ** 20) }];
    const { last } = await client.turn({ model: "fast-chat", generate: false, input: [], tools });
    expect(last).toMatchObject({ type: "response.completed", response: { tools: [] } });
    const long = { model: "fast-chat", generate: false, input: [], instructions: "x".repeat(2 * 2 ** 20) };
    const short = { tools: [{ type: "web_search" }], prompt_cache_key: "thread-1" };
    const { last: next } = await client.turn({ ...long, ...short });
    expect(next).toMatchObject({ response: { ...short, instructions: null } });
  });

  test("has two events, no upstream call and no usage row, and can be continued", async () => {
    const client = await open();
    const before = { asked: asked(), rows: (await gateway.usageRows()).length };
    const request = { model: "fast-chat", store: false };
    const prompt = [{ type: "message", role: "developer", content: "Be brief." }];
    const warm = await client.turn({ ...request, generate: false, input: prompt });
    expect(warm.events).toMatchObject([
      { type: "response.created", sequence_number: 0, response: { status: "in_progress", output: [] } },
      {
        type: "response.completed",
        sequence_number: 1,
        response: { status: "completed", model: "fast-chat", output: [], usage: { total_tokens: 0 } },
      },
    ]);
    expect({ asked: asked(), rows: (await gateway.usageRows()).length }).toEqual(before);
    await client.turn({ ...request, previous_response_id: warm.responseId, input: "Hi" });
    expect(lastBody()).toEqual({
      ...request,
      model: "sim-fast",
      stream: true,
      input: [...prompt, { type: "message", role: "user", content: "Hi" }],
    });
  });

  test("may be empty", async () => {
    const client = await open();
    const warm = await client.turn({ model: "fast-chat", generate: false, input: [], stream_id: "a" });
    expect(warm.events.map(({ stream_id }) => stream_id)).toEqual(["a", "a"]);
    const request = { model: "fast-chat", stream_id: "a", previous_response_id: warm.responseId };
    await client.turn({ ...request, input: "Hi" });
    expect(lastBody().input).toEqual([{ type: "message", role: "user", content: "Hi" }]);
  });

  test("counts only its own input against the size limit; the turn that uses it counts all", async () => {
    const small = await startTestGateway({ limits: { jsonBodyBytesMax: 10_000 } });
    try {
      const client = await openSocketClient(small.url);
      const request = { model: "fast-chat", store: false, input: "x".repeat(6_000) };
      const warm = { ...request, generate: false };
      const { responseId } = await client.turn(warm);
      const second = await client.turn({ ...warm, previous_response_id: responseId });
      expect(second.last.type).toBe("response.completed");
      const turn = await client.turn({ ...request, previous_response_id: second.responseId });
      expect(turn.last).toMatchObject({ status: 413 });
      client.close();
    } finally {
      await small.stop();
    }
  });

  test("is rejected like a turn for an unknown previous response or tool call", async () => {
    const client = await open();
    const warm = { model: "fast-chat", store: false, generate: false };
    const lost = await client.turn({ ...warm, previous_response_id: "resp_nobody", input: [] });
    expect(lost.last).toMatchObject({ status: 400, error: { code: "previous_response_not_found" } });
    const { responseId } = await client.turn({ ...warm, input: "Hi" });
    const orphan = { type: "function_call_output", call_id: "call_nobody", output: "42" };
    const failed = await client.turn({ ...warm, previous_response_id: responseId, input: [orphan] });
    expect(failed.last).toMatchObject({ status: 400, error: { code: "invalid_value", param: "input" } });
  });

  test("is rate-limited per second, and a rejected one does not affect the conversation", async () => {
    const few = await startTestGateway({ limits: { socketWarmUpsPerSecondMax: 1 } });
    try {
      const client = await openSocketClient(few.url);
      const request = { model: "fast-chat", store: false, input: "Hi", stream_id: "a" };
      for (let i = 0; i < 2; i++) client.create({ ...request, generate: false });
      const warm = (await client.until("response.completed")).at(-1)?.response as { id: string } | undefined;
      expect((await client.until("error")).at(-1)).toMatchObject({
        status: 429,
        stream_id: "a",
        error: { code: "rate_limit_exceeded" },
        headers: { "retry-after": "1" },
      });
      const { last } = await client.turn({ ...request, previous_response_id: warm?.id });
      expect(last.type).toBe("response.completed");
      client.close();
    } finally {
      await few.stop();
    }
  });

  test("of an unpublished model gets an error", async () => {
    const { last } = await (await open()).turn({ model: "nobody", generate: false, input: [] });
    expect(last).toMatchObject({ type: "error", status: 404, error: { code: "model_not_found" } });
  });
});

describe("an invalid message", () => {
  const WRONG: [what: string, message: string | Uint8Array, code: string][] = [
    ["no JSON", "{not json", "invalid_json"],
    ["no object", "[1]", "invalid_json"],
    ["no type", '{"model":"fast-chat"}', "missing_required_parameter"],
    ["an unknown type", '{"type":"session.update"}', "invalid_value"],
    ["a duplicate field", '{"type":"response.create","type":"response.create"}', "duplicate_parameter"],
    ["an invalid generate", '{"type":"response.create","generate":1}', "invalid_type"],
    ["an invalid previous id", '{"type":"response.create","previous_response_id":1}', "invalid_type"],
    ["no model", '{"type":"response.create","input":"Hi"}', "missing_required_parameter"],
    ["no input", '{"type":"response.create","model":"fast-chat"}', "missing_required_parameter"],
    ["a binary message", new Uint8Array([123, 125]), "invalid_request"],
  ];
  test.each(WRONG)("%s gets an error frame, and the connection stays open", async (_, message, code) => {
    const client = await open();
    client.send(message);
    const [frame] = await client.until("error");
    expect(frame).toMatchObject({ type: "error", status: 400, sequence_number: 0, error: { code } });
    expect((await client.turn({ model: "fast-chat", input: "Hi" })).last.type).toBe("response.completed");
  });

  test("response.steer gets its input back", async () => {
    const client = await open();
    const input = [{ role: "user", content: "Faster" }];
    client.send({ type: "response.steer", previous_response_id: "resp_1", input });
    const [frame] = await client.until("response.steer.failed");
    expect(frame).toMatchObject({
      sequence_number: 0,
      steer: { previous_response_id: "resp_1", input },
      error: { type: "invalid_request_error", code: "steering_not_supported" },
    });
  });

  test("response.steer gets no long input back, because the reply is free", async () => {
    const client = await open();
    client.send({ type: "response.steer", previous_response_id: "resp_1", input: Array(10_000).fill([]) });
    const [frame] = await client.until("response.steer.failed");
    expect(frame).toMatchObject({ steer: { previous_response_id: "resp_1", input: null } });
  });
});
