/** The OpenAI SDK against a running gateway: its requests, responses and errors. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import OpenAI, { toFile } from "openai";
import { modelsIn } from "../support/collect-models.ts";
import { eventually } from "../support/eventually.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

const MODELS = {
  "fast-chat": "sim-fast",
  thinker: "sim-reason",
  "vendor/tool-user": "sim-tools",
  "embed-small": "sim-embed",
  painter: "sim-image",
  slow: "sim-fast@events=1000,interval=20ms",
  reluctant: "sim-fast@first=60s",
  "cut-short": "fault/incomplete",
};

let gateway: RunningGateway;
let client: OpenAI;

beforeAll(async () => {
  gateway = await startTestGateway({ models: MODELS });
  client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: TEST_KEY, maxRetries: 0 });
});

afterAll(() => gateway.stop());

const question = [{ role: "user" as const, content: "What is the capital of France?" }];
const weather = {
  name: "get_weather",
  description: "Tells the weather",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

async function all<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of stream) items.push(item);
  return items;
}

/** Checks that every place in a response that names the model has the public name. */
function expectOnly(publicModel: string, answers: readonly unknown[]): void {
  const named = modelsIn(answers);
  expect(named.length).toBeGreaterThan(0);
  expect(new Set(named)).toEqual(new Set([publicModel]));
  expect(JSON.stringify(answers)).not.toContain(MODELS["fast-chat"]);
}

describe("models", () => {
  test("are listed as published", async () => {
    const { data } = await client.models.list();
    expect(data.map(({ id }) => id).toSorted()).toEqual(Object.keys(MODELS).toSorted());
    expect(data[0]).toMatchObject({
      object: "model",
      owned_by: "model-gateway",
      interfaces: ["chat", "responses", "embeddings", "images"],
      created: expect.any(Number),
    });
  });

  test.each(["fast-chat", "vendor/tool-user"])("can be retrieved by id: %s", async (id) => {
    expect(await client.models.retrieve(id)).toMatchObject({ id, object: "model" });
  });

  test("that are unknown result in a NotFoundError", async () => {
    const error = await client.models.retrieve("no/such/model").catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(OpenAI.NotFoundError);
    expect(error).toMatchObject({ status: 404, code: "model_not_found", param: "model" });
  });
});

describe("chat completions", () => {
  test("return a whole response with a request id", async () => {
    const answer = await client.chat.completions.create({ model: "fast-chat", messages: question });
    expect(answer.choices[0]?.message.content).toContain("capital of France");
    expect(answer.choices[0]?.finish_reason).toBe("stop");
    expect(answer.usage?.total_tokens).toBeGreaterThan(0);
    expect(answer._request_id).toMatch(/^req_/);
    expectOnly("fast-chat", [answer]);
  });

  test("stream the same text in chunks with one id and the public model name", async () => {
    const whole = await client.chat.completions.create({ model: "fast-chat", messages: question });
    const { data: stream, request_id } = await client.chat.completions
      .create({ model: "fast-chat", messages: question, stream: true })
      .withResponse();
    const chunks = await all(stream);
    expect(request_id).toMatch(/^req_/);
    expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("")).toBe(
      whole.choices[0]?.message.content ?? "",
    );
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe("stop");
    expect(modelsIn(chunks)).toHaveLength(chunks.length);
    expectOnly("fast-chat", chunks);
  });

  test("omit the usage by default", async () => {
    const stream = await client.chat.completions.create({
      model: "fast-chat",
      messages: question,
      stream: true,
    });
    for (const chunk of await all(stream)) {
      expect(chunk).not.toHaveProperty("usage");
      expect(chunk.choices).toHaveLength(1);
    }
  });

  test("end with one usage chunk with include_usage", async () => {
    const stream = await client.chat.completions.create({
      model: "fast-chat",
      messages: question,
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = await all(stream);
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: expect.any(Number) } });
    expect(chunks.slice(0, -1).every(({ usage }) => usage === null)).toBe(true);
    expectOnly("fast-chat", chunks);
  });

  test("contain several choices, whole and streamed", async () => {
    const whole = await client.chat.completions.create({ model: "fast-chat", messages: question, n: 3 });
    const words = whole.choices.map(({ message }) => message.content ?? "");
    expect(words).toHaveLength(3);
    const streamed = ["", "", ""];
    const stream = await client.chat.completions.create({
      model: "fast-chat",
      messages: question,
      n: 3,
      stream: true,
    });
    for (const { choices } of await all(stream)) {
      for (const { index, delta } of choices) streamed[index] += delta.content ?? "";
    }
    expect(streamed).toEqual(words);
  });

  test("contain their reasoning", async () => {
    const answer = await client.chat.completions.create({ model: "thinker", messages: question });
    expect(answer.choices[0]?.message).toHaveProperty("reasoning_content");
    expect(answer.usage?.completion_tokens_details?.reasoning_tokens).toBeGreaterThan(0);
    const stream = await client.chat.completions.create({
      model: "thinker",
      messages: question,
      stream: true,
    });
    const deltas = (await all(stream)).map((chunk) => chunk.choices[0]?.delta);
    expect(deltas.some((delta) => delta && "reasoning_content" in delta)).toBe(true);
  });

  test("call a tool, and the SDK's runner continues until there is text", async () => {
    const asked: unknown[] = [];
    const runner = client.chat.completions.runTools({
      model: "vendor/tool-user",
      messages: [...question],
      tools: [
        {
          type: "function",
          function: {
            ...weather,
            parse: JSON.parse,
            function: (args: unknown) => {
              asked.push(args);
              return "It is raining frogs.";
            },
          },
        },
      ],
    });
    expect(await runner.finalContent()).toContain("raining frogs");
    expect(asked).toEqual([{ city: expect.any(String) }]);
    expectOnly("vendor/tool-user", runner.allChatCompletions());
  });

  test("stream the arguments of a tool in pieces", async () => {
    const stream = client.chat.completions.stream({
      model: "vendor/tool-user",
      messages: question,
      tools: [{ type: "function", function: weather }],
    });
    const calls = (await stream.finalMessage()).tool_calls ?? [];
    expect(calls).toHaveLength(1);
    const [call] = calls;
    expect(call?.type === "function" && JSON.parse(call.function.arguments)).toEqual({
      city: expect.any(String),
    });
  });
});

describe("responses", () => {
  test("return a whole response with a request id", async () => {
    const answer = await client.responses.create({ model: "fast-chat", input: "What is a gateway?" });
    expect(answer.output_text).toContain("gateway");
    expect(answer.status).toBe("completed");
    expect(answer._request_id).toMatch(/^req_/);
    expectOnly("fast-chat", [answer]);
  });

  test("stream with increasing sequence numbers and one terminal event", async () => {
    const stream = await client.responses.create({
      model: "fast-chat",
      input: "What is a gateway?",
      stream: true,
    });
    const events = await all(stream);
    expect(events[0]?.type).toBe("response.created");
    expect(events.at(-1)?.type).toBe("response.completed");
    expect(events.filter(({ type }) => type === "response.completed")).toHaveLength(1);
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index));
    expectOnly("fast-chat", events);
  });

  test("are assembled by the SDK's stream helper", async () => {
    const stream = client.responses.stream({ model: "thinker", input: "Why is the sky blue?" });
    const answer = await stream.finalResponse();
    expect(answer.output.map(({ type }) => type)).toEqual(["reasoning", "message"]);
    expect(answer.output_text).toContain("sky");
    expect(answer.usage?.output_tokens_details.reasoning_tokens).toBeGreaterThan(0);
    expectOnly("thinker", [answer]);
  });

  test("call a tool, whole and streamed", async () => {
    const body = {
      model: "vendor/tool-user",
      input: "How is the weather?",
      tools: [{ type: "function" as const, strict: false, ...weather }],
    };
    const answer = await client.responses.create(body);
    const call = answer.output.find(({ type }) => type === "function_call");
    expect(call).toMatchObject({ name: "get_weather", status: "completed" });
    const events = await all(await client.responses.create({ ...body, stream: true }));
    const kinds = new Set<string>(events.map(({ type }) => type));
    for (const kind of ["delta", "done"]) expect(kinds).toContain(`response.function_call_arguments.${kind}`);
    expectOnly("vendor/tool-user", [answer, ...events]);
  });

  test("that the model cuts off end with response.incomplete", async () => {
    const answer = await client.responses.create({ model: "cut-short", input: "Tell me everything" });
    expect(answer.status).toBe("incomplete");
    const events = await all(
      await client.responses.create({ model: "cut-short", input: "Tell me everything", stream: true }),
    );
    expect(events.at(-1)?.type).toBe("response.incomplete");
  });
});

describe("embeddings", () => {
  test("are returned as numbers although the SDK requests base64", async () => {
    const answer = await client.embeddings.create({ model: "embed-small", input: "a word" });
    const plain = await client.embeddings.create({
      model: "embed-small",
      input: "a word",
      encoding_format: "float",
    });
    const first = gateway.simulator.ledger.entries().at(-2);
    const asked = Buffer.from(gateway.simulator.ledger.findBody(first?.id ?? "") ?? []).toString();
    expect(asked).toContain('"encoding_format":"base64"');
    expect(answer.data[0]?.embedding).toEqual(
      (plain.data[0]?.embedding ?? []).map((number) => Math.fround(number)),
    );
    expect(answer._request_id).toMatch(/^req_/);
    expectOnly("embed-small", [answer, plain]);
  });

  test("keep their order and have the requested dimensions", async () => {
    const answer = await client.embeddings.create({
      model: "embed-small",
      input: ["one", "two", "three"],
      dimensions: 16,
    });
    expect(answer.data.map(({ index, embedding }) => [index, embedding.length])).toEqual([
      [0, 16],
      [1, 16],
      [2, 16],
    ]);
  });

  test.each([[[1, 2, 3]], [[[1, 2], [3]]]])("accept tokens as input: %j", async (input) => {
    const answer = await client.embeddings.create({ model: "embed-small", input, dimensions: 8 });
    expect(answer.data).toHaveLength(Array.isArray(input[0]) ? 2 : 1);
  });
});

describe("images", () => {
  test("are generated", async () => {
    const answer = await client.images.generate({ model: "painter", prompt: "a house", n: 2 });
    expect(answer.data?.map(({ b64_json }) => isPng(b64_json))).toEqual([true, true]);
    expect(answer.usage?.output_tokens).toBeGreaterThan(0);
    expect(answer._request_id).toMatch(/^req_/);
  });

  test("are generated as a stream", async () => {
    const stream = await client.images.generate({
      model: "painter",
      prompt: "a house",
      stream: true,
      partial_images: 2,
    });
    const events = await all(stream);
    expect(events.map(({ type }) => type)).toEqual([
      "image_generation.partial_image",
      "image_generation.partial_image",
      "image_generation.completed",
    ]);
    expect(events.every((event) => isPng(event.b64_json))).toBe(true);
  });

  const picture = (name: string) => toFile(Buffer.from("not looked at"), name, { type: "image/png" });

  test("are edited with one file", async () => {
    const answer = await client.images.edit({
      model: "painter",
      prompt: "a door",
      image: await picture("house.png"),
    });
    expect(isPng(answer.data?.[0]?.b64_json)).toBe(true);
    const { form } = gateway.simulator.ledger.last() ?? {};
    expect(form?.texts).toMatchObject({ model: "sim-image", prompt: "a door" });
    expect(form?.files).toEqual([
      { name: "image", filename: "house.png", contentType: "image/png", bytes: 13 },
    ]);
  });

  test("are edited with several files and a mask, as a stream", async () => {
    const stream = await client.images.edit({
      model: "painter",
      prompt: "a door",
      image: [await picture("one.png"), await picture("two.png")],
      mask: await picture("mask.png"),
      stream: true,
      partial_images: 1,
    });
    const events = await all(stream);
    expect(events.map(({ type }) => type)).toEqual(["image_edit.partial_image", "image_edit.completed"]);
    const files = gateway.simulator.ledger.last()?.form?.files ?? [];
    expect(files.map(({ name, filename }) => `${name} ${filename}`).toSorted()).toEqual([
      "image[] one.png",
      "image[] two.png",
      "mask mask.png",
    ]);
  });

  function isPng(base64: string | undefined): boolean {
    return Buffer.from(base64 ?? "", "base64").toString("latin1", 1, 4) === "PNG";
  }
});

describe("a client that disconnects", () => {
  const left = (events: number) =>
    eventually(() => {
      const entry = gateway.simulator.ledger.last();
      return entry?.abortedByClient === true && entry.eventsSent < events;
    });

  test("in the middle of a chat stream aborts the upstream call", async () => {
    const stream = await client.chat.completions.create({ model: "slow", messages: question, stream: true });
    for await (const _ of stream) break;
    await left(1000);
  });

  test("in the middle of a Responses stream aborts the upstream call", async () => {
    const stream = await client.responses.create({ model: "slow", input: "Go on", stream: true });
    for await (const { type } of stream) if (type === "response.output_text.delta") break;
    await left(1000);
  });

  test("before a whole response arrived aborts the upstream call", async () => {
    const leave = new AbortController();
    const before = gateway.simulator.ledger.totals().requests;
    const answer = client.chat.completions
      .create({ model: "reluctant", messages: question }, { signal: leave.signal })
      .catch((error: unknown) => error);
    await eventually(() => gateway.simulator.ledger.totals().requests > before);
    leave.abort();
    expect(await answer).toBeInstanceOf(OpenAI.APIUserAbortError);
    await left(1);
  });
});
