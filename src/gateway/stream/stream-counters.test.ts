import { expect, test } from "bun:test";
import { TARIFF } from "../charging/charging.test-support.ts";
import { openCounters, openUnpaidCounters } from "./stream-counters.ts";

function counting(change: { isCapped: boolean; paidOutputTokens: number }) {
  const checkpoints: number[] = [];
  const billingEngine = { checkpoint: (_id: string, tokens: number) => void checkpoints.push(tokens) };
  const charge = {
    tariff: TARIFF,
    payer: "balance" as const,
    heldNano: 1n,
    inputTokens: 1,
    outputTokens: 1,
    searchesMax: null,
    outputCap: null,
    ...change,
  };
  const counters = openCounters(billingEngine, "req_1", charge);
  const word = Buffer.from("word ");
  const say = (words: number) => {
    const counter = counters.current() ?? counters.next();
    for (let i = 0; i < words; i++) counter.add(word, 0, word.length, 0);
    return counters.checkpoint();
  };
  return { checkpoints, counters, say };
}

test.each([
  [true, "Top up"],
  [false, "higher maximum"],
])("a stream far above the paid output is stopped, and not earlier (capped: %p)", (isCapped, message) => {
  const { checkpoints, counters, say } = counting({ isCapped, paidOutputTokens: 1_000 });
  expect(counters.checkpoint()).toBeNull();
  expect(say(1_200)).toBeNull();
  expect(say(1_200)).toMatchObject({
    code: "insufficient_quota",
    message: expect.stringContaining(message),
  });
  expect(checkpoints).toHaveLength(2);
});

test("the output of a failed attempt is not counted", () => {
  const { counters, say } = counting({ isCapped: true, paidOutputTokens: 1_000 });
  say(1_200);
  counters.next();
  expect(say(1_200)).toBeNull();
});

test("an unpaid stream is counted, not estimated from its pieces", async () => {
  const counter = openUnpaidCounters().next();
  for (const letter of "international") counter.add(Buffer.from(letter), 0, 1, 0);
  expect((await counter.exact()).outputTokens).toBe(1);
});
