/** Which rules apply at every endpoint, and what operators see of rejections: the metric and the trace. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createTokenClient } from "../support/console-client.ts";
import { expectRejection } from "../support/error-envelope.ts";
import { SIMULATOR } from "../support/paid-gateway.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { asRecord } from "../support/sse-text.ts";

setDefaultTimeout(60_000);

const INTERFACES = ["chat", "responses", "messages", "gemini", "embeddings", "images"];
const key = (name: string) => `${name}-key-0123456789-0123456789-0123456789`;
const POLICIES = {
  all: {
    models: ["asked"],
    input_tokens: { max: 8 },
    inputs: { images: 0 },
    output_tokens: { max: 20 },
    effort: { max: "low", over: "reject" },
    service_tiers: ["auto"],
    tools: { deny: ["web_search"], over: "reject" },
  },
  office: { networks: ["10.1.0.0/16"] },
  "no-store": { force: { store: false } },
};

let gateway: RunningGateway;
beforeAll(async () => {
  gateway = await startTestGateway({
    tokens: "o200k",
    file: JSON.stringify({
      models: ["asked", "other"].map((id) => ({ id, interfaces: INTERFACES })),
      accounts: [
        {
          name: "sim",
          kind: "openai",
          base_url: SIMULATOR,
          credential: "up",
          private_network: true,
          models: { asked: "sim-fast", other: "sim-fast" },
        },
      ],
      request_policies: Object.entries(POLICIES).map(([name, rules]) => ({ name, ...rules })),
      groups: [{ name: "free", interfaces: INTERFACES, models: ["asked", "other"], accounts: ["sim"] }],
      keys: [
        { name: "test", group: "free", secret: TEST_KEY },
        ...Object.keys(POLICIES).map((name) => ({
          name,
          group: "free",
          request_policy: name,
          secret: key(name),
        })),
      ],
    }),
  });
});
afterAll(() => gateway.stop());

const send = (path: string, body: unknown, name: keyof typeof POLICIES = "all") =>
  gateway.call(path, body, { headers: { authorization: `Bearer ${key(name)}` } });

const LONG = "one two three four five six seven eight nine ten eleven twelve";
const PICTURE = "data:image/png;base64,AA";

function form(prompt: string): FormData {
  const data = new FormData();
  data.set("model", "asked");
  data.set("prompt", prompt);
  data.set("image", new File([new Uint8Array([137, 80, 78, 71])], "a.png", { type: "image/png" }));
  return data;
}

/** The code of a rejection in any dialect; null for another response. */
async function rejectedFor(response: Response): Promise<string | null> {
  const text = await response.text();
  return response.status === 400 ? text : null;
}

describe("a rejection", () => {
  const CASES: readonly (readonly [string, string, unknown])[] = [
    ["embeddings", "/v1/embeddings", { model: "asked", input: LONG }],
    ["images", "/v1/images/generations", { model: "asked", prompt: LONG }],
    ["an image form", "/v1/images/edits", form("hi")],
    [
      "images in JSON",
      "/v1/images/edits",
      { model: "asked", prompt: "hi", images: [{ image_url: PICTURE }] },
    ],
    [
      "compact, by effort",
      "/v1/responses/compact",
      { model: "asked", input: "hi", reasoning: { effort: "high" } },
    ],
    [
      "compact, by a tool",
      "/v1/responses/compact",
      { model: "asked", input: "hi", tools: [{ type: "web_search" }] },
    ],
  ];
  test.each(CASES)("of %s is by the rule", async (_, path, body) => {
    expect(await rejectedFor(await send(path, body))).toContain("request policy");
  });
});

describe("a count of tokens", () => {
  const search = [{ type: "web_search_20250305", name: "web_search" }];
  const messages = [{ role: "user", content: LONG }];
  test.each([
    ["/v1/messages/count_tokens", { model: "asked", messages, tools: search }],
    ["/v1beta/models/asked:countTokens", { contents: [{ parts: [{ text: LONG }] }] }],
    ["/v1/responses/input_tokens", { model: "asked", input: LONG }],
  ])("%s is not restricted in its contents", async (path, body) => {
    expect((await send(path, body)).status).toBe(200);
  });

  test("of a model outside the set is not found", async () => {
    expect((await send("/v1/messages/count_tokens", { model: "other", messages })).status).toBe(404);
    const google = await send("/v1beta/models/other:countTokens", { contents: [{ parts: [{ text: "a" }] }] });
    expect(google.status).toBe(404);
  });

  test("from another network is rejected", async () => {
    const response = await send("/v1/messages/count_tokens", { model: "asked", messages }, "office");
    expect(response.status).toBe(403);
  });
});

test("a rejection is counted by its rule", async () => {
  const admin = await createTokenClient(gateway, "root@example.com", "read", "admin");
  const read = async () => {
    const text = await (await admin.fetch("/metrics")).text();
    const found = text.matchAll(/^gateway_policy_actions_total\{.*rule="(\w+)",action="reject".*\} (\d+)$/gm);
    return new Map([...found].map(([, rule = "", count]) => [rule, Number(count)]));
  };
  const before = await read();
  const base = { model: "asked", input: "Hi" };
  const filler = "lorem ipsum ".repeat(30_000);
  const sent = [
    await send("/v1/responses", { ...base, tools: [{ type: "web_search" }] }),
    await send("/v1/responses", { ...base, reasoning: { effort: "high" } }),
    await send("/v1/responses", { ...base, service_tier: "flex" }),
    // A long body is checked in a thread.
    await send("/v1/responses", { ...base, input: filler, service_tier: "flex" }),
    await send("/v1/responses", { ...base, input: LONG }),
    await send("/v1/responses", { ...base, model: "other" }),
    await gateway.call("/v1/models/other", undefined, { headers: { authorization: `Bearer ${key("all")}` } }),
    await send("/v1/images/edits", form("hi")),
    await send("/v1/responses", base, "office"),
    await gateway.call("/v1/models", undefined, { headers: { authorization: `Bearer ${key("office")}` } }),
  ];
  for (const response of sent) expect(response.status).toBeGreaterThanOrEqual(400);
  const after = await read();
  const grown = [...after].map(([rule, count]) => [rule, count - (before.get(rule) ?? 0)]);
  expect(Object.fromEntries(grown)).toEqual({
    tools: 1,
    effort: 1,
    service_tiers: 2,
    input_tokens: 1,
    models: 2,
    inputs: 1,
    networks: 2,
  });
});

test("a conversation that the policy does not let the vendor store names the policy in its trace", async () => {
  const first = await send("/v1/responses", { model: "asked", input: "One" }, "no-store");
  expect(first.headers.get("x-gateway-policy")).toBe("store=false");
  const { id } = asRecord(await first.json());
  const body = { model: "asked", input: "Two", previous_response_id: id };
  const error = await expectRejection(await send("/v1/responses", body, "no-store"), 400);
  expect(error.code).toBe("previous_response_not_found");
  expect(error.message).not.toContain("policy");
  const trace = asRecord(JSON.parse(String((await gateway.usageRows()).at(-1)?.trace)));
  expect(trace.rejection).toContain("The request policy of this key sets `store` to false");
});
