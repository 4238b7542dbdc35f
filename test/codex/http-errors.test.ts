/** What the real Codex makes of every kind of failure over HTTP: how often it asks again, and what its user reads. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { type RunningGateway, TEST_KEY } from "../running-gateway.ts";
import { type Asked, type CodexHome, openCodex } from "./codex.ts";
import { POOR_KEY, SPENT_KEY, startFailingGateway } from "./failing-gateway.ts";
import { tapWire, type WireTap } from "./wire-tap.ts";

/** One repeat in each of Codex's two layers, so that a failure that it takes for final can be told from others. */
const RETRIES = { request_max_retries: 1, stream_max_retries: 1 };
const ONCE = 1;
/** The turn is repeated, the request in it is not. */
const TURN_TWICE = 2;
/** The request is repeated, and the turn then given up. */
const REQUEST_TWICE = 2;

let gateway: RunningGateway;
let tap: WireTap;
let codex: CodexHome | null = null;

beforeAll(async () => {
  gateway = await startFailingGateway();
  tap = await tapWire(gateway.url);
});

afterEach(() => {
  codex?.remove();
  codex = null;
});

afterAll(async () => {
  await tap.stop();
  await gateway.stop();
});

async function ask(model: string, key = TEST_KEY): Promise<Asked & { requests: number }> {
  codex = openCodex({ url: tap.url, model, key, transport: "http", provider: RETRIES });
  const before = tap.requests.length;
  const asked = await codex.ask("Say hello");
  return { ...asked, requests: tap.requests.length - before };
}

describe("a failure", () => {
  test.each([
    ["a request that the upstream refuses", "400", TEST_KEY, ONCE, '"code":"invalid_value"'],
    ["an unknown model", "no-such-model", TEST_KEY, ONCE, "The model `no-such-model` does not exist"],
    ["no money", "priced", POOR_KEY, ONCE, "Quota exceeded. Check your plan and billing details."],
    ["a wrong key", "priced", "wrong-key", TURN_TWICE, "unexpected status 401 Unauthorized: The API key"],
    ["a conversation that is too long", "context", TEST_KEY, ONCE, "ran out of room in the model's context"],
    ["an answer cut by its length", "incomplete", TEST_KEY, ONCE, "reason: max_output_tokens"],
    ["a failed response", "failed", TEST_KEY, TURN_TWICE, "stream disconnected before completion"],
    ["an upstream that breaks off", "rst@chunk8", TEST_KEY, TURN_TWICE, "broke off in the middle"],
  ])("of the kind: %s", async (_, model, key, requests, words) => {
    expectFailure(await ask(model, key), requests, words);
  });

  test("of the kind: a window of money that is used up", async () => {
    const bearer = { authorization: `Bearer ${SPENT_KEY}` };
    await (await gateway.call("/v1/responses", { model: "priced", input: "Hi" }, { headers: bearer })).text();
    expectFailure(await ask("priced", SPENT_KEY), ONCE, "hit your usage limit. Try again at");
  });

  test("of the kind: no account for a while, which asks for another model", async () => {
    await (await gateway.call("/v1/responses", { model: "429@retry=120", input: "Hi" })).text();
    expectFailure(await ask("429@retry=120"), REQUEST_TWICE, "Selected model is at capacity.");
  });
});

function expectFailure(asked: Asked & { requests: number }, requests: number, words: string): void {
  expect(asked.exitCode).toBe(1);
  expect(asked.failure).toContain(words);
  expect(asked.requests).toBe(requests);
}

test("an account that fails is not noticed where there is another", async () => {
  gateway.simulator.force("500", 1);
  expect(await ask("doubled")).toMatchObject({ exitCode: 0, failure: null, requests: 1 });
});

test("a lone account that is busy is asked again when its answer said so", async () => {
  gateway.simulator.force("429@retry=1", 1);
  expect(await ask("busy")).toMatchObject({ exitCode: 0, failure: null, requests: 2 });
});
