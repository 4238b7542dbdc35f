/** Clients of every dialect on Amazon Bedrock and Google Vertex AI accounts, whole and streamed. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { RunningGateway } from "../support/running-gateway.ts";
import { ASK, ask, PROJECT, startCloudGateway } from "./cloud-gateway.ts";

let gateway: RunningGateway;

beforeAll(async () => {
  gateway = await startCloudGateway();
});
afterAll(() => gateway.stop());

/** The text that a client of the dialect reads from a response. */
const READ_WHOLE: Readonly<Record<string, (json: never) => string>> = {
  messages: ({ content }: { content: { text?: string }[] }) => content.map(({ text = "" }) => text).join(""),
  chat: ({ choices }: { choices: { message: { content: string } }[] }) => choices[0]?.message.content ?? "",
  responses: ({ output }: { output: { content?: { text: string }[] }[] }) =>
    output.flatMap(({ content = [] }) => content.map(({ text }) => text)).join(""),
  gemini: ({ candidates }: { candidates: { content: { parts: { text: string }[] } }[] }) =>
    (candidates[0]?.content.parts ?? []).map(({ text }) => text).join(""),
};

const READ_EVENT: Readonly<Record<string, (json: never) => string>> = {
  messages: ({ delta }: { delta?: { text?: string } }) => delta?.text ?? "",
  chat: ({ choices = [] }: { choices?: { delta: { content?: string } }[] }) =>
    choices[0]?.delta.content ?? "",
  responses: ({ type, delta }: { type: string; delta?: string }) =>
    type === "response.output_text.delta" ? (delta ?? "") : "",
  gemini: READ_WHOLE.gemini as (json: never) => string,
};

async function readStream(response: Response, dialect: string): Promise<string> {
  const text = await response.text();
  return [...text.matchAll(/^data: (\{.*)$/gm)]
    .map(([, data = ""]) => READ_EVENT[dialect]?.(JSON.parse(data) as never) ?? "")
    .join("");
}

const MODELS = ["bedrock-fast", "bedrock-arn", "vertex-claude", "vertex-gemini"];

describe.each(MODELS)("the model %s", (model) => {
  test.each(Object.keys(ASK))(
    "answers a client of %s, whole and as a stream, with the same text",
    async (dialect) => {
      const whole = await ask(gateway, dialect, model);
      const json = (await whole.json()) as { error?: unknown };
      expect([whole.status, json.error ?? null]).toEqual([200, null]);
      const text = READ_WHOLE[dialect]?.(json as never) ?? "";
      expect(text).toContain("Hello there");
      const stream = await ask(gateway, dialect, model, { stream: true });
      expect(stream.headers.get("content-type")).toContain("text/event-stream");
      expect(await readStream(stream, dialect)).toBe(text);
    },
  );
});

test("requests are sent to the paths of the vendors", async () => {
  const { ledger } = gateway.simulator;
  const paths = new Set(ledger.snapshot().entries.map(({ path }) => path));
  const vertex = `/v1/projects/${PROJECT}/locations/europe-west1/publishers`;
  expect([...paths].sort()).toEqual(
    [
      "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fabc123/invoke",
      "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fabc123/invoke-with-response-stream",
      "/model/us.anthropic.claude-fast-v1%3A0/invoke",
      "/model/us.anthropic.claude-fast-v1%3A0/invoke-with-response-stream",
      `${vertex}/anthropic/models/claude-fast@20250929:rawPredict`,
      `${vertex}/anthropic/models/claude-fast@20250929:streamRawPredict`,
      `${vertex}/google/models/gemini-2.5-fast:generateContent`,
      `${vertex}/google/models/gemini-2.5-fast:streamGenerateContent`,
    ].sort(),
  );
});

describe("counting tokens", () => {
  // The simulator counts a quarter of the bytes, the gateway's tokenizer about an eighth.
  const body = { messages: [{ role: "user", content: "a".repeat(400) }] };

  test.each([
    ["bedrock-fast", "/model/anthropic.claude-fast-v1%3A0/count-tokens"],
    [
      "vertex-claude",
      `/v1/projects/${PROJECT}/locations/europe-west1/publishers/anthropic/models/count-tokens:rawPredict`,
    ],
  ])("of %s for a Messages client is done by the account", async (model, path) => {
    gateway.simulator.ledger.reset();
    const response = await gateway.call("/v1/messages/count_tokens", { ...body, model });
    expect(await response.json()).toEqual({ input_tokens: 108 });
    expect(gateway.simulator.ledger.snapshot().entries.map((entry) => entry.path)).toEqual([path]);
  });

  test("of a Vertex AI model for a Gemini client is done by the account", async () => {
    gateway.simulator.ledger.reset();
    const contents = [{ role: "user", parts: [{ text: "Hello there" }] }];
    const response = await gateway.call("/v1beta/models/vertex-gemini:countTokens", { contents });
    expect(await response.json()).toEqual({ totalTokens: 11 });
    expect(gateway.simulator.ledger.snapshot().entries).toHaveLength(1);
  });

  test("of an inference profile that is an ARN is done by the gateway", async () => {
    gateway.simulator.ledger.reset();
    const response = await gateway.call("/v1/messages/count_tokens", { ...body, model: "bedrock-arn" });
    expect(((await response.json()) as { input_tokens: number }).input_tokens).toBeLessThan(80);
    expect(gateway.simulator.ledger.snapshot().entries).toEqual([]);
  });
});
