import { describe, expect, test } from "bun:test";
import { type FailureClass, upstreamFailure } from "../../accounts/failure.ts";
import type { Settlement } from "../../billing/engine/direct-billing.ts";
import { FREE_LEASE } from "../../limits/lease.ts";
import type { LimitLease, TrueUse } from "../../limits/limiter-types.ts";
import { makeTariff } from "../../money/tariff.ts";
import type { LogFields } from "../../observe/log.ts";
import { openRequestCounts } from "../../observe/request-counts.ts";
import { RequestMetrics } from "../../observe/request-metrics.ts";
import { openTraffic } from "../../observe/traffic.ts";
import type { TokenUsage } from "../../protocols/shared/usage.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";
import type { RequestCharge } from "../charging/charge.ts";
import {
  counterReturning,
  ENDING,
  lookUpEndpoint,
  MODEL,
  makeCaller,
  makeRequest,
  makeUsage,
  ROUTE,
  TARIFF,
} from "../charging/charging.test-support.ts";
import { INPUT_COUNTER } from "../metering/input-counter.test-support.ts";
import { createInputEstimates } from "../metering/input-estimate.ts";
import { ReasoningEstimates } from "../metering/reasoning-estimate.ts";
import { UNCHANGED } from "../request/attempt-trace.ts";
import { openContext, type RequestContext } from "../request-context.ts";
import type { RequestEnding } from "./request-ending.ts";
import { isSettlementStored, type SettlementServices, settleRequest } from "./settle.ts";

const CHARGE: RequestCharge = {
  tariff: TARIFF,
  payer: "balance",
  heldNano: 1_000n,
  inputTokens: 50,
  outputTokens: 200,
  paidOutputTokens: 200,
  searchesMax: null,
  isCapped: false,
  outputCap: null,
};
/** 100 input tokens and 10 output tokens: with the multiplier, and without it. */
const COST_NANO = 240n;
const LIST_NANO = 120n;

function setUp() {
  const rows: UsageRow[] = [];
  const settlements: Settlement[] = [];
  const learnt: number[] = [];
  const blamed: string[] = [];
  const faults: string[] = [];
  const warnings: { event: string; fields: LogFields | undefined }[] = [];
  const note = (event: string, fields?: LogFields) => void warnings.push({ event, fields });
  const books: SettlementServices = {
    clock: { nowMs: () => 5_000, monotonicMs: () => 150 },
    log: { info: note, warn: note, error: note },
    estimates: {
      ...createInputEstimates(),
      estimate: () => 30,
      learn: (_model, _size, tokens) => void learnt.push(tokens),
    },
    reasoning: new ReasoningEstimates(),
    inputCounter: INPUT_COUNTER,
    traffic: openTraffic(),
    requestCounts: openRequestCounts(),
    requestMetrics: new RequestMetrics(),
    tracer: null,
    accessLog: null,
    billingEngine: {
      push: (row) => void rows.push(row),
      settle: async (settlement) => void settlements.push(settlement),
    },
    rejections: { addToCounted: () => false },
    billingFaults: { add: (fault) => void faults.push(fault) },
    dispatcher: { pool: { recordBrokenStream: ({ account }) => void blamed.push(account.id) } },
  };
  return { books, rows, settlements, learnt, blamed, warnings, faults };
}

function contextWith(
  change: Partial<RequestContext> = {},
  failures: readonly FailureClass[] = [],
): RequestContext {
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
  const context = openContext(call, lookUpEndpoint("chat.completions"));
  for (const failure of failures) {
    context.trace.beginAttempt({ route: ROUTE, changes: UNCHANGED, nowMs: 110 });
    context.trace.lastAttempt?.fail(upstreamFailure(failure, "broke"), 120);
  }
  context.trace.beginAttempt({ route: ROUTE, changes: UNCHANGED, nowMs: 120 });
  return Object.assign(context, {
    caller: makeCaller("balance"),
    request: makeRequest("chat.completions"),
    model: MODEL,
    charge: CHARGE,
    ...change,
  });
}

/** The settlement of one request. */
async function booked(
  ending: Partial<RequestEnding> = {},
  charge: Partial<RequestCharge> = {},
  context: Partial<RequestContext> = {},
  failures: readonly FailureClass[] = [],
) {
  const all = setUp();
  const of = contextWith({ charge: { ...CHARGE, ...charge }, ...context }, failures);
  await settleRequest(all.books, of, { ...ENDING, ...ending });
  const [settlement] = all.settlements;
  if (!settlement) throw new Error("nothing was booked");
  expect(settlement.chargedNano).toBe(settlement.row.chargedNano);
  expect(all.rows).toEqual([]);
  return { ...all, row: settlement.row };
}

const ABSURD = makeUsage({ input_tokens: 100, output_tokens: -5 });

describe("a paid request", () => {
  test("is settled at its cost, with the upstream cost", async () => {
    expect((await booked()).row).toMatchObject({
      costNano: COST_NANO,
      chargedNano: COST_NANO,
      upstreamNano: LIST_NANO,
      payer: "balance",
      tariffId: TARIFF.id,
      flags: [],
      inputTokens: 100,
      outputTokens: 10,
      usageSource: "upstream",
    });
  });

  test("completes when its settlement is recorded", async () => {
    const { books } = setUp();
    const booking = Promise.withResolvers<void>();
    const billingEngine = { ...books.billingEngine, settle: () => booking.promise };
    let isOver = false;
    const settled = settleRequest({ ...books, billingEngine }, contextWith(), ENDING)?.then(() => {
      isOver = true;
    });
    await Bun.sleep(1);
    expect(isOver).toBe(false);
    booking.resolve();
    await settled;
    expect(isOver).toBe(true);
  });

  test("is not stored before its settlement is recorded, and a second settlement waits for the first", async () => {
    const { books } = setUp();
    const recorded = Promise.withResolvers<void>();
    const billingEngine = { ...books.billingEngine, settle: () => recorded.promise };
    const services = { ...books, billingEngine };
    const context = contextWith();
    expect(await isSettlementStored(context)).toBe(false);
    void settleRequest(services, context, ENDING);
    const order: string[] = [];
    const waits = [
      isSettlementStored(context).then((isStored) => order.push(`asked: ${isStored}`)),
      Promise.resolve(settleRequest(services, context, ENDING)).then(() => order.push("settled again")),
    ];
    await new Promise((resolve) => setImmediate(resolve));
    order.push("recorded");
    recorded.resolve();
    await Promise.all(waits);
    expect(order[0]).toBe("recorded");
    expect(order.toSorted()).toEqual(["asked: true", "recorded", "settled again"]);
  });

  test("completes synchronously if the settlement is synchronous", () => {
    const { books } = setUp();
    const billingEngine = { ...books.billingEngine, settle: () => null };
    expect(settleRequest({ ...books, billingEngine }, contextWith(), ENDING)).toBeNull();
  });

  test("is charged its whole cost above the hold, and flagged as overrun", async () => {
    const { row } = await booked({}, { heldNano: 100n });
    expect(row).toMatchObject({
      costNano: COST_NANO,
      chargedNano: COST_NANO,
      upstreamNano: LIST_NANO,
      flags: ["overrun"],
    });
  });

  test("is flagged if its output was capped by the balance", async () => {
    expect((await booked({}, { isCapped: true })).row.flags).toEqual(["capped"]);
    expect((await booked({}, { isCapped: true, heldNano: 1n })).row.flags).toEqual(["capped", "overrun"]);
  });

  test("is charged by counted tokens if the upstream reports no usage", async () => {
    const { row } = await booked({ usage: null, countOutput: counterReturning(20) });
    expect(row).toMatchObject({ inputTokens: 9, outputTokens: 20, usageSource: "estimated" });
    expect(row).toMatchObject({ chargedNano: 2n * 9n + 4n * 20n, flags: ["estimated"] });
  });

  test.each(["client_gone", "upstream_cut"] as const)(
    "with outcome %s is charged for the delivered output",
    async (outcome) => {
      const { row } = await booked({
        outcome,
        isWhole: false,
        usage: null,
        countOutput: counterReturning(5),
      });
      expect(row).toMatchObject({ outputTokens: 5, usageSource: "partial", flags: ["partial"] });
      expect(row.chargedNano).toBe(2n * 9n + 4n * 5n);
    },
  );

  test("that was drained after a disconnect is counted like a complete one", async () => {
    const { row } = await booked({ outcome: "client_gone", usage: null, countOutput: counterReturning(5) });
    expect(row).toMatchObject({ outputTokens: 5, usageSource: "estimated", flags: ["estimated"] });
  });

  test("is charged for counted reasoning at the price of reasoning", async () => {
    const tariff = makeTariff({ input: "1", output: "2", reasoning: "20" });
    const ending = { usage: null, countOutput: counterReturning(20, 15) };
    const { row } = await booked(ending, { tariff, heldNano: 1_000_000n });
    expect(row).toMatchObject({ outputTokens: 20, reasoningTokens: 15 });
    expect(row.chargedNano).toBe(1_000n * (9n + 2n * 5n + 20n * 15n));
  });

  test("is charged for its estimated input if counting fails", async () => {
    const countOutput = () => Promise.reject(new Error("no tokenizer"));
    const { row, warnings } = await booked({ usage: null, countOutput });
    expect(row).toMatchObject({ inputTokens: 50, outputTokens: 0, chargedNano: 100n, flags: ["estimated"] });
    expect(warnings).toEqual([
      { event: "count_failed", fields: { request_id: "req_1", reason: "no tokenizer" } },
    ]);
  });

  test("that was not served by any account costs nothing", async () => {
    const usage = makeUsage({ input_tokens: 7, output_tokens: 7 });
    const { row } = await booked({ isServed: false, outcome: "failed", usage });
    expect(row).toMatchObject({ costNano: 0n, chargedNano: 0n, upstreamNano: 0n, inputTokens: 0 });
    expect(row).toMatchObject({ payer: "balance", tariffId: TARIFF.id, usageSource: "none" });
  });

  test.each([
    [true, LIST_NANO],
    [false, 0n],
  ])(
    "is not charged for failed attempts, but they add to the upstream cost (served: %p)",
    async (isServed, list) => {
      const failures = ["timeout", "reset", "bad_answer", "rate_limited", "connect", "server"] as const;
      const { row } = await booked({ isServed }, {}, {}, failures);
      expect(row.chargedNano).toBe(isServed ? COST_NANO : 0n);
      // Three of the attempts may have read the input, which was estimated at 50 tokens.
      expect(row.upstreamNano).toBe(list + 3n * 50n);
    },
  );

  test("with an impossible usage is charged its hold, and its account is penalized", async () => {
    const { row, blamed, learnt, warnings } = await booked({ usage: ABSURD });
    expect(row).toMatchObject({
      costNano: 1_000n,
      chargedNano: 1_000n,
      upstreamNano: 1_000n,
      flags: ["clamped"],
      inputTokens: 0,
      outputTokens: 0,
    });
    expect([blamed, learnt]).toEqual([["a1"], []]);
    expect(warnings).toEqual([
      { event: "impossible_usage", fields: { request_id: "req_1", account_id: "a1" } },
    ]);
  });

  test("for images is charged by size and quality", async () => {
    const tariff = makeTariff({ image: "0.01", images: { "1024x1024": "0.03" } });
    const request = makeRequest("images.generations", { n: 2, size: "1024x1024" });
    const ending = { usage: null, images: 2 };
    const { row } = await booked(ending, { tariff, heldNano: 60_000_000n }, { request });
    expect(row).toMatchObject({ images: 2, chargedNano: 60_000_000n, flags: ["estimated"] });
  });

  test.each([
    [{ size: "1024x1024" }, 40_000_000n],
    [{ size: "1024x1024", quality: "auto" }, 40_000_000n],
    [{}, 40_000_000n],
    [{ size: "1024x1024", quality: "low" }, 10_000_000n],
  ])(
    "for images with %j is charged by the resolved image kind, even above the hold",
    async (fields, nano) => {
      const images = { "1024x1024": "0.01", "1024x1024/high": "0.04" };
      const tariff = makeTariff({ images });
      const request = makeRequest("images.generations", fields);
      const ending = { usage: null, images: 1, imageKind: "1024x1024/high" };
      const { row } = await booked(ending, { tariff, heldNano: 40_000_000n }, { request });
      expect(row).toMatchObject({ costNano: nano, chargedNano: nano, flags: ["estimated"] });
      const { row: short } = await booked(ending, { tariff, heldNano: 5_000_000n }, { request });
      expect(short).toMatchObject({ costNano: nano, chargedNano: nano, flags: ["estimated", "overrun"] });
    },
  );
});

describe("the input estimate", () => {
  test("learns from the input tokens that the upstream reports", async () => {
    const { learnt, blamed } = await booked();
    expect([learnt, blamed]).toEqual([[100], []]);
  });

  test("ignores the gateway's own counts, unserved requests and stored conversations", async () => {
    expect((await booked({ usage: null, countOutput: counterReturning(1) })).learnt).toEqual([]);
    expect((await booked({ isServed: false })).learnt).toEqual([]);
    const request = makeRequest("responses", { previous_response_id: "resp_1" });
    expect((await booked({}, {}, { request })).learnt).toEqual([]);
  });
});

describe("an unpaid request", () => {
  function settleRow(
    ending: Partial<RequestEnding> = {},
    context: Partial<RequestContext> = {},
    failures: FailureClass[] = [],
  ) {
    const { books, rows, settlements } = setUp();
    const of = contextWith({ charge: null, ...context }, failures);
    expect(settleRequest(books, of, { ...ENDING, ...ending })).toBeNull();
    expect(settlements).toEqual([]);
    return rows[0];
  }

  async function settleCountedRow(ending: Partial<RequestEnding>, failures: FailureClass[] = []) {
    const { books, rows } = setUp();
    await settleRequest(books, contextWith({ charge: null }, failures), { ...ENDING, ...ending });
    return rows[0];
  }

  test("is recorded at once, with its cost and without a charge", () => {
    expect(settleRow()).toMatchObject({
      costNano: COST_NANO,
      upstreamNano: LIST_NANO,
      chargedNano: 0n,
      payer: null,
      tariffId: null,
    });
  });

  test("has no cost if its model has no price or if it was not served", () => {
    expect(settleRow({}, { model: { ...MODEL, tariff: null } })).toMatchObject({ costNano: 0n });
    const refused = { usage: null, isServed: false };
    expect(settleRow(refused)).toMatchObject({ costNano: 0n, upstreamNano: 0n, usageSource: "none" });
  });

  test("is counted if the upstream reports no usage, and has that cost", async () => {
    const row = await settleCountedRow({ usage: null, countOutput: counterReturning(7) });
    expect(row).toMatchObject({ usageSource: "estimated", flags: ["estimated"], outputTokens: 7 });
    expect(row?.inputTokens).toBeGreaterThan(0);
    expect(row?.costNano).toBeGreaterThan(0n);
    expect(row).toMatchObject({ chargedNano: 0n, payer: null });
  });

  test("has the estimated input if its client disconnected before anything was counted", () => {
    const left = { outcome: "client_gone", usage: null, countOutput: null } as const;
    expect(settleRow(left)).toMatchObject({ usageSource: "partial", inputTokens: 30, outputTokens: 0 });
  });

  test("is not counted while it is pending upstream, nor at the token counting endpoint", () => {
    expect(settleRow({ outcome: "pending", usage: null })).toMatchObject({
      usageSource: "none",
      inputTokens: 0,
    });
    const endpoint = lookUpEndpoint("responses.input_tokens");
    expect(settleRow({ usage: null }, { endpoint })).toMatchObject({ usageSource: "none", inputTokens: 0 });
  });

  test("has the upstream cost of failed attempts, by its input estimate", async () => {
    expect(settleRow({}, {}, ["reset"])).toMatchObject({ upstreamNano: LIST_NANO + 30n });
    const refused = { usage: null, isServed: false };
    expect(settleRow(refused, {}, ["reset"])).toMatchObject({ costNano: 0n, upstreamNano: 30n });
  });

  test.each([["paid", CHARGE] as const, ["unpaid", null] as const])(
    "has the upstream cost that a failed attempt reported (%s), unless it is impossible",
    async (_, charge) => {
      const inVain = async (usage: TokenUsage | null, failure: FailureClass) => {
        const { books, rows, settlements } = setUp();
        const context = contextWith({ charge });
        context.trace.lastAttempt?.fail(
          { ...upstreamFailure(failure, "broke"), ...(usage && { usage }) },
          130,
        );
        await settleRequest(books, context, { ...ENDING, outcome: "failed", usage: null, isServed: false });
        return rows[0]?.upstreamNano ?? settlements[0]?.row.upstreamNano;
      };
      const usage = makeUsage({ input_tokens: 100, output_tokens: 10 });
      expect(await inVain(usage, "server")).toBe(LIST_NANO);
      expect(await inVain(usage, "bad_answer")).toBe(LIST_NANO);
      expect(await inVain(null, "server")).toBe(0n);
      expect(await inVain(ABSURD, "server")).toBe(0n);
    },
  );

  test("has no cost for an impossible usage, and is flagged", () => {
    const marked = { costNano: 0n, upstreamNano: 0n, flags: ["clamped"], inputTokens: 0 };
    expect(settleRow({ usage: ABSURD })).toMatchObject(marked);
    expect(settleRow({ usage: ABSURD }, { model: { ...MODEL, tariff: null } })).toMatchObject(marked);
  });
});

describe("the limit reservation of a request", () => {
  async function settledTo(ending: Partial<RequestEnding>, context: Partial<RequestContext>) {
    const calls: TrueUse[] = [];
    const lease: LimitLease = { ...FREE_LEASE, settle: (to) => void calls.push(to) };
    const accountSlot = {
      route: ROUTE,
      isHeld: () => true,
      settle: (to: TrueUse) => void calls.push(to),
      release() {},
      fail() {},
    };
    await settleRequest(setUp().books, contextWith({ lease, accountSlot, ...context }), {
      ...ENDING,
      ...ending,
    });
    return calls;
  }
  const counted = { usage: null, countOutput: counterReturning(7) };
  const left = { outcome: "client_gone", usage: null, countOutput: null } as const;
  const streamed = makeRequest("chat.completions", { stream: true });

  test.each([["paid", CHARGE] as const, ["unpaid", null] as const])(
    "is settled with the usage of its row (%s): reported, counted, or none",
    async (_, charge) => {
      const reported = { tokens: 110, nano: Number(COST_NANO) };
      expect(await settledTo({}, { charge })).toEqual([reported, reported]);
      const [own, account] = await settledTo(counted, { charge });
      expect(own).toEqual({ tokens: expect.any(Number), nano: expect.any(Number) });
      expect(account).toEqual(own);
      expect(account?.tokens).toBeGreaterThan(7);
      // Its request counts if it reached an upstream, its tokens and its cost never.
      expect(await settledTo({ isServed: false }, { charge })).toMatchObject([{ tokens: 0, nano: 0 }]);
    },
  );

  test("is settled before it is released if nothing has to be counted", () => {
    const calls: unknown[] = [];
    const lease: LimitLease = { ...FREE_LEASE, settle: (to) => void calls.push(to) };
    void settleRequest(setUp().books, contextWith({ lease }), ENDING);
    expect(calls).toEqual([{ tokens: 110, nano: Number(COST_NANO) }]);
  });

  test("stays for an impossible usage, except for the money that is charged", async () => {
    expect(await settledTo({ usage: ABSURD }, { charge: null })).toEqual([{ tokens: null, nano: null }]);
    expect(await settledTo({ usage: ABSURD }, {})).toEqual([{ tokens: null, nano: Number(CHARGE.heldNano) }]);
  });

  test("stays for an uncounted unpaid stream whose client disconnected", async () => {
    expect(await settledTo(left, { charge: null, request: streamed })).toEqual([
      { tokens: null, nano: null },
    ]);
    const estimated = { tokens: 30, nano: 60 };
    expect(await settledTo(left, { charge: null })).toEqual([estimated, estimated]);
    const [own] = await settledTo(left, { request: streamed });
    expect(own).toEqual({ tokens: expect.any(Number), nano: expect.any(Number) });
  });
});

describe("the settlement of a request", () => {
  test("happens once, with the first outcome", async () => {
    const { books, settlements } = setUp();
    const context = contextWith();
    await settleRequest(books, context, { ...ENDING, outcome: "client_gone" });
    await settleRequest(books, context, ENDING);
    expect(settlements.map(({ row }) => row.outcome)).toEqual(["client_gone"]);
  });

  test.each([
    ["at once", null],
    ["after a wait", Promise.resolve()],
  ])("is measured if billing settles %s", async (_, settled) => {
    const { books } = setUp();
    let nowMs = 100;
    const clock = { nowMs: () => 5_000, monotonicMs: () => nowMs };
    const settle = () => {
      nowMs += 20;
      return settled;
    };
    await settleRequest(
      { ...books, clock, billingEngine: { ...books.billingEngine, settle } },
      contextWith(),
      ENDING,
    );
    const { settlements } = books.requestMetrics;
    expect(settlements.sum).toBeCloseTo(0.02);
    expect(settlements.counts[settlements.bounds.indexOf(0.025)]).toBe(1);
  });

  test("writes no row for an unauthenticated request", () => {
    const { books, rows, settlements } = setUp();
    const context = contextWith({ caller: null, charge: null });
    expect(settleRequest(books, context, ENDING)).toBeNull();
    context.caller = makeCaller("none");
    expect(settleRequest(books, context, ENDING)).toBeNull();
    expect([rows, settlements]).toEqual([[], []]);
  });
});
