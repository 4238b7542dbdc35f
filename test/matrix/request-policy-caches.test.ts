/** Prompt caches survive a request policy: from turn to turn, the changed request of a long session keeps its prefix. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { DIALECTS, type Dialect } from "../../src/records/interfaces.ts";
import { type RunningGateway, TEST_KEY } from "../support/running-gateway.ts";
import { modelName, policyKey, startMatrixGateway, UPSTREAMS } from "./matrix-gateway.ts";

setDefaultTimeout(120_000);

const TURNS = 50;
const WORDS = "A sentence of the conversation, as long as usual. ".repeat(8);
const POLICY = {
  name: "strict",
  output_tokens: { max: 2_048 },
  effort: { max: "low" },
  tools: { deny: ["web_search"] },
  inputs: { images: 1 },
  force: { store: false },
};

let gateway: RunningGateway;
beforeAll(async () => {
  gateway = await startMatrixGateway({ request_policies: [POLICY] });
});
afterAll(() => gateway?.stop());

/** A tool of the client before and after the denied one, as agents send them. */
const parameters = { type: "object", properties: {} };
const fn = (name: string) => ({ name, description: WORDS, parameters });
const schema = (name: string) => ({ name, description: WORDS, input_schema: parameters });
/** On the last three messages, so that the next turn marks the last one of this turn again. */
const BREAKPOINT = { cache_control: { type: "ephemeral" } };

/** The path and the body of the turn with this number. The conversation stands before other members. */
const TURN: Readonly<Record<Dialect, (model: string, turn: number) => [path: string, body: object]>> = {
  responses: (model, turn) => [
    "/v1/responses",
    {
      model,
      tools: [{ type: "function", ...fn("a") }, { type: "web_search" }, { type: "function", ...fn("b") }],
      input: history(turn).map(({ role, text }) => ({ role, content: text })),
      reasoning: { effort: "high" },
      max_output_tokens: 9_000,
    },
  ],
  chat: (model, turn) => [
    "/v1/chat/completions",
    {
      model,
      tools: [{ type: "function", function: fn("a") }],
      web_search_options: {},
      messages: history(turn).map(({ role, text }) => ({ role, content: text })),
      reasoning_effort: "high",
      max_completion_tokens: 9_000,
    },
  ],
  messages: (model, turn) => [
    "/v1/messages",
    {
      model,
      tools: [schema("a"), { type: "web_search_20250305", name: "web_search" }, schema("b")],
      messages: history(turn).map(({ role, text }, i, all) => ({
        role,
        content: [{ type: "text", text, ...(i >= all.length - 3 ? BREAKPOINT : {}) }],
      })),
      thinking: { type: "enabled", budget_tokens: 8_000 },
      max_tokens: 9_000,
    },
  ],
  gemini: (model, turn) => [
    `/v1beta/models/${model}:generateContent`,
    {
      tools: [{ functionDeclarations: [fn("a")] }, { googleSearch: {} }],
      contents: history(turn).map(({ role, text }) => ({
        role: role === "user" ? "user" : "model",
        parts: [{ text }],
      })),
      generationConfig: { maxOutputTokens: 9_000, thinkingConfig: { thinkingBudget: 8_000 } },
    },
  ],
};

function history(turn: number): { role: "user" | "assistant"; text: string }[] {
  return Array.from({ length: 2 * turn - 1 }, (_, i) => ({
    role: i % 2 === 0 ? "user" : "assistant",
    text: `${i}: ${WORDS}`,
  }));
}

interface Session {
  /** The bodies that the upstream received. */
  readonly bodies: readonly string[];
  readonly inputTokens: number;
  readonly cachedTokens: number;
}

async function play(dialect: Dialect, model: string, secret: string): Promise<Session> {
  const { ledger } = gateway.simulator;
  const before = ledger.entries().length;
  for (let turn = 1; turn <= TURNS; turn++) {
    const [path, body] = TURN[dialect](model, turn);
    const response = await gateway.call(path, body, { headers: { authorization: `Bearer ${secret}` } });
    expect([turn, response.status, await response.text()]).toEqual([turn, 200, expect.any(String)]);
  }
  const entries = ledger.entries().slice(before);
  const sum = (count: (entry: (typeof entries)[number]) => number) =>
    entries.reduce((total, entry) => total + count(entry), 0);
  return {
    bodies: entries.map(({ id }) => new TextDecoder().decode(ledger.findBody(id) ?? undefined)),
    inputTokens: sum((entry) => entry.inputTokens),
    cachedTokens: sum((entry) => entry.cachedTokens),
  };
}

/** The part of all bytes that a vendor has read before, in percent. */
function sharedPercent(bodies: readonly string[]): number {
  const shared = bodies.slice(1).map((body, i) => commonPrefix(body, bodies[i] ?? ""));
  const total = bodies.reduce((sum, body) => sum + body.length, 0);
  return (100 * shared.reduce((sum, length) => sum + length, 0)) / total;
}

function commonPrefix(a: string, b: string): number {
  let length = 0;
  while (length < Math.min(a.length, b.length) && a[length] === b[length]) length++;
  return length;
}

describe.each(DIALECTS)("a session of %s", (dialect) => {
  test.each(UPSTREAMS)("on an account with %s shares as much with and without a policy", async (upstream) => {
    const model = modelName(upstream, "fast");
    const free = await play(dialect, model, TEST_KEY);
    const bound = await play(dialect, model, policyKey("strict"));
    expect(bound.bodies[0]).not.toBe(free.bodies[0] ?? "");
    expect(sharedPercent(bound.bodies)).toBeGreaterThan(90);
    expect(Math.abs(sharedPercent(bound.bodies) - sharedPercent(free.bodies))).toBeLessThan(1);
  });
});

test("the cache of Messages is hit as often with and without a policy", async () => {
  // A conversation of its own: the cache remembers those of the other tests.
  const hitPercent = ({ cachedTokens, inputTokens }: Session) => (100 * cachedTokens) / inputTokens;
  const free = await play("messages", modelName("messages", "caller"), TEST_KEY);
  const bound = await play("messages", modelName("messages", "parallel"), policyKey("strict"));
  expect(hitPercent(free)).toBeGreaterThan(80);
  expect(Math.abs(hitPercent(bound) - hitPercent(free))).toBeLessThan(1);
});
