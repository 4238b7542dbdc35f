import { describe, expect, test } from "bun:test";
import { computeTariffCost } from "../../money/tariff.ts";
import type { RequestCharge } from "../charging/charge.ts";
import {
  callerWho,
  ENDING,
  endpointOf,
  MODEL,
  ROUTE,
  requestOf,
  TARIFF,
  usageOf,
} from "../charging/paying.test-support.ts";
import type { CountedOutput } from "../metering/counted-output.ts";
import { asReported, type MeasuredUsage } from "../metering/meter.ts";
import { ReasoningEstimates } from "../metering/reasoning-estimate.ts";
import { beginAttempt } from "../request/trace.ts";
import {
  isAuthenticated,
  isPaid,
  isRead,
  openRecord,
  type PaidRecord,
  type RequestEnding,
} from "../request-record.ts";
import { learnReasoning, withRequestedImages, withUnseenReasoning } from "./unseen-output.ts";

const CHARGE: RequestCharge = {
  tariff: TARIFF,
  payer: "balance",
  heldNano: 100_000n,
  inputTokens: 50,
  outputTokens: 10_000,
  paidOutputTokens: 10_000,
  isCapped: false,
  outputCap: null,
  doubtNano: 900n,
};

function paidRecord(
  fields: Record<string, unknown> = { stream: true },
  charge: Partial<RequestCharge> = {},
  name: "chat.completions" | "embeddings" | "images.generations" = "chat.completions",
): PaidRecord {
  const call = {
    request: new Request("http://gateway.example"),
    requestId: "req_1",
    startedMs: 100,
    clientAddress: () => "",
    conversation: null,
    cutOff() {},
  };
  const record = openRecord(call, endpointOf(name));
  beginAttempt(record.trace, ROUTE, 120);
  Object.assign(record, {
    caller: callerWho("balance"),
    request: requestOf(name, fields),
    model: MODEL,
    charge: { ...CHARGE, ...charge },
  });
  if (!isAuthenticated(record) || !isRead(record) || !isPaid(record)) throw new Error("the record is paid");
  return record;
}

const shown =
  (outputTokens: number, reasoningTokens = 0) =>
  (): CountedOutput => ({
    outputTokens,
    reasoningTokens,
  });

/** A response that ended with usage, of which the client received this much. */
function learnt(
  told: Record<string, unknown>,
  estimateShown: RequestEnding["estimateShown"],
  record = paidRecord(),
) {
  const estimates = new ReasoningEstimates();
  const measured = asReported(usageOf({ input_tokens: 10, ...told }), 0);
  for (let i = 0; i < 40; i++) learnReasoning(estimates, record, { ...ENDING, estimateShown }, measured);
  return estimates;
}

const reasoning = (tokens: number) => ({ output_tokens_details: { reasoning_tokens: tokens } });
const LEFT: RequestEnding = {
  ...ENDING,
  outcome: "client_gone",
  usage: null,
  isWhole: false,
  isAbandoned: true,
};

/** What the client received of an abandoned response. */
function seen(outputTokens: number, reasoningTokens = 0, images = 0): MeasuredUsage {
  const { tokens } = asReported(null, images);
  return {
    tokens: { ...tokens, inputTokens: 10, outputTokens, reasoningTokens },
    source: "partial",
    flags: ["partial"],
    isAbsurd: false,
  };
}

function added(
  estimates: ReasoningEstimates,
  measured = seen(5),
  record = paidRecord(),
  ending = LEFT,
): number {
  const { tokens } = withUnseenReasoning(estimates, record, ending, measured);
  return tokens.outputTokens - measured.tokens.outputTokens;
}

describe("the reasoning of an answer that its client was not shown", () => {
  test.each([
    [
      "is what the upstream counts, where none is shown",
      { output_tokens: 900, ...reasoning(800) },
      shown(100),
      800,
    ],
    ["is less what is shown of it", { output_tokens: 900, ...reasoning(800) }, shown(400, 300), 500],
    ["is none where all of it is shown", { output_tokens: 900, ...reasoning(800) }, shown(920, 820), 0],
    ["is what lacks where the upstream does not count it", { output_tokens: 900 }, shown(100), 800],
    ["is none where tokenizers merely differ", { output_tokens: 140 }, shown(100), 0],
    ["is all that a whole answer has of it", { output_tokens: 900, ...reasoning(800) }, null, 800],
  ] as const)("%s", (_, told, estimateShown, tokens) => {
    expect(added(learnt(told, estimateShown))).toBe(tokens);
  });

  test("is counted for each choice", () => {
    const estimates = learnt({ output_tokens: 900, ...reasoning(800) }, shown(100));
    expect(added(estimates, seen(5), paidRecord({ stream: true, n: 3 }))).toBe(2_400);
  });

  test("is not learnt from answers that broke off", () => {
    const estimates = new ReasoningEstimates();
    const told = asReported(usageOf({ input_tokens: 10, output_tokens: 900, ...reasoning(800) }), 0);
    learnReasoning(estimates, paidRecord(), { ...ENDING, isWhole: false }, told);
    expect(added(estimates)).toBe(0);
  });
});

describe("an answer that its client left", () => {
  const estimates = learnt({ output_tokens: 900, ...reasoning(800) }, shown(100));

  test("has it added, and is marked", () => {
    expect(withUnseenReasoning(estimates, paidRecord(), LEFT, seen(5))).toMatchObject({
      tokens: { inputTokens: 10, outputTokens: 805, reasoningTokens: 800 },
      source: "partial",
      flags: ["partial", "estimated"],
    });
  });

  test("never takes more than its bound, nor costs more than was held", () => {
    expect(added(estimates, seen(5), paidRecord({ stream: true }, { outputTokens: 100 }))).toBe(95);
    expect(added(estimates, seen(200), paidRecord({ stream: true }, { outputTokens: 100 }))).toBe(0);
    const poor = paidRecord({ stream: true }, { heldNano: 1_000n });
    const { tokens } = withUnseenReasoning(estimates, poor, LEFT, seen(5));
    expect(computeTariffCost(TARIFF, { ...tokens, imageKind: null })).toBeLessThanOrEqual(1_000n);
    expect(tokens.outputTokens).toBeGreaterThan(200);
  });

  test("is presumed to reason where the request asks for it, or reasoning has a price", () => {
    const nothing = new ReasoningEstimates();
    expect(added(nothing, seen(5), paidRecord({ stream: true, reasoning_effort: "low" }))).toBe(512);
    expect(added(nothing, seen(5), paidRecord({ stream: true, reasoning: { effort: "high" } }))).toBe(8_192);
    expect(added(nothing)).toBe(0);
  });

  test.each([
    [
      "whose upstream told what it used",
      LEFT,
      asReported(usageOf({ input_tokens: 10, output_tokens: 9 }), 0),
    ],
    ["whose client stayed", { ...LEFT, isAbandoned: false }, seen(5)],
  ])("has nothing added to one %s", (_, ending, measured) => {
    expect(withUnseenReasoning(estimates, paidRecord(), ending, measured)).toBe(measured);
  });

  test("of embeddings has none", () => {
    expect(added(estimates, seen(0), paidRecord({}, {}, "embeddings"))).toBe(0);
  });
});

describe("pictures that were asked for and left", () => {
  const record = paidRecord({ n: 3 }, {}, "images.generations");

  test("are all charged, and marked as estimated", () => {
    expect(withRequestedImages(record, LEFT).images).toBe(3);
    expect(withRequestedImages(record, { ...LEFT, isAbandoned: false }).images).toBe(0);
    const measured = withUnseenReasoning(new ReasoningEstimates(), record, LEFT, seen(0, 0, 3));
    expect(measured.flags).toEqual(["partial", "estimated"]);
  });

  test("that were all begun are known", () => {
    const ending = { ...LEFT, images: 3 };
    const measured = withUnseenReasoning(new ReasoningEstimates(), record, ending, seen(0, 0, 3));
    expect(measured.flags).toEqual(["partial"]);
  });
});
