/** What the real Codex makes of every kind of failure over HTTP: how often it asks again, and what its user reads. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { TEST_KEY } from "../support/running-gateway.ts";
import { type FailingScene, openFailingScene, POOR_KEY, SPENT_KEY } from "./failing-gateway.ts";

/** One repeat in each of Codex's two layers, so that a failure that it takes for final can be told from others. */
const RETRIES = { request_max_retries: 1, stream_max_retries: 1 };
const ONCE = 1;
/** The turn is repeated, the request in it is not. */
const TURN_TWICE = 2;
/** The request is repeated, and the turn then given up. */
const REQUEST_TWICE = 2;

let scene: FailingScene;
beforeAll(async () => {
  scene = await openFailingScene({ transport: "http", provider: RETRIES });
});
afterAll(() => scene.stop());

describe("a failure", () => {
  test.each([
    ["a request that the upstream refuses", "400", TEST_KEY, ONCE, '"code":"invalid_value"'],
    ["an unknown model", "no-such-model", TEST_KEY, ONCE, "The model `no-such-model` does not exist"],
    ["no money", "priced", POOR_KEY, ONCE, "Quota exceeded. Check your plan and billing details."],
    [
      "a wrong key",
      "priced",
      "wrong-key",
      TURN_TWICE,
      "unexpected status 401 Unauthorized: Incorrect API key provided",
    ],
    ["a conversation that is too long", "context", TEST_KEY, ONCE, "ran out of room in the model's context"],
    ["an answer cut by its length", "incomplete", TEST_KEY, ONCE, "reason: max_output_tokens"],
    ["a failed response", "failed", TEST_KEY, TURN_TWICE, "stream disconnected before completion"],
    ["an upstream that breaks off", "rst@chunk8", TEST_KEY, TURN_TWICE, "broke off in the middle"],
  ])("of the kind: %s", async (_, model, key, requests, words) => {
    await expectFailure(model, key, requests, words);
  });

  test("of the kind: a window of money that is used up", async () => {
    await scene.wearOut("priced", SPENT_KEY);
    await expectFailure("priced", SPENT_KEY, ONCE, "hit your usage limit. Try again at");
  });

  test("of the kind: no account for a while, which asks for another model", async () => {
    await scene.wearOut("429@retry=120");
    await expectFailure("429@retry=120", TEST_KEY, REQUEST_TWICE, "Selected model is at capacity.");
  });
});

async function expectFailure(model: string, key: string, requests: number, words: string): Promise<void> {
  const asked = await scene.ask(model, key);
  expect(asked.exitCode).toBe(1);
  expect(asked.failure).toContain(words);
  expect(asked.requests).toHaveLength(requests);
}

test("an account that fails is not noticed where there is another", async () => {
  scene.gateway.simulator.force("500", 1);
  expect(await scene.ask("doubled")).toMatchObject({ exitCode: 0, failure: null, requests: { length: 1 } });
});

test("a lone account that is busy is asked again when its answer said so", async () => {
  scene.gateway.simulator.force("429@retry=1", 1);
  expect(await scene.ask("busy")).toMatchObject({ exitCode: 0, failure: null, requests: { length: 2 } });
});
