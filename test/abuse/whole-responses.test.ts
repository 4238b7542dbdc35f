/**
 * Whole responses of a hostile upstream that are not passed on as they are: counted, stored for a repeat, packed or
 * translated as embeddings, or read for a token count. None of them holds the event loop, and none stays in memory.
 */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { TEST_KEY } from "../support/running-gateway.ts";
import {
  type AttackTarget,
  buildAttackFile,
  CannedUpstream,
  measureAttack,
  startAttackTarget,
} from "./attack-setup.ts";

setDefaultTimeout(120_000);

const MIB = 1024 * 1024;
const INTERFACES = ["chat", "responses", "messages", "embeddings"] as const;
/** A model for each attack, because some of them make the upstream's model cool down. */
const MODELS = 8;
const listModels = (account: string) => Array.from({ length: MODELS }, (_, at) => `${account}${at}`);
const ACCOUNTS = [
  { name: "openai", kind: "openai", interfaces: ["chat", "embeddings"], models: listModels("openai") },
  { name: "responses", kind: "openai", interfaces: ["responses"], models: listModels("responses") },
  { name: "anthropic", kind: "anthropic", interfaces: null, models: listModels("anthropic") },
  { name: "gemini", kind: "gemini", interfaces: null, models: listModels("gemini") },
] as const;

const upstream = new CannedUpstream("application/json");
let target: AttackTarget;

beforeAll(async () => {
  target = await startAttackTarget({ file: buildAttackFile(upstream.origin, INTERFACES, ACCOUNTS) });
  // The first requests compile the code and start the threads.
  for (let run = 0; run < 10; run++) {
    await send("/v1/chat/completions", CHAT("openai0"), chat('"Hello"', USAGE));
    await send("/v1/embeddings", EMBED("openai0", "base64"), openaiVectors("[0.1,0.2]"));
    await send("/v1/embeddings", EMBED("gemini0", "float"), '{"embeddings":[{"values":[0.1]}]}');
    await send("/v1/messages/count_tokens", CHAT("anthropic0"), '{"input_tokens":3}');
  }
  await send("/v1/chat/completions", CHAT("openai0"), chat(`"${"word ".repeat(20_000)}"`));
});
afterAll(async () => {
  await target?.stop();
  await upstream.stop();
});

const CHAT = (model: string) => ({ model, messages: [{ role: "user", content: "Hello" }] });
const EMBED = (model: string, encoding_format: string) => ({ model, input: "Hello", encoding_format });
const USAGE = ',"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}';

function chat(content: string, more = ""): string {
  const message = `{"role":"assistant","content":${content}}`;
  return `{"id":"c","choices":[{"index":0,"message":${message},"finish_reason":"stop"}]${more}}`;
}

function openaiVectors(vector: string): string {
  return `{"object":"list","data":[{"index":0,"embedding":${vector}}],"usage":{"prompt_tokens":1,"total_tokens":1}}`;
}

async function send(
  path: string,
  body: object,
  response: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ readonly status: number; readonly text: string }> {
  upstream.body = response;
  const received = await fetch(target.url + path, {
    method: "POST",
    headers: { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  return { status: received.status, text: await received.text() };
}

async function attack(
  name: string,
  response: string,
  run: () => Promise<{ readonly status: number; readonly text: string }>,
) {
  let received = { status: 0, text: "" };
  const report = await measureAttack(name, target, {
    bytes: response.length,
    run: async () => {
      received = await run();
    },
  });
  return { ...received, report };
}

const list = (element: string, bytes: number) =>
  `[${`${element},`.repeat(bytes / (element.length + 1))}${element}]`;
const words = (bytes: number) => `"${"word ".repeat(bytes / 5)}"`;

test("the response to a token count is read only as far as a number is long", async () => {
  const response = `{"input_tokens":3,"x":${list("[]", 20 * MIB)}}`;
  const { status, report } = await attack("a token count of 20 MiB", response, () =>
    send("/v1/messages/count_tokens", CHAT("anthropic1"), response),
  );
  expect(status).toBe(200);
  expect(report.memoryGrowthBytes).toBeLessThan(80 * MIB);
});

test("a long response that reports no output is not parsed to find out whether it is empty", async () => {
  const none = ',"usage":{"prompt_tokens":1,"completion_tokens":0,"total_tokens":1}';
  const response = chat(words(40 * MIB), none);
  const { status, text } = await attack("40 MiB of text and no output tokens", response, () =>
    send("/v1/chat/completions", CHAT("openai5"), response),
  );
  expect([status, text.length > 40 * MIB]).toEqual([200, true]);
});

test.each([
  ["15 MiB", "openai6", 15 * MIB],
  ["60 MiB", "openai7", 60 * MIB],
])("an error with a message of %s is cut", async (name, model, bytes) => {
  const response = `{"error":{"type":"invalid_request_error","message":"${"maximum context ".repeat(bytes / 16)}"}}`;
  const { status, report } = await attack(`an error of ${name}`, response, () =>
    send("/v1/chat/completions", CHAT(model), response),
  );
  expect(status).toBe(400);
  expect(report.memoryGrowthBytes).toBeLessThan(8 * bytes);
});

test("a long response without usage is counted in a thread", async () => {
  const response = chat(words(32 * MIB));
  const { status, text } = await attack("32 MiB of text without usage", response, () =>
    send("/v1/chat/completions", CHAT("openai1"), response),
  );
  expect([status, text.length > 32 * MIB]).toEqual([200, true]);
});

test("a response that is too long for a repeat is not decoded for it", async () => {
  const response = chat(words(40 * MIB), USAGE);
  const headers = { "idempotency-key": crypto.randomUUID() };
  const { status } = await attack("40 MiB with an Idempotency-Key", response, () =>
    send("/v1/chat/completions", CHAT("openai2"), response, headers),
  );
  expect(status).toBe(200);
});

const VECTOR = list("0", 12 * MIB);

test.each([
  ["one long vector", 200, `{"embeddings":[{"values":${VECTOR}}]}`],
  ["millions of elements", 502, `{"embeddings":${VECTOR}}`],
  ["a long usage", 200, `{"embeddings":[{"values":[0.1]}],"usageMetadata":{"x":${list("[]", 12 * MIB)}}}`],
  ["a long error", 502, `{"error":{"code":500,"message":"a","x":${list("[]", 12 * MIB)}}}`],
] as const)("a batch of Google's with %s is translated in a thread", async (name, expected, response) => {
  const model = `gemini${expected === 200 ? 1 : name.length % 5 === 0 ? 2 : 3}`;
  const { status, report } = await attack(`a batch with ${name}`, response, () =>
    send("/v1/embeddings", EMBED(model, "float"), response),
  );
  expect(status).toBe(expected);
  expect(report.memoryGrowthBytes).toBeLessThan(512 * MIB);
});

test.each([
  ["a million numbers", openaiVectors(list("0", 1.9 * MIB))],
  ["numbers with exponents", openaiVectors(list("1.2345e-10", 3.9 * MIB))],
  ["100,000 vectors", `{"data":${list('{"embedding":[]}', 1.6 * MIB)}}`],
])("a response with %s is packed as Base64 in a thread", async (name, response) => {
  const { status } = await attack(`packing ${name}`, response, () =>
    send("/v1/embeddings", EMBED("openai3", "base64"), response),
  );
  expect(status).toBe(200);
});

test("a translated response of short exponents is parsed like one of other numbers", async () => {
  const response = chat('"Hello"', `${USAGE},"x":[${"1e5,".repeat((3 * MIB) / 16)}1234567890123456]`);
  const { status } = await attack("a response of exponents", response, () =>
    send("/v1/messages", { ...CHAT("openai4"), max_tokens: 9 }, response),
  );
  expect(status).toBe(200);
});

test("ids of megabytes are not remembered", async () => {
  const item = '{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}';
  const usage = '{"input_tokens":1,"output_tokens":1,"total_tokens":2}';
  const response = (at: number) =>
    `{"id":"r${at}${"x".repeat(4 * MIB)}","status":"completed","output":[${item}],"usage":${usage}}`;
  const body = { model: "responses1", input: "Hello" };
  const run = async (count: number) => {
    let last = await send("/v1/responses", body, response(0));
    for (let at = 1; at < count; at++) last = await send("/v1/responses", body, response(at));
    return last;
  };
  const first = await attack("one response with an id of 4 MiB", response(0), () => run(1));
  const { status, report } = await attack("40 responses with ids of 4 MiB", response(0), () => run(40));
  expect(status).toBe(200);
  expect(report.memory.live - first.report.memory.live).toBeLessThan(40 * MIB);
});
