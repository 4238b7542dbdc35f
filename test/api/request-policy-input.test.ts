/** The rule `input_tokens` counts the conversation that a request continues, wherever it is stored. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { expectRejection } from "../support/error-envelope.ts";
import { SIMULATOR } from "../support/paid-gateway.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { asRecord } from "../support/sse-text.ts";

setDefaultTimeout(60_000);

const INTERFACES = ["chat", "responses", "messages", "gemini", "embeddings", "images"];
const MODELS = { passed: [], translated: ["chat"] };

let gateway: RunningGateway;
beforeAll(async () => {
  gateway = await startTestGateway({
    tokens: "o200k",
    file: JSON.stringify({
      models: Object.keys(MODELS).map((id) => ({ id, interfaces: INTERFACES })),
      accounts: Object.entries(MODELS).map(([id, interfaces]) => ({
        name: id,
        kind: "openai",
        base_url: SIMULATOR,
        credential: "up",
        private_network: true,
        models: { [id]: "sim-fast" },
        ...(interfaces.length === 0 ? {} : { interfaces }),
      })),
      request_policies: [{ name: "short", input_tokens: { max: 60 } }],
      groups: [
        {
          name: "bound",
          models: Object.keys(MODELS),
          accounts: Object.keys(MODELS),
          request_policy: "short",
        },
      ],
      keys: [{ name: "test", group: "bound", secret: TEST_KEY }],
    }),
  });
});
afterAll(() => gateway.stop());

const WORDS = "one two three four five six seven eight nine ten ";
const LONG = WORDS.repeat(10);

describe.each(Object.keys(MODELS))("a conversation of the model %s", (model) => {
  const send = (more: object) => gateway.call("/v1/responses", { model, input: WORDS.repeat(4), ...more });

  test("is part of the input", async () => {
    const first = await send({});
    expect(first.status).toBe(200);
    const { id } = asRecord(await first.json());
    const error = await expectRejection(await send({ previous_response_id: id }), 400);
    expect(error).toMatchObject({ code: "policy_violation", param: "input" });
    expect(error.message).toContain("earlier conversation");
  });

  test("continues within the maximum", async () => {
    const first = await send({ input: "Hi", max_output_tokens: 16 });
    const { id } = asRecord(await first.json());
    expect((await send({ input: "Hi", previous_response_id: id })).status).toBe(200);
  });
});

test.each([
  ["/v1/responses", { input: LONG }, "input"],
  ["/v1/chat/completions", { messages: [{ role: "user", content: LONG }] }, "messages"],
  ["/v1/messages", { max_tokens: 16, messages: [{ role: "user", content: LONG }] }, "messages"],
  ["/v1/embeddings", { input: LONG }, "input"],
  ["/v1/images/generations", { prompt: LONG }, "prompt"],
])("%s names its member", async (path, body, param) => {
  const response = await gateway.call(path, { model: "passed", ...body });
  expect(response.status).toBe(400);
  expect(await response.json()).toMatchObject({ error: { code: "policy_violation", param } });
});

test("Gemini names its member", async () => {
  const contents = [{ role: "user", parts: [{ text: LONG }] }];
  const response = await gateway.call("/v1beta/models/passed:generateContent", { contents });
  expect(response.status).toBe(400);
  expect(await response.text()).toContain("`contents`");
});
