/**
 * How the real Codex handles every kind of rejection over a WebSocket: how often it retries, and what its user reads.
 */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { TEST_KEY } from "../support/running-gateway.ts";
import { type FailingScene, openFailingScene, POOR_KEY, SPENT_KEY } from "./failing-gateway.ts";

const UPGRADE = "GET /v1/responses";
const POST = "POST /v1/responses";
/** One retry of a turn. */
const RETRIES = { request_max_retries: 0, stream_max_retries: 1 };
/** A turn, its retry, and the same again over HTTP. */
const FALLING_BACK = [UPGRADE, UPGRADE, POST, POST];

let scene: FailingScene;
beforeAll(async () => {
  scene = await openFailingScene({ transport: "websocket", provider: RETRIES });
});
afterAll(() => scene.stop());

describe("a failure in Codex over a WebSocket", () => {
  test.each([
    ["a request that the upstream rejects", "400", TEST_KEY, [UPGRADE], '"code":"invalid_value"'],
    // The warm-up is rejected too, and closes its connection.
    ["an unknown model", "no-such-model", TEST_KEY, [UPGRADE, UPGRADE], "`no-such-model` does not exist"],
    [
      "an exhausted balance",
      "priced",
      POOR_KEY,
      [UPGRADE],
      "Quota exceeded. Check your plan and billing details.",
    ],
    ["exceeded context length", "context", TEST_KEY, [UPGRADE], "ran out of room"],
    ["a response cut off by its token limit", "incomplete", TEST_KEY, [UPGRADE], "reason: max_output_tokens"],
    ["an invalid key", "priced", "wrong-key", [UPGRADE, ...FALLING_BACK], "unexpected status 401"],
    ["a failed response", "failed", TEST_KEY, FALLING_BACK, "stream disconnected before completion"],
  ])("is reported: %s", async (_, model, key, requests, words) => {
    await expectFailure(model, key, requests, words);
  });

  test("is reported: an exhausted USD window", async () => {
    await scene.wearOut("priced", SPENT_KEY);
    await expectFailure("priced", SPENT_KEY, [UPGRADE], "hit your usage limit. Try again at");
  });

  test("is reported: no available account, with a hint to use another model", async () => {
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

test("an account failure is hidden by failover to another account", async () => {
  scene.gateway.simulator.force("500", 1);
  expect(await scene.ask("doubled")).toMatchObject({ exitCode: 0, failure: null, requests: [UPGRADE] });
});

test("a single busy account is retried after its Retry-After", async () => {
  scene.gateway.simulator.force("429@retry=1", 1);
  expect(await scene.ask("busy")).toMatchObject({ exitCode: 0, failure: null, requests: [UPGRADE, UPGRADE] });
});
