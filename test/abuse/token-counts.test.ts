/** Token counts are free of charge, so their number and their work are bounded. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { limits } from "../../src/config/limits/product-limits.ts";
import { OTHER_KEY, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { type AttackTarget, measureAttack, startAttackTarget } from "./attack-setup.ts";

setDefaultTimeout(120_000);

const KiB = 1024;
const INTERFACES = ["chat", "responses", "messages", "gemini"];
/** A key with `rpm: 1`. */
const LIMITED_KEY = OTHER_KEY;
const SIMULATOR_URL = ["$", "{SIMULATOR_URL}"].join("");

let target: AttackTarget;

beforeAll(async () => {
  target = await startAttackTarget({ file: file() });
  // Loads the tokenizer.
  for (const length of [1, 60]) expect((await count(TEST_KEY, text(length * KiB))).status).toBe(200);
});
afterAll(() => target.stop());

/** An account with Chat Completions only, so that the gateway itself counts. */
function file(): string {
  return JSON.stringify({
    models: [{ id: "m", interfaces: INTERFACES }],
    accounts: [
      {
        name: "chat-only",
        kind: "openai",
        base_url: SIMULATOR_URL,
        credential: "credential",
        private_network: true,
        interfaces: ["chat"],
        models: { m: "sim-fast" },
      },
    ],
    groups: [{ name: "default", interfaces: INTERFACES, models: ["m"], accounts: ["chat-only"] }],
    keys: [
      { name: "test", group: "default", secret: TEST_KEY },
      { name: "limited", group: "default", secret: LIMITED_KEY, limits: { rpm: 1 } },
    ],
  });
}

/** Words that are not in the vocabulary of the tokenizer. */
function text(bytes: number): string {
  let state = 1;
  const letters = Array.from({ length: bytes }, () => {
    state = (state * 48_271) % 2_147_483_647;
    return state % 9 === 0 ? " " : String.fromCharCode(97 + (state % 26));
  });
  return letters.join("");
}

async function count(key: string, content: string, url = target.url): Promise<Response> {
  const response = await fetch(`${url}/v1/messages/count_tokens`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-api-key": key, "anthropic-version": "2023-06-01" },
    body: JSON.stringify({ model: "m", messages: [{ role: "user", content }] }),
  });
  await response.clone().arrayBuffer();
  return response;
}

test("of 32 counts of a key with `rpm: 1` one is served, and the others cost no count", async () => {
  const content = text(60 * KiB);
  const statuses: number[] = [];
  const report = await measureAttack("32 token counts with rpm: 1", target, {
    bytes: 32 * content.length,
    async run() {
      const responses = await Promise.all(Array.from({ length: 32 }, () => count(LIMITED_KEY, content)));
      statuses.push(...responses.map(({ status }) => status));
      for (const { status, headers } of responses)
        if (status === 429) expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
    },
  });
  expect(statuses.filter((status) => status === 200)).toHaveLength(1);
  expect(statuses.filter((status) => status === 429)).toHaveLength(31);
  // Counting all of them took 2.3 s.
  expect(report.cpuMs).toBeLessThan(600);
});

test("counts of 200 KiB and of 1 MiB hold the event loop for no turn over 50 ms", async () => {
  for (const length of [200 * KiB, 1024 * KiB]) {
    const content = text(length);
    await measureAttack(`8 token counts of ${length / KiB} KiB`, target, {
      bytes: 8 * length,
      async run() {
        const responses = await Promise.all(Array.from({ length: 8 }, () => count(TEST_KEY, content)));
        expect(responses.map(({ status }) => status)).toEqual(Array(8).fill(200));
      },
    });
  }
});

test("a count that takes too long is rejected with 413, and the gateway serves the next one", async () => {
  const gateway = await startTestGateway({
    file: file(),
    limits: { tokenCountThread: { ...limits.tokenCountThread, jobCpuMs: 5, checkMs: 1 } },
  });
  try {
    const slow = await count(TEST_KEY, text(250 * KiB), gateway.url);
    expect([slow.status, await slow.json()]).toMatchObject([413, { error: { type: "request_too_large" } }]);
    expect((await count(TEST_KEY, text(30 * KiB), gateway.url)).status).toBe(200);
  } finally {
    await gateway.stop();
  }
});
