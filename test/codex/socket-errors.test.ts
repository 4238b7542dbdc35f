/** What the real Codex makes of every kind of refusal over a WebSocket: how often it comes back, and what its user reads. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { TEST_KEY } from "../support/running-gateway.ts";
import { type FailingScene, openFailingScene, POOR_KEY, SPENT_KEY } from "./failing-gateway.ts";

const UPGRADE = "GET /v1/responses";
const POST = "POST /v1/responses";
/** One repeat of a turn that may be repeated. */
const RETRIES = { request_max_retries: 0, stream_max_retries: 1 };
/** A turn, its repeat, and the same again by HTTP. */
const FALLING_BACK = [UPGRADE, UPGRADE, POST, POST];

let scene: FailingScene;
beforeAll(async () => {
  scene = await openFailingScene({ transport: "websocket", provider: RETRIES });
});
afterAll(() => scene.stop());

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
    await expectFailure(model, key, requests, words);
  });

  test("of the kind: a window of money that is used up", async () => {
    await scene.wearOut("priced", SPENT_KEY);
    await expectFailure("priced", SPENT_KEY, [UPGRADE], "hit your usage limit. Try again at");
  });

  test("of the kind: no account for a while, which asks for another model", async () => {
    await scene.wearOut("429@retry=120");
    await expectFailure("429@retry=120", TEST_KEY, [UPGRADE], "Selected model is at capacity.");
  });
});

async function expectFailure(model: string, key: string, requests: string[], words: string): Promise<void> {
  const asked = await scene.ask(model, key);
  expect(asked.exitCode).toBe(1);
  expect(asked.failure).toContain(words);
  expect(asked.requests).toEqual(requests);
}

test("an account that fails is not noticed where there is another", async () => {
  scene.gateway.simulator.force("500", 1);
  expect(await scene.ask("doubled")).toMatchObject({ exitCode: 0, failure: null, requests: [UPGRADE] });
});

test("a lone account that is busy is asked again when its answer said so", async () => {
  scene.gateway.simulator.force("429@retry=1", 1);
  expect(await scene.ask("busy")).toMatchObject({ exitCode: 0, failure: null, requests: [UPGRADE, UPGRADE] });
});
