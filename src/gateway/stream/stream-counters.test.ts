import { expect, test } from "bun:test";
import { TARIFF } from "../charging/paying.test-support.ts";
import { openCounters } from "./stream-counters.ts";

function counting(change: { isCapped: boolean; paidOutputTokens: number }) {
  const told: number[] = [];
  const till = { checkpoint: (_id: string, tokens: number) => void told.push(tokens) };
  const charge = {
    tariff: TARIFF,
    payer: "balance" as const,
    heldNano: 1n,
    inputTokens: 1,
    outputTokens: 1,
    outputCap: null,
    doubtNano: 1n,
    ...change,
  };
  const counters = openCounters(till, "req_1", charge);
  const word = Buffer.from("word ");
  const say = (words: number) => {
    const counter = counters.current() ?? counters.next();
    for (let i = 0; i < words; i++) counter.add(word, 0, word.length, 0);
    return counters.checkpoint();
  };
  return { told, counters, say };
}

test.each([
  [true, "Top up"],
  [false, "larger bound"],
])(
  "a stream is ended when it goes on far beyond what is paid for, and not a word before (payer short: %p)",
  (isCapped, message) => {
    const { told, counters, say } = counting({ isCapped, paidOutputTokens: 1_000 });
    expect(counters.checkpoint()).toBeNull();
    expect(say(1_200)).toBeNull();
    expect(say(1_200)).toMatchObject({
      code: "insufficient_quota",
      message: expect.stringContaining(message),
    });
    expect(told).toHaveLength(2);
  },
);

test("what a failed attempt said is not counted", () => {
  const { counters, say } = counting({ isCapped: true, paidOutputTokens: 1_000 });
  say(1_200);
  counters.next();
  expect(say(1_200)).toBeNull();
});
