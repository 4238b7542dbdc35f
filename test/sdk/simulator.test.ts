import { afterAll, describe, expect, test } from "bun:test";
import { inflateSync } from "node:zlib";
import OpenAI, { APIError, AuthenticationError, BadRequestError, NotFoundError, toFile } from "openai";
import { startSimulator } from "../../simulator/simulator.ts";

const simulator = startSimulator({ seed: 7, credential: "sk-sim", record: "full" });
const client = new OpenAI({ baseURL: simulator.url, apiKey: "sk-sim", maxRetries: 0 });
const again = startSimulator({ seed: 7, credential: null });
afterAll(() => Promise.all([simulator.stop(), again.stop()]));

/** The SDK's promises start their work when they are awaited, and `rejects` does not await them. */
const failure = (call: PromiseLike<unknown>): PromiseLike<unknown> =>
  call.then(
    () => null,
    (reason: unknown) => reason,
  );

const WEATHER = {
  name: "get_weather",
  description: "The weather in a place",
  parameters: {
    type: "object",
    properties: {
      city: { type: "string" },
      unit: { type: "string", enum: ["celsius", "fahrenheit"] },
      days: { type: "integer", minimum: 3 },
    },
    required: ["city", "unit", "days"],
    additionalProperties: false,
  },
};

describe("models", () => {
  test("are listed", async () => {
    const ids = (await client.models.list()).data.map((model) => model.id);
    expect(ids).toEqual(["sim-fast", "sim-reason", "sim-tools", "sim-embed", "sim-image"]);
  });

  test("are retrieved by name, including names with a slash", async () => {
    expect((await client.models.retrieve("fault/429")).id).toBe("fault/429");
    expect(await failure(client.models.retrieve("gpt-nothing"))).toBeInstanceOf(NotFoundError);
  });
});

describe("a credential", () => {
  test("that is invalid or missing gets OpenAI's 401", async () => {
    const wrong = new OpenAI({ baseURL: simulator.url, apiKey: "sk-wrong-credential", maxRetries: 0 });
    const error = await failure(wrong.models.list());
    expect(error).toBeInstanceOf(AuthenticationError);
    expect(error instanceof APIError ? error.code : null).toBe("invalid_api_key");
    const missing = await fetch(`${simulator.url}/models`);
    expect(missing.status).toBe(401);
  });

  test("is accepted in Azure's header", async () => {
    const answer = await fetch(`${simulator.url}/models`, { headers: { "api-key": "sk-sim" } });
    expect(answer.status).toBe(200);
  });
});

describe("chat completions", () => {
  const messages = [{ role: "user" as const, content: "Where is Lima?" }];

  test("describe the simulator and repeat the question", async () => {
    const answer = await client.chat.completions.create({ model: "sim-fast", messages });
    expect(answer.model).toBe("sim-fast-2026-01-01");
    expect(answer.choices[0]?.message.content).toContain("built-in simulator");
    expect(answer.choices[0]?.message.content).toContain("Where is Lima?");
    expect(answer.choices[0]?.finish_reason).toBe("stop");
    expect(answer.usage?.total_tokens).toBe(
      (answer.usage?.prompt_tokens ?? 0) + (answer.usage?.completion_tokens ?? 0),
    );
    expect(answer._request_id).toStartWith("req_");
  });

  test("are identical for the same seed and question", async () => {
    const other = new OpenAI({ baseURL: again.url, apiKey: "any", maxRetries: 0 });
    const [one, two] = await Promise.all([
      client.chat.completions.create({ model: "sim-fast", messages }),
      other.chat.completions.create({ model: "sim-fast", messages }),
    ]);
    expect(one.choices).toEqual(two.choices);
  });

  test("stream the same text with one id, the role first and no usage by default", async () => {
    const whole = await client.chat.completions.create({ model: "sim-fast", messages });
    const stream = await client.chat.completions.create({ model: "sim-fast", messages, stream: true });
    const chunks = await Array.fromAsync(stream);
    expect(chunks[0]?.choices[0]?.delta.role).toBe("assistant");
    expect(new Set(chunks.map((chunk) => `${chunk.id} ${chunk.created}`)).size).toBe(1);
    expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("")).toBe(
      whole.choices[0]?.message.content ?? "-",
    );
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe("stop");
    expect(chunks.every((chunk) => !("usage" in chunk))).toBe(true);
  });

  test("stream their usage last with include_usage, and null before", async () => {
    const stream = await client.chat.completions.create({
      model: "sim-fast",
      messages,
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = await Array.fromAsync(stream);
    const last = chunks.pop();
    expect(last?.choices).toEqual([]);
    expect(last?.usage?.completion_tokens).toBeGreaterThan(0);
    expect(chunks.every((chunk) => chunk.usage === null)).toBe(true);
  });

  test("return n choices", async () => {
    const answer = await client.chat.completions.create({ model: "sim-fast", messages, n: 3 });
    expect(answer.choices.map((choice) => choice.index)).toEqual([0, 1, 2]);
  });

  test("stop at the token limit with finish_reason length", async () => {
    const answer = await client.chat.completions.create({
      model: "sim-fast",
      messages,
      max_completion_tokens: 5,
    });
    expect(answer.choices[0]?.finish_reason).toBe("length");
    expect(answer.usage?.completion_tokens).toBe(5);
  });

  test.each(["max_tokens", "max_completion_tokens"])("accept -1 as no limit for %s", async (name) => {
    const answer = await client.chat.completions.create({ model: "sim-fast", messages, [name]: -1 });
    expect(answer.choices[0]?.finish_reason).toBe("stop");
  });

  test.each([0, -2])("reject a limit of %d", async (bound) => {
    const refused = await client.chat.completions
      .create({ model: "sim-fast", messages, max_tokens: bound })
      .catch((thrown) => thrown);
    expect(refused).toMatchObject({ status: 400, param: "max_tokens" });
  });

  test("call the first function, then respond with its output", async () => {
    const tools = [{ type: "function" as const, function: WEATHER }];
    const first = await client.chat.completions.create({ model: "sim-tools", messages, tools });
    const call = first.choices[0]?.message.tool_calls?.[0];
    if (call?.type !== "function") throw new Error("no call");
    expect(first.choices[0]?.finish_reason).toBe("tool_calls");
    expect(JSON.parse(call.function.arguments)).toEqual({ city: "Lisbon", unit: "celsius", days: 3 });
    const second = await client.chat.completions.create({
      model: "sim-tools",
      tools,
      messages: [
        ...messages,
        { role: "assistant", tool_calls: [call] },
        { role: "tool", tool_call_id: call.id, content: "sunny, 22 degrees" },
      ],
    });
    expect(second.choices[0]?.message.content).toContain("sunny, 22 degrees");
  });

  test("stream a tool call in pieces that the SDK assembles", async () => {
    const runner = client.chat.completions.stream({
      model: "sim-tools",
      messages,
      tools: [{ type: "function", function: WEATHER }],
    });
    const call = (await runner.finalChatCompletion()).choices[0]?.message.tool_calls?.[0];
    expect(call?.type === "function" ? JSON.parse(call.function.arguments).city : null).toBe("Lisbon");
  });

  test("of a reasoning model contain the reasoning and count it", async () => {
    const answer = await client.chat.completions.create({ model: "sim-reason", messages });
    expect(answer.choices[0]?.message).toHaveProperty("reasoning_content");
    expect(answer.usage?.completion_tokens_details?.reasoning_tokens).toBeGreaterThan(0);
    const stream = await client.chat.completions.create({ model: "sim-reason", messages, stream: true });
    const chunks = await Array.fromAsync(stream);
    expect(chunks.some((chunk) => "reasoning_content" in (chunk.choices[0]?.delta ?? {}))).toBe(true);
  });

  test("match a JSON schema", async () => {
    const answer = await client.chat.completions.create({
      model: "sim-fast",
      messages,
      response_format: { type: "json_schema", json_schema: { name: "weather", schema: WEATHER.parameters } },
    });
    expect(JSON.parse(answer.choices[0]?.message.content ?? "")).toHaveProperty("unit", "celsius");
  });

  test("report cached tokens for a repeated prompt cache key", async () => {
    const ask = () =>
      client.chat.completions.create({ model: "sim-fast", messages, prompt_cache_key: "session-1" });
    expect((await ask()).usage?.prompt_tokens_details?.cached_tokens).toBe(0);
    expect((await ask()).usage?.prompt_tokens_details?.cached_tokens).toBeGreaterThan(0);
  });

  test("have the number of deltas and bytes that the model name sets", async () => {
    const stream = await client.chat.completions.create({
      model: "sim-fast@events=60,bytes=1000,interval=1ms,first=5ms",
      messages: [{ role: "user", content: "¿Dónde está el café? 🥐" }],
      stream: true,
    });
    const deltas = (await Array.fromAsync(stream))
      .map((chunk) => chunk.choices[0]?.delta.content ?? "")
      .filter((delta) => delta !== "");
    expect(deltas).toHaveLength(60);
    expect(Buffer.byteLength(deltas.join(""))).toBe(1000);
  });

  test("reject invalid JSON, a missing model and missing messages", async () => {
    const post = async (body: string) => {
      const answer = await fetch(`${again.url}/chat/completions`, { method: "POST", body });
      return [answer.status, ((await answer.json()) as { error: { param: string | null } }).error.param];
    };
    expect(await post("{nope")).toEqual([400, null]);
    expect(await post('{"messages":[]}')).toEqual([400, "model"]);
    expect(await post('{"model":"sim-fast"}')).toEqual([400, "messages"]);
    expect(await post('{"model":"sim-fast","messages":[nope]}')).toEqual([400, null]);
  });
});

describe("embeddings", () => {
  const create = (body: object) => client.embeddings.create({ model: "sim-embed", input: "hello", ...body });

  test("are unit vectors, the same in both encodings", async () => {
    const [base64, float] = await Promise.all([create({}), create({ encoding_format: "float" })]);
    const vector = float.data[0]?.embedding ?? [];
    expect(vector).toHaveLength(1536);
    expect(Math.hypot(...vector)).toBeCloseTo(1, 5);
    expect(Array.from(base64.data[0]?.embedding ?? [])).toEqual(vector);
    expect(float.usage).toEqual({ prompt_tokens: 2, total_tokens: 2 });
  });

  test("accept many inputs in order, as texts or tokens", async () => {
    const texts = await create({ input: ["one", "two"], dimensions: 8 });
    expect(texts.data.map((one) => [one.index, one.embedding.length])).toEqual([
      [0, 8],
      [1, 8],
    ]);
    expect(texts.data[0]?.embedding).not.toEqual(texts.data[1]?.embedding ?? []);
    expect((await create({ input: [1, 2, 3] })).usage.prompt_tokens).toBe(3);
    expect((await create({ input: [[1, 2], [3]] })).data).toHaveLength(2);
  });

  test("of empty input are rejected", async () => {
    expect(await failure(create({ input: "" }))).toBeInstanceOf(BadRequestError);
    expect(await failure(create({ input: [] }))).toBeInstanceOf(BadRequestError);
  });
});

describe("images", () => {
  test("are valid PNG files, in the requested number", async () => {
    const answer = await client.images.generate({ model: "sim-image", prompt: "a red boat", n: 2 });
    expect(answer.data).toHaveLength(2);
    expect(answer.usage?.output_tokens).toBe(544);
    const png = Buffer.from(answer.data?.[0]?.b64_json ?? "", "base64");
    expect(png.subarray(1, 4).toString()).toBe("PNG");
    const dataAt = png.indexOf("IDAT");
    const pixels = inflateSync(png.subarray(dataAt + 4, dataAt + 4 + png.readUInt32BE(dataAt - 4)));
    // Four bits per pixel, and the filter byte before each row.
    expect(pixels).toHaveLength(1024 * (1 + 1024 / 2));
  });

  test("have the byte size that the model name sets", async () => {
    const answer = await client.images.generate({ model: "sim-image@bytes=50000", prompt: "a boat" });
    expect(Buffer.from(answer.data?.[0]?.b64_json ?? "", "base64")).toHaveLength(50_000);
  });

  test("stream partial images before the final image", async () => {
    const stream = await client.images.generate({
      model: "sim-image",
      prompt: "a boat",
      stream: true,
      partial_images: 2,
    });
    const events = await Array.fromAsync(stream);
    expect(events.map((event) => event.type)).toEqual([
      "image_generation.partial_image",
      "image_generation.partial_image",
      "image_generation.completed",
    ]);
  });

  test("are edited with a multipart form", async () => {
    const file = await toFile(Buffer.alloc(3_000, 7), "a.png", { type: "image/png" });
    const answer = await client.images.edit({
      model: "sim-image",
      prompt: "bluer",
      image: [file, file],
      n: 1,
    });
    expect(answer.data).toHaveLength(1);
    expect(answer.usage?.input_tokens_details.image_tokens).toBe(128);
    const entry = simulator.ledger.last();
    expect(entry?.form?.files.map((one) => [one.name, one.bytes])).toEqual([
      ["image[]", 3_000],
      ["image[]", 3_000],
    ]);
    expect(entry?.form?.texts).toMatchObject({ prompt: "bluer", model: "sim-image" });
  });

  test("are edited with JSON, as a stream", async () => {
    const answer = await fetch(`${again.url}/images/edits`, {
      method: "POST",
      body: JSON.stringify({
        model: "sim-image",
        prompt: "bluer",
        stream: true,
        images: [{ image_url: "data:image/png;base64,AAAA" }],
      }),
    });
    expect(await answer.text()).toStartWith("event: image_edit.completed\n");
  });
});

describe("Azure's paths", () => {
  const body = JSON.stringify({
    messages: [{ role: "user", content: "Hi" }],
    input: "Hi",
    model: "sim-fast",
  });
  const origin = new URL(again.url).origin;
  const post = (path: string) => fetch(origin + path, { method: "POST", body });

  test("with a deployment use its name as the model", async () => {
    const path = "/openai/deployments/my%40events%3D2/chat/completions";
    const answer = await post(`${path}?api-version=2024-10-21`);
    expect(await answer.json()).toMatchObject({ model: "my@events=2-2026-01-01" });
    expect((await post(path)).status).toBe(404);
  });

  test("without a deployment use the model of the body", async () => {
    for (const path of ["/openai/v1/responses", "/openai/responses?api-version=2025-04-01-preview"]) {
      expect(await (await post(path)).json()).toMatchObject({ model: "sim-fast-2026-01-01" });
    }
  });
});

test("an unknown path returns 404, and a wrong method returns 405", async () => {
  expect((await fetch(`${again.url}/nothing`, { method: "POST" })).status).toBe(404);
  const wrong = await fetch(`${again.url}/chat/completions`);
  expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "POST"]);
});
