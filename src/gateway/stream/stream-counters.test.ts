import { describe, expect, test } from "bun:test";
import type { AccountRoute } from "../../policy/snapshot.ts";
import { readUsage } from "../../protocols/shared/usage.ts";
import { ROUTE, TARIFF } from "../charging/charging.test-support.ts";
import type { OutputCounter } from "../metering/output-counter.ts";
import { noteReportedUsage, openCounters, openUnpaidCounters } from "./stream-counters.ts";

function counting(change: { isCapped: boolean; paidOutputTokens: number }) {
  const checkpoints: number[] = [];
  const billingEngine = { checkpoint: (_id: string, tokens: number) => void checkpoints.push(tokens) };
  const charge = {
    tariff: TARIFF,
    payer: "balance" as const,
    heldNano: 1n,
    inputTokens: 1,
    outputTokens: 1,
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

describe("the streams of a route without charge", () => {
  const accountRoute = (): AccountRoute => ({ ...ROUTE });
  const open = (route: AccountRoute) => openUnpaidCounters({ route }, false).next();
  /** An estimate adds up what the pieces of a word cost by themselves, and a count reads the whole word. */
  const countPieces = async (counter: OutputCounter | null) => {
    for (const letter of "international") counter?.add(Buffer.from(letter), 0, 1, 0);
    return (await counter?.exact())?.outputTokens;
  };

  test("are not counted once one has reported its usage", () => {
    const route = accountRoute();
    expect(open(route)).not.toBeNull();
    noteReportedUsage(route, readUsage({ prompt_tokens: 1, completion_tokens: 1 }));
    expect(open(route)).toBeNull();
  });

  test("are all counted if the last one reported no usage", async () => {
    const route = accountRoute();
    open(route);
    noteReportedUsage(route, null);
    expect([await countPieces(open(route)), await countPieces(open(route))]).toEqual([1, 1]);
  });

  test("are estimated while the first one is not over", async () => {
    const route = accountRoute();
    expect(await countPieces(open(route))).toBe(1);
    expect(await countPieces(open(route))).toBeGreaterThan(1);
  });
});
