/** A long request that falls back to another group is not searched on the event loop again. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { SIMULATOR } from "../support/paid-gateway.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import { type AttackTarget, measureAttack, startAttackTarget } from "./attack-setup.ts";

setDefaultTimeout(120_000);

const BYTES = 40 * 1024 * 1024;

let target: AttackTarget;

beforeAll(async () => {
  target = await startAttackTarget({ file: buildFile() });
  // Starts the threads, loads modules and compiles code before the measurement.
  for (let i = 0; i < 3; i++) expect(await send('"Hello"', 300_000)).toBe(200);
});
afterAll(() => target.stop());

/** The account of the first group fails, and that of the second can express no schema. */
function buildFile(): string {
  const account = (name: string, model: string, more: object = {}) => ({
    name,
    kind: "openai",
    base_url: SIMULATOR,
    credential: "credential",
    private_network: true,
    models: { m: model },
    ...more,
  });
  const group = (name: string, more: object = {}) => ({ name, models: ["m"], accounts: [name], ...more });
  return JSON.stringify({
    models: [{ id: "m", interfaces: ["chat"] }],
    accounts: [
      account("first", "fault/500"),
      account("second", "sim-fast", { profile: { json_schema: "none" } }),
    ],
    groups: [group("first", { fallback: [{ group: "second", when: ["failing"] }] }), group("second")],
    keys: [{ name: "test", group: "first", secret: TEST_KEY }],
  });
}

async function send(content: string, bytes = BYTES): Promise<number> {
  const value = content.slice(0, -1);
  const repeated = `[${`${content},`.repeat(bytes / (value.length + 2))}0]`;
  const response = await fetch(`${target.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json" },
    body: `{"model":"m","messages":[{"role":"user","content":"Hello"}],"metadata":${repeated}}`,
  });
  await response.arrayBuffer();
  return response.status;
}

test.each(['""', '"r"', '"f"'])("a request full of %s", async (content) => {
  await measureAttack(`a request full of ${content} that falls back`, target, {
    bytes: BYTES,
    async run() {
      expect(await send(content)).toBe(200);
    },
  });
});
