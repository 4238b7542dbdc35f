/** What the real Codex makes of every kind of refusal over a WebSocket: how often it comes back, and what its user reads. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { type RunningGateway, TEST_KEY } from "../running-gateway.ts";
import { type Asked, type CodexHome, openCodex } from "./codex.ts";
import { POOR_KEY, SPENT_KEY, startFailingGateway } from "./failing-gateway.ts";
import { tapWire, type WireTap } from "./wire-tap.ts";

const UPGRADE = "GET /v1/responses";
const POST = "POST /v1/responses";
/** One repeat of a turn that may be repeated. */
const RETRIES = { request_max_retries: 0, stream_max_retries: 1 };
/** A turn, its repeat, and the same again by HTTP. */
const FALLING_BACK = [UPGRADE, UPGRADE, POST, POST];

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

async function ask(model: string, key = TEST_KEY): Promise<Asked & { requests: string[] }> {
  codex = openCodex({ url: tap.url, model, key, transport: "websocket", provider: RETRIES });
  const before = tap.requests.length;
  const asked = await codex.ask("Say hello");
  return { ...asked, requests: tap.requests.slice(before) };
}

describe("a failure", () => {
  test.each([
    ["a request that the upstream refuses", "400", TEST_KEY, [UPGRADE], '"code":"invalid_value"'],
    // The warm-up is refused too, and costs its connection.
    ["an unknown model", "no-such-model", TEST_KEY, [UPGRADE, UPGRADE], "`no-such-model` does not exist"],
    ["no money", "priced", POOR_KEY, [UPGRADE], "Quota exceeded. Check your plan and billing details."],
    ["a conversation that is too long", "context", TEST_KEY, [UPGRADE], "ran out of room"],
    ["an answer cut by its length", "incomplete", TEST_KEY, [UPGRADE], "reason: max_output_tokens"],
    ["a wrong key", "priced", "wrong-key", [UPGRADE, ...FALLING_BACK], "unexpected status 401"],
    ["a failed response", "failed", TEST_KEY, FALLING_BACK, "stream disconnected before completion"],
  ])("of the kind: %s", async (_, model, key, requests, words) => {
    expectFailure(await ask(model, key), requests, words);
  });

  test("of the kind: a window of money that is used up", async () => {
    const bearer = { authorization: `Bearer ${SPENT_KEY}` };
    await (await gateway.call("/v1/responses", { model: "priced", input: "Hi" }, { headers: bearer })).text();
    expectFailure(await ask("priced", SPENT_KEY), [UPGRADE], "hit your usage limit. Try again at");
  });

  test("of the kind: no account for a while, which asks for another model", async () => {
    await (await gateway.call("/v1/responses", { model: "429@retry=120", input: "Hi" })).text();
    expectFailure(await ask("429@retry=120"), [UPGRADE], "Selected model is at capacity.");
  });
});

function expectFailure(asked: Asked & { requests: string[] }, requests: string[], words: string): void {
  expect(asked.exitCode).toBe(1);
  expect(asked.failure).toContain(words);
  expect(asked.requests).toEqual(requests);
}

test("an account that fails is not noticed where there is another", async () => {
  gateway.simulator.force("500", 1);
  expect(await ask("doubled")).toMatchObject({ exitCode: 0, failure: null, requests: [UPGRADE] });
});

test("a lone account that is busy is asked again when its answer said so", async () => {
  gateway.simulator.force("429@retry=1", 1);
  expect(await ask("busy")).toMatchObject({ exitCode: 0, failure: null, requests: [UPGRADE, UPGRADE] });
});
