/** What a vendor rejects and other vendors accept reaches an account of this vendor in a form that it accepts. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  type RunningGateway,
  startTestGateway,
  TEST_KEY,
  UPSTREAM_CREDENTIAL,
} from "../support/running-gateway.ts";

const CLAUDE = "claude-sonnet-4-5";
const SHORT = "short-model";
const INTERFACES = ["chat", "responses", "messages", "gemini"];
const SIMULATOR_URL = ["$", "{SIMULATOR_URL}"].join("");
let gateway: RunningGateway;

beforeAll(async () => {
  const account = (name: string, kind: string, more: object) => ({
    name,
    kind,
    base_url: SIMULATOR_URL,
    credential: UPSTREAM_CREDENTIAL,
    private_network: true,
    ...more,
  });
  gateway = await startTestGateway({
    file: JSON.stringify({
      models: [
        { id: CLAUDE, interfaces: INTERFACES, max_output_tokens: 8_000 },
        { id: SHORT, interfaces: INTERFACES, max_output_tokens: 4_096 },
      ],
      accounts: [
        account("anthropic", "anthropic", { models: { [CLAUDE]: CLAUDE }, profile: { sampling: true } }),
        account("chat", "openai", { models: { [SHORT]: "sim-fast" }, interfaces: ["chat"] }),
      ],
      groups: [
        { name: "default", interfaces: INTERFACES, models: [CLAUDE, SHORT], accounts: ["anthropic", "chat"] },
      ],
      users: [{ email: "dev@example.com" }],
      keys: [{ name: "test", user: "dev@example.com", group: "default", secret: TEST_KEY }],
    }),
  });
});
afterAll(() => gateway.stop());

/** The body that the upstream received. */
async function send(
  path: string,
  body: object,
): Promise<{ dropped: string | null; sent: Record<string, unknown> }> {
  const response = await gateway.call(path, body);
  const text = await response.text();
  expect([response.status, text]).toEqual([200, text]);
  const { ledger } = gateway.simulator;
  const sent = ledger.findBody(ledger.last()?.id ?? "");
  return {
    dropped: response.headers.get("x-gateway-dropped"),
    sent: JSON.parse(Buffer.from(sent ?? []).toString()),
  };
}

describe("Anthropic accepts", () => {
  test("the sampling of gemini-cli, where the profile of the account allows sampling", async () => {
    const { sent, dropped } = await send(`/v1beta/models/${CLAUDE}:generateContent`, {
      contents: [{ role: "user", parts: [{ text: "Hi" }] }],
      generationConfig: { temperature: 1, topP: 0.95, topK: 64 },
    });
    expect([sent.top_p, dropped]).toEqual([0.95, "temperature"]);
  });

  test("a request whose stop sequence is a line break", async () => {
    const messages = [{ role: "user", content: "Hi" }];
    const { dropped } = await send("/v1/chat/completions", { model: CLAUDE, messages, stop: ["\n"] });
    expect(dropped).toBe("stop");
  });

  test("a history in which the assistant wrote a line break before its call", async () => {
    const call = { id: "c1", type: "function", function: { name: "look", arguments: "{}" } };
    await send("/v1/chat/completions", {
      model: CLAUDE,
      messages: [
        { role: "user", content: "Hi" },
        { role: "assistant", content: "\n", tool_calls: [call] },
        { role: "tool", tool_call_id: "c1", content: "\n" },
      ],
      tools: [{ type: "function", function: { name: "look" } }],
    });
  });

  test("a last message of a space", async () => {
    await send("/v1/responses", {
      model: CLAUDE,
      store: false,
      input: [
        { role: "user", content: "Hi" },
        { role: "assistant", content: "Hello" },
        { role: "user", content: " " },
      ],
    });
  });
});

describe("an output limit above the maximum of the model", () => {
  test.each([
    ["/v1/messages", { max_tokens: 32_000 }, 4_096],
    ["/v1/messages", { max_tokens: 1_000 }, 1_000],
    ["/v1/responses", { max_output_tokens: 128_000, store: false, input: "Hi" }, 4_096],
  ])("is lowered to it in a translated request (%s, %p)", async (path, limit, sentMax) => {
    const { sent } = await send(path, {
      model: SHORT,
      messages: [{ role: "user", content: "Hi" }],
      ...limit,
    });
    expect(sent.max_tokens).toBe(sentMax);
  });

  test("is lowered for Anthropic as well", async () => {
    const messages = [{ role: "user", content: "Hi" }];
    const { sent } = await send("/v1/chat/completions", { model: CLAUDE, messages, max_tokens: 100_000 });
    expect(sent.max_tokens).toBe(8_000);
  });

  test("stays as it is in a request that passes through", async () => {
    const messages = [{ role: "user", content: "Hi" }];
    const { sent } = await send("/v1/chat/completions", { model: SHORT, messages, max_tokens: 100_000 });
    expect(sent.max_tokens).toBe(100_000);
  });
});
