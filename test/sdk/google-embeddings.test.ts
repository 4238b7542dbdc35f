/** Embeddings between OpenAI's and Google's API: each client on an account of the other vendor. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import OpenAI from "openai";
import { z } from "zod";
import { startSimulator } from "../../simulator/simulator.ts";
import { loadTokenizer } from "../../src/gateway/metering/tokenizer.ts";
import { callGemini, methodPath } from "../gemini/gemini-gateway.ts";
import { type PaidGateway, PRICE, startPaidGateway } from "../support/paid-gateway.ts";
import { TEST_KEY } from "../support/running-gateway.ts";

const EMBEDDINGS = { price: PRICE, more: { interfaces: ["embeddings"] } };
const ORIGIN = `$${"{SIMULATOR_ORIGIN}"}`;
const URL_OF_SIMULATOR = `$${"{SIMULATOR_URL}"}`;
const shared = { private_network: true, credential: "credential" };

let gateway: PaidGateway;
let openai: OpenAI;

beforeAll(async () => {
  gateway = await startPaidGateway({
    balance: "10",
    models: {
      "on-google": { upstream: "sim-embed", ...EMBEDDINGS },
      "on-openai": { upstream: "sim-embed", ...EMBEDDINGS },
      "on-both": { upstream: "sim-embed", ...EMBEDDINGS },
    },
    accounts: [
      {
        ...shared,
        name: "google",
        kind: "gemini",
        base_url: ORIGIN,
        models: { "on-google": "sim-embed", "on-both": "sim-embed" },
      },
      {
        ...shared,
        name: "openai",
        kind: "openai",
        base_url: URL_OF_SIMULATOR,
        models: { "on-openai": "sim-embed", "on-both": "sim-embed" },
      },
    ],
  });
  await loadTokenizer();
  openai = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: TEST_KEY, maxRetries: 0 });
});
afterAll(() => gateway.stop());

function lastCall() {
  const { ledger } = gateway.simulator;
  const entry = ledger.last();
  const body = JSON.parse(Buffer.from(ledger.findBody(entry?.id ?? "") ?? []).toString());
  return { path: entry?.path ?? "", body };
}

const requestId = (response: { headers: Headers }) => response.headers.get("x-request-id") ?? "";
const measureLength = (vector: readonly number[]) =>
  Math.sqrt(vector.reduce((sum, one) => sum + one * one, 0));

describe("an OpenAI client on an account of Google", () => {
  test("receives one vector for each text, in order, and pays for the counted input", async () => {
    const { data, response } = await openai.embeddings
      .create({ model: "on-google", input: ["one", "two", "three words here"], encoding_format: "float" })
      .withResponse();
    expect(data).toMatchObject({ object: "list", model: "on-google" });
    expect(data.data.map(({ index, embedding }) => [index, embedding.length])).toEqual([
      [0, 3072],
      [1, 3072],
      [2, 3072],
    ]);
    expect(data.data[0]?.embedding).not.toEqual(data.data[1]?.embedding ?? []);
    expect(lastCall().path).toBe("/v1beta/models/sim-embed:batchEmbedContents");
    expect(lastCall().body.requests[2]).toEqual({
      model: "models/sim-embed",
      content: { parts: [{ text: "three words here" }] },
    });
    // Google reports no usage, so the gateway counts: one token for each word.
    expect(data.usage).toEqual({ prompt_tokens: 5, total_tokens: 5 });
    const row = await gateway.records.row(requestId(response));
    expect(row).toMatchObject({
      inputTokens: 5,
      outputTokens: 0,

      chargedNano: 12_500n,
    });
  });

  test("may request fewer dimensions, Base64, and a task type", async () => {
    const { data: packed } = await openai.embeddings.create({
      model: "on-google",
      input: "hello",
      dimensions: 256,
      // A field of Google's that OpenAI's API does not have.
      ...{ task_type: "RETRIEVAL_QUERY" },
    });
    expect(lastCall().body.requests[0]).toMatchObject({
      outputDimensionality: 256,
      taskType: "RETRIEVAL_QUERY",
    });
    const vector = packed[0]?.embedding ?? [];
    expect(vector).toHaveLength(256);
    // Google's shortened vectors are not normalized, OpenAI's are.
    expect(measureLength(vector)).toBeCloseTo(1, 5);
    const raw = await gateway.call("/v1/embeddings", {
      model: "on-google",
      input: "hello",
      dimensions: 256,
      encoding_format: "base64",
    });
    const { data } = z.object({ data: z.array(z.object({ embedding: z.string() })) }).parse(await raw.json());
    const floats = new Float32Array(new Uint8Array(Buffer.from(data[0]?.embedding ?? "", "base64")).buffer);
    expect(measureLength(Array.from(floats))).toBeCloseTo(1, 5);
  });

  test("lists what is dropped, and rejects what has no meaning there", async () => {
    const dropped = await gateway.call("/v1/embeddings", { model: "on-google", input: "hi", user: "ada" });
    expect([dropped.status, dropped.headers.get("x-gateway-dropped")]).toEqual([200, "user"]);
    for (const input of [[], Array.from({ length: 2_049 }, () => "x")]) {
      const refused = await gateway.call("/v1/embeddings", { model: "on-google", input });
      expect([refused.status, await refused.json()]).toMatchObject([
        400,
        { error: { code: "invalid_value", param: "input" } },
      ]);
    }
    for (const input of [
      [1, 2, 3],
      [[1], [2]],
    ]) {
      const refused = await gateway.call("/v1/embeddings", { model: "on-google", input });
      expect([refused.status, await refused.json()]).toMatchObject([
        400,
        { error: { code: "unsupported_parameter", param: "input" } },
      ]);
    }
  });
});

describe("more texts than Google accepts in one batch", () => {
  const MANY = 1_050;
  const texts = Array.from({ length: MANY }, (_, at) => `text${at}`);
  const countBatches = () => gateway.simulator.ledger.totals().requests;

  test("are sent in batches, and are one response and one charge", async () => {
    const before = countBatches();
    const { data, response } = await openai.embeddings
      .create({ model: "on-google", input: texts, dimensions: 8 })
      .withResponse();
    expect(countBatches() - before).toBe(11);
    expect(data.data.map(({ index }) => index)).toEqual(texts.map((_, at) => at));
    // Any vector is the one of its own text.
    for (const at of [0, 99, 100, 1_049]) {
      const alone = await openai.embeddings.create({
        model: "on-google",
        input: texts[at] ?? "",
        dimensions: 8,
      });
      expect(data.data[at]?.embedding).toEqual(alone.data[0]?.embedding ?? []);
    }
    const rows = await gateway.usageRows();
    const id = requestId(response);
    expect(rows.filter((row) => row.request_id === id || row.id === id)).toHaveLength(1);
    const row = await gateway.records.row(id);
    expect(row?.inputTokens).toBe(data.usage.prompt_tokens);
    expect(data.usage.prompt_tokens).toBeGreaterThanOrEqual(MANY);
    expect(row?.chargedNano).toBe(BigInt(row?.inputTokens ?? 0) * 2_500n);
  });

  test("of which one fails are an error, and those that were finished are charged", async () => {
    const failing = gateway.simulator;
    failing.force("500", 1);
    const input = texts.map(() => "hello");
    const response = await gateway.call("/v1/embeddings", { model: "on-google", input });
    expect(response.status).toBe(502);
    await response.text();
    // Three of the first four batches, with a hundred texts of one token each.
    const row = await gateway.records.row(requestId(response));
    expect(row).toMatchObject({
      outcome: "failed",
      inputTokens: 300,
      flags: ["partial"],
      chargedNano: 750_000n,
    });
  });
});

describe("a batch that fails on one account", () => {
  test("is sent to the next one, and those that have succeeded are not sent again", async () => {
    const upstreams = [1, 1].map((seed) => startSimulator({ seed, record: "full" }));
    const accounts = upstreams.map(({ url }, at) => ({
      ...shared,
      name: `google-${at}`,
      kind: "gemini",
      base_url: new URL(url).origin,
      priority: at + 1,
      models: { pair: "sim-embed" },
    }));
    const pair = await startPaidGateway({
      balance: "10",
      models: { pair: { upstream: "sim-embed", ...EMBEDDINGS } },
      accounts,
    });
    try {
      const [first, second] = upstreams;
      first?.force("500", 1);
      const input = Array.from({ length: 350 }, (_, at) => `text${at}`);
      const response = await pair.call("/v1/embeddings", { model: "pair", input, dimensions: 4 });
      const { data } = z
        .object({ data: z.array(z.object({ index: z.number() })) })
        .parse(await response.json());
      expect([response.status, data.length]).toEqual([200, 350]);
      expect([first?.ledger.totals().requests, second?.ledger.totals().requests]).toEqual([4, 1]);
      expect(await pair.usageRows()).toHaveLength(1);
    } finally {
      await pair.stop();
      for (const upstream of upstreams) await upstream.stop();
    }
  });
});

describe("a Google client on an account of OpenAI", () => {
  const content = { parts: [{ text: "one" }, { text: "two" }] };
  const embedding = z.object({ values: z.array(z.number()) });

  test("embedContent returns one vector, and the reported usage is charged", async () => {
    const response = await callGemini(gateway, methodPath("on-openai", "embedContent"), {
      content,
      outputDimensionality: 64,
      taskType: "RETRIEVAL_DOCUMENT",
      title: "Numbers",
    });
    const json = z.object({ embedding }).parse(await response.json());
    expect(json.embedding.values).toHaveLength(64);
    expect(response.headers.get("x-gateway-dropped")).toBe("taskType,title");
    expect(lastCall()).toMatchObject({
      path: "/v1/embeddings",
      body: { model: "sim-embed", input: ["one\ntwo"], dimensions: 64, encoding_format: "float" },
    });
    const row = await gateway.records.row(requestId(response));
    expect(row?.inputTokens).toBeGreaterThan(0);
    expect(row?.chargedNano).toBe(BigInt(row?.inputTokens ?? 0) * 2_500n);
  });

  test("batchEmbedContents returns the vectors in order", async () => {
    const requests = ["one", "two"].map((text) => ({
      model: "models/on-openai",
      content: { parts: [{ text }] },
    }));
    const response = await callGemini(gateway, methodPath("on-openai", "batchEmbedContents"), { requests });
    const json = z.object({ embeddings: z.array(embedding) }).parse(await response.json());
    const single = await callGemini(gateway, methodPath("on-openai", "embedContent"), requests[1]);
    const { embedding: second } = z.object({ embedding }).parse(await single.json());
    expect(json.embeddings).toHaveLength(2);
    expect(json.embeddings[1]).toEqual(second);
  });

  test("is refused media and different dimensions in one batch, by Google's error", async () => {
    const image = { content: { parts: [{ inlineData: { mimeType: "image/png", data: "AA==" } }] } };
    const refused = await callGemini(gateway, methodPath("on-openai", "embedContent"), image);
    expect([refused.status, await refused.json()]).toMatchObject([
      400,
      {
        error: {
          code: 400,
          status: "INVALID_ARGUMENT",
          message: expect.stringContaining("content.parts[0]"),
        },
      },
    ]);
    const requests = [{ content, outputDimensionality: 64 }, { content }];
    const mixed = await callGemini(gateway, methodPath("on-openai", "batchEmbedContents"), { requests });
    expect([mixed.status, await mixed.text()]).toEqual([
      400,
      expect.stringContaining("requests[1].outputDimensionality"),
    ]);
  });
});

test("a model with accounts of both vendors is served without translation", async () => {
  for (let i = 0; i < 3; i++) {
    await openai.embeddings.create({ model: "on-both", input: "hello" });
    expect(lastCall().path).toBe("/v1/embeddings");
    await callGemini(gateway, methodPath("on-both", "embedContent"), { content: { parts: [{ text: "a" }] } });
    expect(lastCall().path).toBe("/v1beta/models/sim-embed:embedContent");
  }
});
