/** The oracle of limits against requests that a gateway must not have admitted. */

import { expect, test } from "bun:test";
import type { LedgerEntry } from "../../simulator/ledger.ts";
import { createClientRecord } from "./client.ts";
import { countAtOnce, countBusiest, type ReachedRequest } from "./limit-checks.ts";

const REQUEST = { url: "", key: "k", family: "chat", model: "slow", stream: false, prompt: "" } as const;

function reached(at: number, more: Partial<LedgerEntry> = {}, isInBackground = false): ReachedRequest {
  const client = { ...createClientRecord(REQUEST), sentAtMs: at - 5, isInBackground };
  return { client, entry: { at, sentAt: at + 100, finished: true, ...more } as LedgerEntry };
}

test("responses that overlap are counted, and those that follow each other are not", () => {
  expect(countAtOnce([reached(0), reached(50), reached(99)])).toBe(3);
  expect(countAtOnce([reached(0), reached(100), reached(200)])).toBe(1);
});

test("a response whose end the gateway does not see is not counted", () => {
  const others = [reached(10, { finished: false }), reached(20, { sentAt: null }), reached(30, {}, true)];
  expect(countAtOnce([reached(0), ...others])).toBe(1);
});

test("requests of a minute are those that were sent and arrived within it", () => {
  expect(countBusiest([reached(1_000), reached(30_000), reached(60_994)])).toBe(3);
  expect(countBusiest([reached(1_000), reached(30_000), reached(60_995)])).toBe(2);
});
