/** A misspelled model: the error of every dialect suggests the model that was probably meant. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

setDefaultTimeout(60_000);

let gateway: RunningGateway;
beforeAll(async () => {
  gateway = await startTestGateway({
    file: `
models: [{ id: my-model, interfaces: [chat, responses, messages, gemini] }, { id: his-model, interfaces: [chat] }]
accounts: [{ name: sim, kind: openai, base_url: "\${SIMULATOR_URL}", credential: c, private_network: true, interfaces: [chat, responses], models: { my-model: sim-fast, his-model: sim-fast } }]
groups: [{ name: default, interfaces: [chat, responses, messages, gemini], models: [my-model], accounts: [sim] }]
users: [{ email: dev@example.com, role: user }]
keys: [{ name: test, user: dev@example.com, group: default, secret: ${TEST_KEY} }]
`,
  });
});
afterAll(() => gateway.stop());

const MESSAGES = [{ role: "user", content: "hello" }];

test.each([
  ["Chat", "/v1/chat/completions", { model: "mymodel", messages: MESSAGES }],
  ["Responses", "/v1/responses", { model: "mymodel", input: "hello" }],
  ["Messages", "/v1/messages", { model: "mymodel", max_tokens: 9, messages: MESSAGES }],
  ["Gemini", "/v1beta/models/mymodel:generateContent", { contents: [{ parts: [{ text: "hello" }] }] }],
])("%s", async (_, path, body) => {
  const response = await gateway.call(path, body);
  expect(response.status).toBe(404);
  expect(await response.text()).toContain("Did you mean `my-model`?");
});

test("a model of another group is not suggested", async () => {
  const response = await gateway.call("/v1/chat/completions", { model: "hismodel", messages: MESSAGES });
  expect(response.status).toBe(404);
  expect(await response.text()).not.toContain("his-model");
});
