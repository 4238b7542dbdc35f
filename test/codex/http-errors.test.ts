/** How the real Codex handles every kind of failure over HTTP: how often it retries, and what its user reads. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { TEST_KEY } from "../support/running-gateway.ts";
import { type FailingScene, openFailingScene, POOR_KEY, SPENT_KEY } from "./failing-gateway.ts";

/** One retry in each of Codex's two layers, so that a failure that Codex treats as final can be distinguished. */
const RETRIES = { request_max_retries: 1, stream_max_retries: 1 };
const ONCE = 1;
/** The turn is retried, the request in it is not. */
const TURN_TWICE = 2;
/** The request is retried, and then the turn fails. */
const REQUEST_TWICE = 2;

let scene: FailingScene;
beforeAll(async () => {
  scene = await openFailingScene({ transport: "http", provider: RETRIES });
});
afterAll(() => scene.stop());

describe("a failure in Codex", () => {
  test.each([
    ["a request that the upstream rejects", "400", TEST_KEY, ONCE, '"code":"invalid_value"'],
    ["an unknown model", "no-such-model", TEST_KEY, ONCE, "The model `no-such-model` does not exist"],
    [
      "an exhausted balance",
      "priced",
      POOR_KEY,
      ONCE,
      "Quota exceeded. Check your plan and billing details.",
    ],
    [
      "an invalid key",
      "priced",
      "wrong-key",
      TURN_TWICE,
      "unexpected status 401 Unauthorized: Incorrect API key provided",
    ],
    ["exceeded context length", "context", TEST_KEY, ONCE, "ran out of room in the model's context"],
    ["a response cut off by its token limit", "incomplete", TEST_KEY, ONCE, "reason: max_output_tokens"],
    ["a failed response", "failed", TEST_KEY, TURN_TWICE, "stream disconnected before completion"],
    [
      "an upstream that disconnects",
      "rst@chunk8",
      TEST_KEY,
      TURN_TWICE,
      "closed the connection in the middle",
    ],
  ])("is reported: %s", async (_, model, key, requests, words) => {
    await expectFailure(model, key, requests, words);
  });

  test("is reported: an exhausted USD window", async () => {
    await scene.wearOut("priced", SPENT_KEY);
    await expectFailure("priced", SPENT_KEY, ONCE, "hit your usage limit. Try again at");
  });

  test("is reported: no available account, with a hint to use another model", async () => {
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

test("an account failure is hidden by failover to another account", async () => {
  scene.gateway.simulator.force("500", 1);
  expect(await scene.ask("doubled")).toMatchObject({ exitCode: 0, failure: null, requests: { length: 1 } });
});

test("a single busy account is retried after its Retry-After", async () => {
  scene.gateway.simulator.force("429@retry=1", 1);
  expect(await scene.ask("busy")).toMatchObject({ exitCode: 0, failure: null, requests: { length: 2 } });
});
