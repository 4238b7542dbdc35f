/** Gemini clients on accounts of kind gemini: nothing is translated. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import { GEMINI_OPERATIONS } from "../../src/public-api/gemini-operations.ts";
import { geminiResponse } from "../../src/public-api/schemas/gemini.ts";
import { type RunningGateway, TEST_KEY } from "../support/running-gateway.ts";
import {
  callGemini,
  GOOGLE_CREDENTIAL,
  geminiFile,
  MODELS,
  methodPath,
  readEvents,
  startGeminiGateway,
  userTurn,
} from "./gemini-gateway.ts";

const googleError = z.object({
  error: z.object({
    code: z.number(),
    message: z.string(),
    status: z.string(),
    details: z.array(z.looseObject({ "@type": z.string() })),
  }),
});

let gateway: RunningGateway;
beforeAll(async () => {
  gateway = await startGeminiGateway({
    file: geminiFile({ ...MODELS, "fast-chat": "sim-fast", "embed-small": "sim-embed" }),
  });
});
afterAll(() => gateway.stop());

const HELLO = { contents: [userTurn("Hello")] };
const latestEntry = () => gateway.simulator.ledger.snapshot().entries.at(-1);

function sentBody(): string {
  return new TextDecoder().decode(
    gateway.simulator.ledger.findBody(latestEntry()?.id ?? "") ?? new Uint8Array(),
  );
}

describe("generateContent", () => {
  test("reaches the account with its credential and the upstream's model in the path", async () => {
    const response = await callGemini(gateway, methodPath("gemini-2.5-flash", "generateContent"), HELLO);
    expect(response.status).toBe(200);
    const body = geminiResponse.parse(await response.json());
    expect(body.modelVersion).toBe("gemini-2.5-flash");
    expect(body.candidates?.[0]?.finishReason).toBe("STOP");
    const entry = latestEntry();
    expect(entry?.path).toBe("/v1beta/models/sim-fast:generateContent");
    expect(entry?.headers["x-goog-api-key"]).toBe(GOOGLE_CREDENTIAL);
    expect(entry?.headers.authorization).toBeUndefined();
  });

  test("forwards the body byte for byte", async () => {
    const body = `{ "contents" : [ {"parts":[{"text":"Hi \\u00e9"}]} ],"safetySettings":[]  }`;
    const response = await callGemini(gateway, methodPath("gemini-2.5-flash", "generateContent"), body);
    expect(response.status).toBe(200);
    expect(sentBody()).toBe(body);
  });

  test("replaces a model that the body names", async () => {
    const response = await callGemini(gateway, methodPath("gemini-2.5-flash", "generateContent"), {
      model: "models/gemini-2.5-flash",
      ...HELLO,
    });
    expect(response.status).toBe(200);
    expect(JSON.parse(sentBody())).toEqual({ model: "models/sim-fast", ...HELLO });
  });

  test("records the usage: thoughts are output, cached tokens are input", async () => {
    const contents = [userTurn("Count me"), { role: "model", parts: [{ text: "Yes." }] }, userTurn("Go on")];
    for (let turn = 0; turn < 2; turn++) {
      const response = await callGemini(gateway, methodPath("gemini-3-pro", "generateContent"), { contents });
      expect(response.status).toBe(200);
    }
    const entry = latestEntry();
    const row = (await gateway.usageRows()).at(-1);
    expect(entry?.reasoningTokens).toBeGreaterThan(0);
    expect(entry?.cachedTokens).toBeGreaterThan(0);
    expect(row).toMatchObject({
      interface: "gemini",
      endpoint: "gemini.generate_content",
      input_tokens: entry?.inputTokens,
      cached_tokens: entry?.cachedTokens,
      output_tokens: entry?.outputTokens,
      reasoning_tokens: entry?.reasoningTokens,
    });
  });
});

describe("streamGenerateContent", () => {
  const path = `${methodPath("gemini-3-pro", "streamGenerateContent")}?alt=sse`;

  test("delivers every event with the public name of the model, and no end marker", async () => {
    const response = await callGemini(gateway, path, {
      ...HELLO,
      generationConfig: { thinkingConfig: { includeThoughts: true } },
    });
    expect(response.headers.get("content-type")).toStartWith("text/event-stream");
    const text = await response.text();
    const events = readEvents(text).map((event) => geminiResponse.parse(event));
    expect(events.length).toBeGreaterThan(3);
    expect(new Set(events.map(({ modelVersion }) => modelVersion))).toEqual(new Set(["gemini-3-pro"]));
    expect(events.at(-1)?.candidates?.[0]?.finishReason).toBe("STOP");
    expect(events.at(-1)?.usageMetadata?.thoughtsTokenCount).toBeGreaterThan(0);
    expect(text).not.toContain("[DONE]");
    const row = (await gateway.usageRows()).at(-1);
    expect(row).toMatchObject({
      output_tokens: latestEntry()?.outputTokens,
      outcome: "completed",
      stream: 1,
    });
  });

  test("needs alt=sse, and the error names it", async () => {
    const response = await callGemini(gateway, methodPath("gemini-3-pro", "streamGenerateContent"), HELLO);
    expect(response.status).toBe(400);
    const { error } = googleError.parse(await response.json());
    expect(error.message).toContain("Add `?alt=sse`");
  });
});

describe("the other methods", () => {
  test("countTokens is answered by the account, and is free", async () => {
    const response = await callGemini(gateway, methodPath("gemini-2.5-flash", "countTokens"), HELLO);
    expect(await response.json()).toMatchObject({ totalTokens: expect.any(Number) });
    const wrapped = { generateContentRequest: { model: "models/gemini-2.5-flash", ...HELLO } };
    const whole = await callGemini(gateway, methodPath("gemini-2.5-flash", "countTokens"), wrapped);
    expect(whole.status).toBe(200);
    expect(JSON.parse(sentBody())).toEqual({
      generateContentRequest: { model: "models/sim-fast", ...HELLO },
    });
    expect((await gateway.usageRows()).at(-1)?.endpoint).not.toBe("gemini.count_tokens");
  });

  test("embedContent and batchEmbedContents return vectors; each request of a batch names the upstream's model", async () => {
    const content = { parts: [{ text: "One" }] };
    const single = await callGemini(gateway, methodPath("gemini-embedding-001", "embedContent"), { content });
    const { embedding } = z
      .object({ embedding: z.object({ values: z.array(z.number()) }) })
      .parse(await single.json());
    expect(embedding.values).toHaveLength(3072);
    const batch = await callGemini(gateway, methodPath("gemini-embedding-001", "batchEmbedContents"), {
      requests: [
        { model: "models/gemini-embedding-001", content },
        { content: { parts: [{ text: "Two" }] } },
      ],
    });
    const { embeddings } = z
      .object({ embeddings: z.array(z.object({ values: z.array(z.number()) })) })
      .parse(await batch.json());
    expect(embeddings.map(({ values }) => values.length)).toEqual([3072, 3072]);
    expect(embeddings[0]).toEqual(embedding);
    const row = (await gateway.usageRows()).at(-1);
    expect(row).toMatchObject({ interface: "embeddings", output_tokens: 0 });
    expect(row?.input_tokens).toBeGreaterThan(0);
  });

  test("models are listed in pages, each with its methods", async () => {
    const models = z.object({
      models: z.array(z.object({ name: z.string(), supportedGenerationMethods: z.array(z.string()) })),
      nextPageToken: z.string().optional(),
    });
    const all = models.parse(await (await callGemini(gateway, "/v1beta/models")).json());
    expect(all.models.map(({ name }) => name)).toContain("models/gemini-2.5-pro");
    expect(all.models[0]?.supportedGenerationMethods).toEqual([
      "generateContent",
      "countTokens",
      "embedContent",
      "batchEmbedContents",
    ]);
    const first = models.parse(await (await callGemini(gateway, "/v1beta/models?pageSize=2")).json());
    expect(first.models).toEqual(all.models.slice(0, 2));
    const second = models.parse(
      await (await callGemini(gateway, `/v1beta/models?pageSize=2&pageToken=${first.nextPageToken}`)).json(),
    );
    expect(second.models).toEqual(all.models.slice(2, 4));
    const one = await callGemini(gateway, "/v1beta/models/gemini-2.5-pro");
    expect(await one.json()).toMatchObject({ name: "models/gemini-2.5-pro" });
  });
});

describe("the examples of the API description", () => {
  const posts = Object.entries(GEMINI_OPERATIONS).flatMap(
    ([name, { body, response: received, stream, parameters }]) => {
      const json = body?.["application/json"];
      const model = parameters.find(({ in: place }) => place === "path")?.example ?? "";
      const path = name.replace("POST ", "").replace("{model}", model) + (stream === null ? "" : "?alt=sse");
      return json === undefined ? [] : [{ name, path, json, response: received }];
    },
  );
  test.each(posts)("$name is served as described", async ({ path, json, response: received }) => {
    for (const { value } of json.examples) {
      const response = await callGemini(gateway, path, JSON.stringify(value));
      expect(response.status).toBe(200);
      const text = await response.text();
      const responses = text.startsWith("data: ") ? readEvents(text) : [JSON.parse(text)];
      for (const one of responses) received.schema.parse(one);
    }
  });
});

describe("keys", () => {
  const path = methodPath("gemini-2.5-flash", "generateContent");

  test.each([
    ["x-goog-api-key", { "x-goog-api-key": TEST_KEY }],
    ["Authorization", { "x-goog-api-key": "", authorization: `Bearer ${TEST_KEY}` }],
  ])("are accepted in %s", async (_, headers) => {
    expect((await callGemini(gateway, path, HELLO, { headers })).status).toBe(200);
  });

  test.each(["/v1beta/models?key=", `${path}?key=`])("are refused in the URL: %s", async (start) => {
    const response = await fetch(`${gateway.url}${start}${TEST_KEY}`, {
      method: start.startsWith("/v1beta/models?") ? "GET" : "POST",
      headers: { "content-type": "application/json" },
      ...(start.startsWith("/v1beta/models?") ? {} : { body: JSON.stringify(HELLO) }),
    });
    expect(response.status).toBe(400);
    const text = await response.text();
    expect(text).toContain("x-goog-api-key");
    expect(text).not.toContain(TEST_KEY);
    expect(gateway.log.join("\n")).not.toContain(TEST_KEY);
  });

  test("that are wrong get Google's error", async () => {
    const response = await callGemini(gateway, path, HELLO, { key: "wrong" });
    expect(response.status).toBe(401);
    expect(googleError.parse(await response.json()).error).toMatchObject({
      code: 401,
      status: "UNAUTHENTICATED",
    });
  });
});

describe("errors have Google's form", () => {
  test.each([
    ["an unknown model", methodPath("nope", "generateContent"), HELLO, 404, "NOT_FOUND", "MODEL_NOT_FOUND"],
    [
      "no contents",
      methodPath("gemini-2.5-flash", "generateContent"),
      {},
      400,
      "INVALID_ARGUMENT",
      "MISSING_REQUIRED_PARAMETER",
    ],
    [
      "a body that is not JSON",
      methodPath("gemini-2.5-flash", "generateContent"),
      "{",
      400,
      "INVALID_ARGUMENT",
      "INVALID_JSON",
    ],
    [
      "two spellings of one field",
      methodPath("gemini-2.5-flash", "generateContent"),
      { ...HELLO, generationConfig: { maxOutputTokens: 5 }, generation_config: { max_output_tokens: 9 } },
      400,
      "INVALID_ARGUMENT",
      "DUPLICATE_PARAMETER",
    ],
    ["an unknown method", methodPath("gemini-2.5-flash", "predict"), HELLO, 404, "NOT_FOUND", "UNKNOWN_URL"],
  ])("%s", async (_, path, body, code, status, reason) => {
    const response = await callGemini(gateway, path, body);
    expect(response.status).toBe(code);
    const { error } = googleError.parse(await response.json());
    expect(error).toMatchObject({ code, status });
    expect(error.details[0]).toMatchObject({ reason, domain: "model-gateway" });
  });
});
