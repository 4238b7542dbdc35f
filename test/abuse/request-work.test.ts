/**
 * Requests that repeat one thing as often as their size allows. Each is sent at the size at which it once took seconds,
 * and is judged by the CPU time of the gateway's process: it is served at a cost that fits its size, or rejected.
 */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { TEST_KEY } from "../support/running-gateway.ts";
import { type AttackTarget, measureAttack, startAttackTarget } from "./attack-setup.ts";

const INTERFACES = ["responses", "chat", "messages", "gemini"];
const ACCOUNTS = { openai: "openai", anthropic: "anthropic", google: "gemini" } as const;

let target: AttackTarget;
beforeAll(async () => {
  target = await startAttackTarget({ file: file() });
  // Starts threads and compiles code before the measurement.
  for (const model of Object.keys(ACCOUNTS)) await post("/v1/responses", responses(model, `"hi"`));
});
afterAll(() => target.stop());

/** The configuration file reads them from the environment. */
const SIMULATOR_URL = `\${SIMULATOR_URL}`;
const SIMULATOR_ORIGIN = `\${SIMULATOR_ORIGIN}`;

/** Each model is served by one account, in the interface of its vendor. */
function file(): string {
  const models = Object.keys(ACCOUNTS);
  const text = JSON.stringify({
    models: models.map((id) => ({ id, interfaces: INTERFACES })),
    accounts: Object.entries(ACCOUNTS).map(([name, kind]) => ({
      name,
      kind,
      base_url: kind === "gemini" ? SIMULATOR_ORIGIN : SIMULATOR_URL,
      credential: "credential",
      private_network: true,
      ...(kind === "openai" ? { interfaces: ["responses"] } : {}),
      models: { [name]: "sim-fast" },
    })),
    groups: [{ name: "default", interfaces: INTERFACES, models, accounts: models }],
    users: [{ email: "dev@example.com", role: "user" }],
    keys: [{ name: "test", user: "dev@example.com", group: "default", secret: TEST_KEY }],
  });
  return text;
}

interface ResponseBody {
  readonly status: number;
  readonly text: string;
}

async function post(path: string, body: string): Promise<ResponseBody> {
  const response = await fetch(`${target.url}${path}`, {
    method: "POST",
    body,
    headers: { "content-type": "application/json", authorization: `Bearer ${TEST_KEY}` },
  });
  return { status: response.status, text: await response.text() };
}

const times = (count: number, make: (i: number) => string) =>
  Array.from({ length: count }, (_, i) => make(i)).join(",");

const responses = (model: string, input: string, more = "") =>
  `{"model":"${model}","input":${input}${more},"store":false}`;
const messages = (model: string, list: string, more = "") =>
  `{"model":"${model}","max_tokens":9,"messages":[${list}]${more}}`;
const USER = `{"role":"user","content":"hi"}`;
const SEALED = "gws1.AAAA";
const gemini = (model: string) => `/v1beta/models/${model}:generateContent`;

/**
 * Between the cost of these requests and what they once cost are two orders of magnitude. A busy machine doubles the CPU
 * time of the same work.
 */
const REQUEST_CPU_MS = 400;
const CPU_MS_PER_MIB = 400;

interface AttackRequest {
  readonly path: string;
  readonly body: string;
}

type Case = readonly [name: string, status: number, build: () => AttackRequest];

const sealedInput = (count: number): AttackRequest => ({
  path: "/v1/responses",
  body: responses(
    "openai",
    `[{"type":"reasoning","summary":[],"encrypted_content":"${SEALED}"},${times(count, () => "1")}]`,
  ),
});
const sealedMessages = (count: number): AttackRequest => ({
  path: "/v1/messages",
  body: messages(
    "anthropic",
    `${USER},{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"${SEALED}"},${times(count, () => `{"type":"text","text":"a"}`)}]},${USER}`,
  ),
});
const sealedTurn = (count: number): AttackRequest => ({
  path: "/v1/messages",
  body: messages(
    "anthropic",
    `${USER},{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"${SEALED}"},{"type":"text","text":"a"}]},${times(count, () => `{"role":"user","content":[{"type":"text","text":"a"}]}`)}`,
  ),
});
const schemaTool = (schema: string): AttackRequest => ({
  path: "/v1/responses",
  body: responses("anthropic", `"hi"`, `,"tools":[{"type":"function","name":"f","parameters":${schema}}]`),
});
const referenceSchema = (branches: number, properties: number) =>
  schemaTool(
    `{"anyOf":[${times(branches, () => `{"$ref":"#/$defs/a"}`)}],"$defs":{"a":{"type":"object","properties":{${times(properties, (i) => `"p${i}":{"type":"string"}`)}}}}}`,
  );
const differingSchema = (branches: number) =>
  schemaTool(`{"anyOf":[${times(branches, (i) => `{"properties":{"a":{"const":${i}}}}`)}]}`);
const allowedTools = (count: number): AttackRequest => ({
  path: "/v1/responses",
  body: responses(
    "anthropic",
    `"hi"`,
    `,"tools":[${times(count, (i) => `{"type":"function","name":"f${i}","parameters":{}}`)}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[${times(count, (i) => `{"type":"function","name":"g${i}"}`)}]}`,
  ),
});
const geminiCalls = (contents: number, parts: number): AttackRequest => {
  const turn = (role: string, make: (i: number) => string) =>
    `{"role":"${role}","parts":[${times(parts, make)}]}`;
  const calls = times(contents, (c) => turn("model", (i) => `{"functionCall":{"name":"f${c}_${i}"}}`));
  const outputs = times(contents, (c) =>
    turn(
      "user",
      (i) => `{"functionResponse":{"name":"f${contents - 1 - c}_${parts - 1 - i}","response":{}}}`,
    ),
  );
  return { path: gemini("openai"), body: `{"contents":[${calls},${outputs}]}` };
};
/** Numbers of 15 digits, which a double holds, and one that it does not. */
const longNumber = (elements: number): AttackRequest => ({
  path: "/v1/messages",
  body: messages(
    "openai",
    `${USER},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"id":12345678901234567,"list":[${times(elements, () => "123456789012345")}]}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"ok"}]}`,
  ),
});
const numberReference = (): AttackRequest =>
  schemaTool(`{"anyOf":[{"$ref":12345678901234567890},{"properties":{"a":{}}}]}`);
/** Texts that begin like the state of another vendor, which is searched in the whole body. */
const geminiStates = (contents: number, parts: number): AttackRequest => {
  const content = `{"parts":[${times(parts, () => `{"text":"Z3dzMS4"}`)}]}`;
  return { path: gemini("google"), body: `{"contents":[${times(contents, () => content)}]}` };
};
const geminiTexts = (model: string, bytes: number, text: string): AttackRequest => ({
  path: gemini(model),
  body: `{"contents":[{"parts":[${times(Math.floor(bytes / (text.length + 12)), () => `{"text":"${text}"}`)}]}]}`,
});
const MIB = 2 ** 20;
const WORDS = "word ".repeat(1_000);

describe("a request at the size of the attack", () => {
  test.each<Case>([
    ["a sealed item, then 40,000 short ones", 400, () => sealedInput(40_000)],
    ["a sealed block, then 40,000 short ones", 400, () => sealedMessages(40_000)],
    ["a sealed turn, then 40,000 others", 400, () => sealedTurn(40_000)],
    ["2,000 references to 2,000 properties", 400, () => referenceSchema(2_000, 2_000)],
    ["4,000 references to 4,000 properties", 400, () => referenceSchema(4_000, 4_000)],
    ["7,000 alternatives of one property", 400, () => differingSchema(7_000)],
    ["25,000 tools and 25,000 allowed names", 400, () => allowedTools(25_000)],
    ["30,000 calls and their outputs", 400, () => geminiCalls(1, 30_000)],
    ["5 MB of short values and a long number", 400, () => longNumber(300_000)],
    ["a reference that is a long number", 200, numberReference],
    ["60 MiB of Gemini texts", 200, () => geminiTexts("google", 60 * MIB, WORDS)],
    ["60 MiB of short Gemini texts", 400, () => geminiTexts("google", 60 * MIB, "a")],
    ["60 MiB of Gemini texts, translated", 200, () => geminiTexts("openai", 60 * MIB, WORDS)],
    ["20 MiB of Gemini texts that look like state", 200, () => geminiStates(100, 11_000)],
    ["60 MiB of escaped quotes", 200, () => geminiTexts("google", 60 * MIB, '\\"'.repeat(3_000))],
  ])("%s", judge);
});

describe("a request just within the bounds", () => {
  test.each<Case>([
    ["a sealed item, then 16,000 short ones", 200, () => sealedInput(16_000)],
    ["a sealed block, then 16,000 short ones", 200, () => sealedMessages(16_000)],
    ["a sealed turn, then 16,000 others", 200, () => sealedTurn(16_000)],
    ["1,000 references to 1,000 properties", 200, () => referenceSchema(1_000, 1_000)],
    ["1,000 alternatives of one property", 200, () => differingSchema(1_000)],
    ["1,000 tools and 1,000 allowed names", 200, () => allowedTools(1_000)],
    ["1,000 calls and their outputs", 200, () => geminiCalls(1, 1_000)],
    ["8,000 short values and a long number", 200, () => longNumber(8_000)],
  ])("%s", judge);
});

async function judge(name: string, status: number, build: () => AttackRequest): Promise<void> {
  const { path, body } = build();
  const mib = body.length / MIB;
  let response: ResponseBody = { status: 0, text: "" };
  const { cpuMs } = await measureAttack(name, target, {
    bytes: body.length,
    run: async () => {
      response = await post(path, body);
    },
  });
  expect([response.status, response.status === status ? "" : response.text.slice(0, 400)]).toEqual([
    status,
    "",
  ]);
  expect(cpuMs).toBeLessThan(REQUEST_CPU_MS + CPU_MS_PER_MIB * mib);
}
