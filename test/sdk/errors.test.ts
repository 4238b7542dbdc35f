/** How the OpenAI SDK handles failures: its error classes, its retries and the request ids that it shows. */

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import OpenAI from "openai";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

const FAULTS = [
  "400",
  "context",
  "401",
  "403",
  "404",
  "429@retry=2",
  "429",
  "429-date",
  "429-quota",
  "500",
  "502",
  "503",
  "529",
  "html",
  "redirect",
  "refuse",
  "empty",
  "badjson",
  "truncated",
  "rst@chunk6",
  "cut@chunk6",
  "error-in-stream",
  "capacity-in-stream",
  "failed",
];

let gateway: RunningGateway | null = null;
let client: OpenAI;

/** A new gateway for each failure, because a failed account cools down. */
async function renew(): Promise<void> {
  await gateway?.stop();
  const models = Object.fromEntries(FAULTS.map((fault) => [`broken-${fault}`, `fault/${fault}`]));
  gateway = await startTestGateway({ models: { ...models, "fast-chat": "sim-fast" } });
  client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: TEST_KEY, maxRetries: 0 });
}

beforeEach(renew);

afterEach(async () => {
  await gateway?.stop();
  gateway = null;
});

const messages = [{ role: "user" as const, content: "Hello" }];
const chat = (model: string) => client.chat.completions.create({ model, messages });
const chatStream = (model: string) => client.chat.completions.create({ model, messages, stream: true });
const respond = (model: string) => client.responses.create({ model, input: "Hello" });
const respondStream = (model: string) => client.responses.create({ model, input: "Hello", stream: true });

async function catchError(work: PromiseLike<unknown>): Promise<InstanceType<typeof OpenAI.APIError>> {
  try {
    await work;
  } catch (error) {
    if (error instanceof OpenAI.APIError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

const REFUSALS = [
  ["400", OpenAI.BadRequestError, 400, "invalid_value"],
  ["401", OpenAI.InternalServerError, 503, "no_available_account"],
  ["403", OpenAI.InternalServerError, 503, "no_available_account"],
  ["404", OpenAI.InternalServerError, 503, "no_available_account"],
  ["429-quota", OpenAI.InternalServerError, 503, "no_available_account"],
  ["429", OpenAI.RateLimitError, 429, "rate_limit_exceeded"],
  ["500", OpenAI.InternalServerError, 502, "upstream_error"],
  ["502", OpenAI.InternalServerError, 502, "upstream_error"],
  ["503", OpenAI.InternalServerError, 503, "server_is_overloaded"],
  ["529", OpenAI.InternalServerError, 503, "server_is_overloaded"],
  ["html", OpenAI.InternalServerError, 502, "upstream_error"],
  ["redirect", OpenAI.InternalServerError, 502, "upstream_error"],
  ["refuse", OpenAI.InternalServerError, 502, "upstream_error"],
  ["capacity-in-stream", OpenAI.InternalServerError, 503, "server_is_overloaded"],
] as const;

describe("an upstream that fails before any content", () => {
  test.each(REFUSALS)("with %s results in a plain error for whole responses and streams", async (...row) => {
    const [fault, errorClass, status, code] = row;
    for (const call of [chat, chatStream, respond, respondStream]) {
      await renew();
      const error = await catchError(call(`broken-${fault}`));
      expect(error).toBeInstanceOf(errorClass);
      expect(error).toMatchObject({ status, code });
      expect(error.requestID).toMatch(/^req_/);
      expect(error.error).toMatchObject({ request_id: error.requestID });
    }
  });

  test.each([
    ["429@retry=2", "2"],
    ["429", "2"],
    ["429-date", "[12]"],
  ])("with %s results in a Retry-After header", async (fault, seconds) => {
    const error = await catchError(chat(`broken-${fault}`));
    expect(error.headers?.get("retry-after")).toMatch(new RegExp(`^${seconds}$`));
  });

  test("for a reason that only an administrator can fix is not retried", async () => {
    for (const fault of ["401", "404", "429-quota"]) {
      await renew();
      let asked = 0;
      const patient = client.withOptions({
        maxRetries: 2,
        fetch(url, init) {
          asked++;
          return fetch(url, init);
        },
      });
      const work = patient.chat.completions.create({ model: `broken-${fault}`, messages });
      expect(await catchError(work)).toMatchObject({ code: "no_available_account" });
      expect([fault, asked]).toEqual([fault, 1]);
    }
  });

  test("for exceeded context length results in an error that the client can use", async () => {
    const error = await catchError(chat("broken-context"));
    expect(error).toMatchObject({ status: 400, code: "context_length_exceeded", param: "messages" });
    expect(error.message).toContain("maximum context length is 8192 tokens");
    expect(await catchError(chatStream("broken-context"))).toMatchObject({ status: 400 });
  });

  test("for exceeded context length sends response.failed on a Responses stream", async () => {
    const types: string[] = [];
    let code: unknown;
    for await (const event of await respondStream("broken-context")) {
      types.push(event.type);
      if (event.type === "response.failed") code = event.response.error?.code;
    }
    expect(types).toEqual(["response.created", "response.failed"]);
    expect(code).toBe("context_length_exceeded");
  });
});

describe("an upstream that fails in the middle", () => {
  const BREAKS = ["truncated", "rst@chunk6", "cut@chunk6", "error-in-stream", "failed"];

  test.each(BREAKS)(
    "of a chat stream with %s makes the SDK throw after the delivered text",
    async (fault) => {
      const stream = await chatStream(`broken-${fault}`);
      let words = "";
      const error = await catchError(
        (async () => {
          for await (const chunk of stream) words += chunk.choices[0]?.delta.content ?? "";
        })(),
      );
      expect(words).not.toBe("");
      expect(error).toMatchObject({ code: "upstream_error", type: "server_error" });
    },
  );

  test.each(BREAKS.filter((fault) => fault !== "truncated"))(
    "of a Responses stream with %s ends it with response.failed",
    async (fault) => {
      const events = [];
      for await (const event of await respondStream(`broken-${fault}`)) events.push(event);
      const last = events.at(-1);
      expect(last).toMatchObject({
        type: "response.failed",
        response: {
          status: "failed",
          model: `broken-${fault}`,
          error: { code: "server_error", message: expect.any(String) },
        },
      });
      expect(events.filter(({ type }) => type === "response.failed")).toHaveLength(1);
      expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index));
    },
  );

  test.each(["truncated", "rst@chunk6", "cut@chunk6", "empty", "badjson"])(
    "of a whole response with %s results in an upstream error",
    async (fault) => {
      for (const call of [chat, respond]) {
        await renew();
        expect(await catchError(call(`broken-${fault}`))).toMatchObject({
          status: 502,
          code: "upstream_error",
        });
      }
    },
  );

  test("of producing a response is reported in the response", async () => {
    const answer = await respond("broken-failed");
    expect(answer).toMatchObject({
      status: "failed",
      model: "broken-failed",
      error: { code: "server_error" },
    });
  });
});

describe("retries of the SDK", () => {
  const retrying = () =>
    new OpenAI({ baseURL: `${gateway?.url}/v1`, apiKey: TEST_KEY, maxRetries: 2 }).chat.completions;
  const upstreamRequests = () => gateway?.simulator.ledger.totals().requests ?? 0;

  test("succeed after a rate limit has passed", async () => {
    const before = upstreamRequests();
    gateway?.simulator.force("429@retry=1", 1);
    const answer = await retrying().create({ model: "fast-chat", messages });
    expect(answer.choices[0]?.message.content).not.toBe("");
    expect(upstreamRequests() - before).toBe(2);
  });

  test("succeed after a short failure, also for streams", async () => {
    const before = upstreamRequests();
    gateway?.simulator.force("500", 1);
    const stream = await retrying().create({ model: "fast-chat", messages, stream: true });
    let chunks = 0;
    for await (const _ of stream) chunks++;
    expect(chunks).toBeGreaterThan(1);
    expect(upstreamRequests() - before).toBe(2);
  });

  test.each([
    ["an invalid request", "broken-400", TEST_KEY, 1],
    ["an unknown model", "nonsense", TEST_KEY, 0],
    ["an invalid key", "fast-chat", "wrong-key-0123456789-0123456789-0123456789", 0],
  ])("are not spent on %s", async (_, model, apiKey, arrived) => {
    const before = upstreamRequests();
    let asked = 0;
    const counting = new OpenAI({
      baseURL: `${gateway?.url}/v1`,
      apiKey,
      maxRetries: 2,
      fetch: (url, init) => {
        asked++;
        return fetch(url, init);
      },
    });
    await catchError(counting.chat.completions.create({ model, messages }));
    expect(asked).toBe(1);
    expect(upstreamRequests() - before).toBe(arrived);
  });
});

test("an invalid key is an AuthenticationError", async () => {
  const stranger = new OpenAI({ baseURL: `${gateway?.url}/v1`, apiKey: "sk-wrong", maxRetries: 0 });
  const error = await catchError(stranger.models.list());
  expect(error).toBeInstanceOf(OpenAI.AuthenticationError);
  expect(error).toMatchObject({ status: 401, code: "invalid_api_key" });
  expect(error.requestID).toMatch(/^req_/);
});
