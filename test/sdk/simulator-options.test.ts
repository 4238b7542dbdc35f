/** Tests of request options that change the response: honoured in whole and streamed responses, or rejected. */

import { afterAll, describe, expect, test } from "bun:test";
import OpenAI, { BadRequestError, toFile } from "openai";
import { startSimulator } from "../../simulator/simulator.ts";

const simulator = startSimulator({ seed: 7, credential: null });
const client = new OpenAI({ baseURL: simulator.url, apiKey: "any", maxRetries: 0 });
afterAll(() => simulator.stop());

const MESSAGES = [{ role: "user" as const, content: "Tell me of the sea." }];

/** Returns the `param` and message of a rejected request. */
async function refusal(call: PromiseLike<unknown>): Promise<string> {
  const reason: unknown = await call.then(
    () => null,
    (error: unknown) => error,
  );
  if (!(reason instanceof BadRequestError)) throw new Error(`not refused: ${String(reason)}`);
  return `${reason.param}: ${reason.message}`;
}

type ChatOptions = Partial<Omit<OpenAI.ChatCompletionCreateParamsNonStreaming, "stream">>;

async function chat(options: ChatOptions = {}) {
  const answer = await client.chat.completions.create({ model: "sim-fast", messages: MESSAGES, ...options });
  const [choice] = answer.choices;
  if (choice === undefined) throw new Error("there is no choice");
  return { ...choice, outputTokens: answer.usage?.completion_tokens };
}

async function streamChat(options: ChatOptions = {}) {
  const stream = await client.chat.completions.create({
    model: "sim-fast",
    messages: MESSAGES,
    ...options,
    stream: true,
    stream_options: { include_usage: true },
  });
  const chunks = await Array.fromAsync(stream);
  const choices = chunks.flatMap((chunk) => chunk.choices);
  return {
    text: choices.map(({ delta }) => delta.content ?? "").join(""),
    finish: choices.map(({ finish_reason }) => finish_reason).filter((reason) => reason !== null),
    choices,
    outputTokens: chunks.at(-1)?.usage?.completion_tokens,
  };
}

describe("stop", () => {
  test("ends the text before the first sequence, and counts no tokens after it", async () => {
    const { message } = await chat();
    const whole = message.content ?? "";
    const [first, second] = [whole.indexOf("simulator"), whole.indexOf(" is ")];
    expect(Math.min(first, second)).toBeGreaterThan(0);
    const stop = ["never said", "simulator", " is "];
    const expected = whole.slice(0, Math.min(first, second));
    const cut = await chat({ stop });
    expect([cut.message.content, cut.finish_reason]).toEqual([expected, "stop"]);
    const streamed = await streamChat({ stop });
    expect([streamed.text, streamed.finish]).toEqual([expected, ["stop"]]);
    expect(cut.outputTokens).toBe(Math.ceil(Buffer.byteLength(expected) / 4));
    expect(streamed.outputTokens).toBe(cut.outputTokens);
    expect((await chat({ stop: "simulator" })).message.content).toBe(whole.slice(0, first));
    expect((await chat({ stop: null })).message.content).toBe(whole);
  });

  test("rejects invalid sequences, and is unknown to the Responses API", async () => {
    for (const stop of ["", ["a", ""], ["a", "b", "c", "d", "e"]]) {
      expect(await refusal(chat({ stop }))).toContain("stop: 400 Invalid 'stop'");
    }
    const body = { model: "sim-fast", input: "Hello", stop: "x" };
    expect(await refusal(client.responses.create(body))).toContain("Unknown parameter: 'stop'");
  });
});

describe("log probabilities", () => {
  const listTokens = (logprobs: OpenAI.ChatCompletion.Choice.Logprobs | null | undefined) =>
    (logprobs?.content ?? []).map(({ token }) => token).join("");

  test("of a chat completion add up to its text, token by token", async () => {
    const { message, logprobs } = await chat({ logprobs: true, top_logprobs: 3 });
    expect(listTokens(logprobs)).toBe(message.content ?? "");
    for (const { token, logprob, bytes, top_logprobs } of logprobs?.content ?? []) {
      expect(logprob).toBeLessThanOrEqual(0);
      expect(Buffer.from(bytes ?? []).toString()).toBe(token);
      expect(top_logprobs).toHaveLength(3);
      expect(top_logprobs[0]).toMatchObject({ token, logprob });
    }
    expect((await chat({ logprobs: true })).logprobs?.content?.[0]?.top_logprobs).toEqual([]);
    expect((await chat()).logprobs).toBeNull();
  });

  test("of a stream arrive with their deltas", async () => {
    const whole = await chat({ logprobs: true });
    const { choices } = await streamChat({ logprobs: true });
    const content = choices.flatMap(({ logprobs }) => logprobs?.content ?? []);
    expect(content).toEqual(whole.logprobs?.content ?? []);
    for (const { delta, logprobs } of choices) {
      if (delta.content) expect(listTokens(logprobs)).toBe(delta.content);
    }
  });

  test("never split a character", async () => {
    const messages = [{ role: "user" as const, content: "🌊🌊🌊🌊🌊🌊🌊 ééééé" }];
    const { logprobs, message } = await chat({ messages, logprobs: true });
    expect(listTokens(logprobs)).toBe(message.content ?? "");
    expect(logprobs?.content?.every(({ token }) => token.isWellFormed())).toBe(true);
  });

  test("are rejected where they are unsupported", async () => {
    expect(await refusal(chat({ top_logprobs: 2 }))).toContain("requires 'logprobs'");
    expect(await refusal(chat({ logprobs: true, top_logprobs: 21 }))).toContain("from 0 to 20");
    expect(await refusal(chat({ model: "sim-fast@bytes=300000", logprobs: true }))).toContain(
      "logprobs: 400",
    );
  });
});

describe("a tool choice", () => {
  const tool = (name: string) => ({ type: "function" as const, function: { name, parameters: {} } });
  const tools = [tool("first"), tool("second")];
  const called = async (options: ChatOptions) => {
    const { message, finish_reason } = await chat({ tools, ...options });
    const names = message.tool_calls?.map((call) => (call.type === "function" ? call.function.name : ""));
    const { choices, finish } = await streamChat({ tools, ...options });
    const streamed = choices.flatMap(({ delta }) => delta.tool_calls?.[0]?.function?.name ?? []);
    expect([streamed, finish]).toEqual([names ?? [], [finish_reason]]);
    return names ?? [];
  };

  test("that names a function makes every model call it, also after a tool output", async () => {
    const tool_choice = { type: "function" as const, function: { name: "second" } };
    expect(await called({ tool_choice })).toEqual(["second"]);
    const messages: OpenAI.ChatCompletionMessageParam[] = [
      ...MESSAGES,
      {
        role: "assistant",
        tool_calls: [{ id: "call_1", type: "function", function: { name: "first", arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: "call_1", content: "done" },
    ];
    expect(await called({ messages, tool_choice })).toEqual(["second"]);
  });

  test("of none, auto or required is followed", async () => {
    expect(await called({ tool_choice: "required" })).toEqual(["first"]);
    expect(await called({ tool_choice: "none", model: "sim-tools" })).toEqual([]);
    expect(await called({ tool_choice: "auto", model: "sim-tools" })).toEqual(["first"]);
    expect(await called({ tool_choice: "auto" })).toEqual([]);
  });

  test("of allowed tools excludes all other tools", async () => {
    const tool_choice = (mode: "auto" | "required") => ({
      type: "allowed_tools" as const,
      allowed_tools: { mode, tools: [{ type: "function", function: { name: "second" } }] },
    });
    expect(await called({ tool_choice: tool_choice("required") })).toEqual(["second"]);
    expect(await called({ tool_choice: tool_choice("auto"), model: "sim-tools" })).toEqual(["second"]);
  });

  test("of a function without parameters results in an empty arguments object", async () => {
    for (const parameters of [undefined, {}]) {
      const bare = {
        type: "function" as const,
        function: { name: "bare", ...(parameters && { parameters }) },
      };
      const { message } = await chat({ tools: [bare], tool_choice: "required" });
      expect(message.tool_calls).toMatchObject([{ function: { arguments: "{}" } }]);
    }
  });

  test("that matches no tool is rejected", async () => {
    const tool_choice = { type: "function" as const, function: { name: "third" } };
    expect(await refusal(chat({ tools, tool_choice }))).toContain("the function 'third'");
    expect(await refusal(chat({ tool_choice: "required" }))).toContain(
      "'tool_choice' is 'required', and 'tools' has no function",
    );
    const custom = { type: "custom" as const, custom: { name: "first" } };
    expect(await refusal(chat({ tools, tool_choice: custom }))).toContain("calls functions only");
  });
});

describe("the size of an image", () => {
  /** The size from the header of the image. */
  const measureSize = (base64: string | undefined) => {
    const png = Buffer.from(base64 ?? "", "base64");
    return `${png.readUInt32BE(16)}x${png.readUInt32BE(20)}`;
  };

  test.each(["256x256", "1536x1024", "1x7", "3840x2160"])("is the requested size: %s", async (size) => {
    const request = { model: "sim-image", prompt: "a boat", size };
    const answer = await client.images.generate(request);
    expect([measureSize(answer.data?.[0]?.b64_json), String(answer.size)]).toEqual([size, size]);
    const stream = await client.images.generate({ ...request, stream: true, partial_images: 1 });
    for await (const event of stream)
      expect([measureSize(event.b64_json), String(event.size)]).toEqual([size, size]);
    const image = await toFile(Buffer.from("x"), "boat.png", { type: "image/png" });
    const edited = await client.images.edit({ ...request, image });
    expect(measureSize(edited.data?.[0]?.b64_json)).toBe(size);
  });

  test("is 1024x1024 by default", async () => {
    for (const size of [{}, { size: null }, { size: "auto" }]) {
      const answer = await client.images.generate({ model: "sim-image", prompt: "a boat", ...size });
      expect([measureSize(answer.data?.[0]?.b64_json), answer.size]).toEqual(["1024x1024", "1024x1024"]);
    }
  });

  test("is rejected if it is invalid", async () => {
    for (const size of ["0x0", "4097x1", "4096x4096", "large", "10 x 10", "1024"]) {
      const call = client.images.generate({ model: "sim-image", prompt: "a boat", size });
      expect(await refusal(call)).toContain("size: 400 Invalid 'size'");
    }
  });
});

test("image URLs are unsupported, and a request for them is rejected", async () => {
  const request = { model: "sim-image", prompt: "a boat" };
  const refused = await refusal(client.images.generate({ ...request, response_format: "url" }));
  expect(refused).toContain("response_format: 400");
  expect(refused).toContain("images come as base64");
  const image = await toFile(Buffer.from("x"), "boat.png", { type: "image/png" });
  expect(await refusal(client.images.edit({ ...request, image, response_format: "url" }))).toBe(refused);
  const answer = await client.images.generate({ ...request, response_format: "b64_json" });
  expect(answer.data?.[0]?.b64_json).toBeString();
});
