import { describe, expect, test } from "bun:test";
import { computeTariffCost } from "../../money/tariff.ts";
import type { RequestCharge } from "../charging/charge.ts";
import {
  ENDING,
  lookUpEndpoint,
  MODEL,
  makeCaller,
  makeRequest,
  makeUsage,
  ROUTE,
  TARIFF,
} from "../charging/charging.test-support.ts";
import { asReported, type MeasuredUsage } from "../metering/meter.ts";
import type { CountedOutput } from "../metering/output-counter.ts";
import { ReasoningEstimates } from "../metering/reasoning-estimate.ts";
import { UNCHANGED } from "../request/attempt-trace.ts";
import { isPaid, openContext, type PaidRequest } from "../request-context.ts";
import type { RequestEnding } from "./request-ending.ts";
import { learnReasoning, withRequestedImages, withUnseenReasoning } from "./unseen-output.ts";

const CHARGE: RequestCharge = {
  tariff: TARIFF,
  payer: "balance",
  heldNano: 100_000n,
  inputTokens: 50,
  outputTokens: 10_000,
  paidOutputTokens: 10_000,
  searchesMax: null,
  isCapped: false,
  outputCap: null,
};

function paidRequest(
  fields: Record<string, unknown> = { stream: true },
  charge: Partial<RequestCharge> = {},
  name: "chat.completions" | "embeddings" | "images.generations" = "chat.completions",
): PaidRequest {
  const call = {
    request: new Request("http://gateway.example"),
    requestId: "req_1",
    startedMs: 100,
    bodyBytes: 0,
    clientAddress: () => "",
    networkAddress: () => "",
    socketTurn: null,
    closeConnection() {},
  };
  const context = openContext(call, lookUpEndpoint(name));
  context.trace.beginAttempt({ route: ROUTE, changes: UNCHANGED, nowMs: 120 });
  Object.assign(context, {
    caller: makeCaller("balance"),
    request: makeRequest(name, fields),
    model: MODEL,
    charge: { ...CHARGE, ...charge },
  });
  if (!isPaid(context)) throw new Error("the request is paid");
  return context;
}

const shown =
  (outputTokens: number, reasoningTokens = 0) =>
  (): CountedOutput => ({
    outputTokens,
    reasoningTokens,
  });

/** A response that ended with usage, of which the client received this much. */
function learnt(
  usage: Record<string, unknown>,
  estimateShown: RequestEnding["estimateShown"],
  context = paidRequest(),
) {
  const estimates = new ReasoningEstimates();
  const measured = asReported(makeUsage({ input_tokens: 10, ...usage }), 0);
  const ending = { ...ENDING, estimateShown };
  for (let i = 0; i < 40; i++) learnReasoning(estimates, context, { ending, measured });
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
    isImplausible: false,
  };
}

function added(
  estimates: ReasoningEstimates,
  measured = seen(5),
  context = paidRequest(),
  ending = LEFT,
): number {
  const { tokens } = withUnseenReasoning(estimates, context, { ending, measured });
  return tokens.outputTokens - measured.tokens.outputTokens;
}

describe("reasoning that the client did not receive", () => {
  test.each([
    [
      "is the reported reasoning if none of it was delivered",
      { output_tokens: 900, ...reasoning(800) },
      shown(100),
      800,
    ],
    ["is reduced by the delivered part", { output_tokens: 900, ...reasoning(800) }, shown(400, 300), 500],
    ["is zero if all of it was delivered", { output_tokens: 900, ...reasoning(800) }, shown(920, 820), 0],
    ["is the missing output if the upstream reports no reasoning", { output_tokens: 900 }, shown(100), 800],
    ["is zero for a difference between tokenizers", { output_tokens: 140 }, shown(100), 0],
    ["is all reasoning of a whole response", { output_tokens: 900, ...reasoning(800) }, null, 800],
  ] as const)("%s", (_, usage, estimateShown, tokens) => {
    expect(added(learnt(usage, estimateShown))).toBe(tokens);
  });

  test("is counted for each choice", () => {
    const estimates = learnt({ output_tokens: 900, ...reasoning(800) }, shown(100));
    expect(added(estimates, seen(5), paidRequest({ stream: true, n: 3 }))).toBe(2_400);
  });

  test("is not learned from broken responses", () => {
    const estimates = new ReasoningEstimates();
    const usage = asReported(makeUsage({ input_tokens: 10, output_tokens: 900, ...reasoning(800) }), 0);
    learnReasoning(estimates, paidRequest(), { ending: { ...ENDING, isWhole: false }, measured: usage });
    expect(added(estimates)).toBe(0);
  });
});

describe("an abandoned response", () => {
  const estimates = learnt({ output_tokens: 900, ...reasoning(800) }, shown(100));

  test("has the estimated reasoning added, and is flagged", () => {
    expect(withUnseenReasoning(estimates, paidRequest(), { ending: LEFT, measured: seen(5) })).toMatchObject({
      tokens: { inputTokens: 10, outputTokens: 805, reasoningTokens: 800 },
      source: "partial",
      flags: ["partial", "estimated"],
    });
  });

  test("never exceeds its output maximum or its hold", () => {
    expect(added(estimates, seen(5), paidRequest({ stream: true }, { outputTokens: 100 }))).toBe(95);
    expect(added(estimates, seen(200), paidRequest({ stream: true }, { outputTokens: 100 }))).toBe(0);
    const poor = paidRequest({ stream: true }, { heldNano: 1_000n });
    const { tokens } = withUnseenReasoning(estimates, poor, { ending: LEFT, measured: seen(5) });
    expect(computeTariffCost(TARIFF, { ...tokens, imageKind: null })).toBeLessThanOrEqual(1_000n);
    expect(tokens.outputTokens).toBeGreaterThan(200);
  });

  test("is assumed to reason if the request enables it or if reasoning has a price", () => {
    const nothing = new ReasoningEstimates();
    expect(added(nothing, seen(5), paidRequest({ stream: true, reasoning_effort: "low" }))).toBe(512);
    expect(added(nothing, seen(5), paidRequest({ stream: true, reasoning: { effort: "high" } }))).toBe(8_192);
    expect(added(nothing)).toBe(0);
  });

  test.each([
    [
      "whose upstream reported its usage",
      LEFT,
      asReported(makeUsage({ input_tokens: 10, output_tokens: 9 }), 0),
    ],
    ["whose client stayed connected", { ...LEFT, isAbandoned: false }, seen(5)],
  ])("nothing is added to a response %s", (_, ending, measured) => {
    expect(withUnseenReasoning(estimates, paidRequest(), { ending, measured })).toBe(measured);
  });

  test("of embeddings has no reasoning", () => {
    expect(added(estimates, seen(0), paidRequest({}, {}, "embeddings"))).toBe(0);
  });
});

describe("abandoned images", () => {
  const context = paidRequest({ n: 3 }, {}, "images.generations");

  test("are all charged, and flagged as estimated", () => {
    expect(withRequestedImages(context, LEFT).images).toBe(3);
    expect(withRequestedImages(context, { ...LEFT, isAbandoned: false }).images).toBe(0);
    const measured = withUnseenReasoning(new ReasoningEstimates(), context, {
      ending: LEFT,
      measured: seen(0, 0, 3),
    });
    expect(measured.flags).toEqual(["partial", "estimated"]);
  });

  test("that were all started are not flagged as estimated", () => {
    const ending = { ...LEFT, images: 3 };
    const measured = withUnseenReasoning(new ReasoningEstimates(), context, {
      ending,
      measured: seen(0, 0, 3),
    });
    expect(measured.flags).toEqual(["partial"]);
  });
});
