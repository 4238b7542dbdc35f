import { describe, expect, test } from "bun:test";
import { type FailureClass, upstreamFailure } from "../../accounts/failure.ts";
import type { Settlement } from "../../billing/engine/direct-billing.ts";
import type { LimitLease } from "../../limits/limiter.ts";
import { makeTariff } from "../../money/tariff.ts";
import type { LogFields } from "../../observe/log.ts";
import { openRequestCounts } from "../../observe/request-counts.ts";
import { openTraffic } from "../../observe/traffic.ts";
import type { TokenUsage } from "../../protocols/shared/usage.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";
import type { RequestCharge } from "../charging/charge.ts";
import {
  callerWho,
  counts,
  ENDING,
  endpointOf,
  MODEL,
  ROUTE,
  requestOf,
  TARIFF,
  usageOf,
} from "../charging/paying.test-support.ts";
import { createInputEstimates } from "../metering/input-estimate.ts";
import { ReasoningEstimates } from "../metering/reasoning-estimate.ts";
import { beginAttempt, failAttempt, noteWastedUsage } from "../request/trace.ts";
import { openRecord, type RequestEnding, type RequestRecord } from "../request-record.ts";
import { type SettlementContext, settleRequest } from "./settle.ts";

const CHARGE: RequestCharge = {
  tariff: TARIFF,
  payer: "balance",
  heldNano: 1_000n,
  inputTokens: 50,
  outputTokens: 200,
  paidOutputTokens: 200,
  isCapped: false,
  outputCap: null,
  doubtNano: 900n,
};
/** 100 input tokens and 10 output tokens: with the multiplier, and without it. */
const COST_NANO = 240n;
const LIST_NANO = 120n;

function setUp() {
  const rows: UsageRow[] = [];
  const settlements: Settlement[] = [];
  const learnt: number[] = [];
  const blamed: string[] = [];
  const warnings: { event: string; fields: LogFields | undefined }[] = [];
  const note = (event: string, fields?: LogFields) => void warnings.push({ event, fields });
  const books: SettlementContext = {
    clock: { nowMs: () => 5_000, monotonicMs: () => 150 },
    log: { info: note, warn: note, error: note },
    estimates: {
      ...createInputEstimates(),
      estimate: () => 30,
      learn: (_model, _size, tokens) => void learnt.push(tokens),
    },
    reasoning: new ReasoningEstimates(),
    traffic: openTraffic(),
    requestCounts: openRequestCounts(),
    till: {
      push: (row) => void rows.push(row),
      settle: async (settlement) => void settlements.push(settlement),
    },
    refusals: { fold: () => false },
    dispatcher: { pool: { brokeOff: ({ account }) => void blamed.push(account.id) } },
  };
  return { books, rows, settlements, learnt, blamed, warnings };
}

function recordOf(
  change: Partial<RequestRecord> = {},
  failures: readonly FailureClass[] = [],
): RequestRecord {
  const call = {
    request: new Request("http://gateway.example"),
    requestId: "req_1",
    startedMs: 100,
    clientAddress: () => "",
    conversation: null,
    cutOff() {},
  };
  const record = openRecord(call, endpointOf("chat.completions"));
  for (const failure of failures) {
    beginAttempt(record.trace, ROUTE, 110);
    failAttempt(record.trace, upstreamFailure(failure, "broke"), 120);
  }
  beginAttempt(record.trace, ROUTE, 120);
  return Object.assign(record, {
    caller: callerWho("balance"),
    request: requestOf("chat.completions"),
    model: MODEL,
    charge: CHARGE,
    ...change,
  });
}

/** The settlement of one request. */
async function booked(
  ending: Partial<RequestEnding> = {},
  charge: Partial<RequestCharge> = {},
  record: Partial<RequestRecord> = {},
  failures: readonly FailureClass[] = [],
) {
  const all = setUp();
  const of = recordOf({ charge: { ...CHARGE, ...charge }, ...record }, failures);
  await settleRequest(all.books, of, { ...ENDING, ...ending });
  const [settlement] = all.settlements;
  if (!settlement) throw new Error("nothing was booked");
  expect(settlement.chargedNano).toBe(settlement.row.chargedNano);
  expect(all.rows).toEqual([]);
  return { ...all, row: settlement.row };
}

const ABSURD = usageOf({ input_tokens: 100, output_tokens: -5 });

describe("a request that somebody pays for", () => {
  test("is booked at its cost, and told what the account asks for it", async () => {
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

  test("is over only when the booking is", async () => {
    const { books } = setUp();
    const booking = Promise.withResolvers<void>();
    const till = { ...books.till, settle: () => booking.promise };
    let isOver = false;
    const settled = settleRequest({ ...books, till }, recordOf(), ENDING)?.then(() => {
      isOver = true;
    });
    await Bun.sleep(1);
    expect(isOver).toBe(false);
    booking.resolve();
    await settled;
    expect(isOver).toBe(true);
  });

  test("keeps nobody waiting where it is booked at once", () => {
    const { books } = setUp();
    const till = { ...books.till, settle: () => null };
    expect(settleRequest({ ...books, till }, recordOf(), ENDING)).toBeNull();
  });

  test("is charged its whole cost where that is more than was held, and is marked", async () => {
    const { row } = await booked({}, { heldNano: 100n });
    expect(row).toMatchObject({
      costNano: COST_NANO,
      chargedNano: COST_NANO,
      upstreamNano: LIST_NANO,
      flags: ["overrun"],
    });
  });

  test("is marked when its answer was bounded to what the payer has", async () => {
    expect((await booked({}, { isCapped: true })).row.flags).toEqual(["capped"]);
    expect((await booked({}, { isCapped: true, heldNano: 1n })).row.flags).toEqual(["capped", "overrun"]);
  });

  test("is charged for what it is counted to have used where its upstream says nothing", async () => {
    const { row } = await booked({ usage: null, countOutput: counts(20) });
    expect(row).toMatchObject({ inputTokens: 9, outputTokens: 20, usageSource: "estimated" });
    expect(row).toMatchObject({ chargedNano: 2n * 9n + 4n * 20n, flags: ["estimated"] });
  });

  test.each(["client_gone", "upstream_cut"] as const)(
    "that ended as %s is charged for what came",
    async (outcome) => {
      const { row } = await booked({ outcome, isWhole: false, usage: null, countOutput: counts(5) });
      expect(row).toMatchObject({ outputTokens: 5, usageSource: "partial", flags: ["partial"] });
      expect(row.chargedNano).toBe(2n * 9n + 4n * 5n);
    },
  );

  test("that was read to its end after its client left is counted like any other", async () => {
    const { row } = await booked({ outcome: "client_gone", usage: null, countOutput: counts(5) });
    expect(row).toMatchObject({ outputTokens: 5, usageSource: "estimated", flags: ["estimated"] });
  });

  test("is charged for reasoning by its own price where that is counted too", async () => {
    const tariff = makeTariff({ input: "1", output: "2", reasoning: "20" });
    const ending = { usage: null, countOutput: counts(20, 15) };
    const { row } = await booked(ending, { tariff, heldNano: 1_000_000n });
    expect(row).toMatchObject({ outputTokens: 20, reasoningTokens: 15 });
    expect(row.chargedNano).toBe(1_000n * (9n + 2n * 5n + 20n * 15n));
  });

  test("is charged for its input as estimated where nothing can be counted, and holds no money for ever", async () => {
    const countOutput = () => Promise.reject(new Error("no tokenizer"));
    const { row, warnings } = await booked({ usage: null, countOutput });
    expect(row).toMatchObject({ inputTokens: 50, outputTokens: 0, chargedNano: 100n, flags: ["estimated"] });
    expect(warnings).toEqual([
      { event: "count_failed", fields: { request_id: "req_1", reason: "no tokenizer" } },
    ]);
  });

  test("that no account served costs nothing", async () => {
    const usage = usageOf({ input_tokens: 7, output_tokens: 7 });
    const { row } = await booked({ isServed: false, outcome: "failed", usage });
    expect(row).toMatchObject({ costNano: 0n, chargedNano: 0n, upstreamNano: 0n, inputTokens: 0 });
    expect(row).toMatchObject({ payer: "balance", tariffId: TARIFF.id, usageSource: "none" });
  });

  test.each([
    [true, LIST_NANO],
    [false, 0n],
  ])(
    "is not charged for attempts that failed, but accounts may ask for them (served: %p)",
    async (isServed, list) => {
      const failures = ["timeout", "reset", "bad_answer", "rate_limited", "connect", "server"] as const;
      const { row } = await booked({ isServed }, {}, {}, failures);
      expect(row.chargedNano).toBe(isServed ? COST_NANO : 0n);
      // Three of them may have read the input, which was estimated at 50 tokens.
      expect(row.upstreamNano).toBe(list + 3n * 50n);
    },
  );

  test("whose count cannot be true is charged what it was expected to cost at most, and its account is blamed", async () => {
    const { row, blamed, learnt, warnings } = await booked({ usage: ABSURD });
    expect(row).toMatchObject({
      costNano: 900n,
      chargedNano: 900n,
      upstreamNano: 900n,
      flags: ["clamped"],
      inputTokens: 0,
      outputTokens: 0,
    });
    expect([blamed, learnt]).toEqual([["a1"], []]);
    expect(warnings).toEqual([{ event: "absurd_usage", fields: { request_id: "req_1", account_id: "a1" } }]);
  });

  test("by the picture is charged by its size and quality", async () => {
    const tariff = makeTariff({ image: "0.01", images: { "1024x1024": "0.03" } });
    const request = requestOf("images.generations", { n: 2, size: "1024x1024" });
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
    "is charged by what its upstream says that it drew where it was asked for %j, above the hold too",
    async (fields, nano) => {
      const images = { "1024x1024": "0.01", "1024x1024/high": "0.04" };
      const tariff = makeTariff({ images });
      const request = requestOf("images.generations", fields);
      const ending = { usage: null, images: 1, imageKind: "1024x1024/high" };
      const { row } = await booked(ending, { tariff, heldNano: 40_000_000n }, { request });
      expect(row).toMatchObject({ costNano: nano, chargedNano: nano, flags: ["estimated"] });
      const { row: short } = await booked(ending, { tariff, heldNano: 5_000_000n }, { request });
      expect(short).toMatchObject({ costNano: nano, chargedNano: nano, flags: ["estimated", "overrun"] });
    },
  );
});

describe("how long inputs are", () => {
  test("is learnt from what an upstream counted", async () => {
    const { learnt, blamed } = await booked();
    expect([learnt, blamed]).toEqual([[100], []]);
  });

  test("is not learnt from our own counts, from what was not served, or where the upstream kept a part", async () => {
    expect((await booked({ usage: null, countOutput: counts(1) })).learnt).toEqual([]);
    expect((await booked({ isServed: false })).learnt).toEqual([]);
    const request = requestOf("responses", { previous_response_id: "resp_1" });
    expect((await booked({}, {}, { request })).learnt).toEqual([]);
  });
});

describe("a request that nobody pays for", () => {
  function rowOf(
    ending: Partial<RequestEnding> = {},
    record: Partial<RequestRecord> = {},
    failures: FailureClass[] = [],
  ) {
    const { books, rows, settlements } = setUp();
    const of = recordOf({ charge: null, ...record }, failures);
    expect(settleRequest(books, of, { ...ENDING, ...ending })).toBeNull();
    expect(settlements).toEqual([]);
    return rows[0];
  }

  async function countedRowOf(ending: Partial<RequestEnding>, failures: FailureClass[] = []) {
    const { books, rows } = setUp();
    await settleRequest(books, recordOf({ charge: null }, failures), { ...ENDING, ...ending });
    return rows[0];
  }

  test("is a row at once, with what it would have cost", () => {
    expect(rowOf()).toMatchObject({
      costNano: COST_NANO,
      upstreamNano: LIST_NANO,
      chargedNano: 0n,
      payer: null,
      tariffId: null,
    });
  });

  test("has no cost where its model has no price, or nothing was served", () => {
    expect(rowOf({}, { model: { ...MODEL, tariff: null } })).toMatchObject({ costNano: 0n });
    const refused = { usage: null, isServed: false };
    expect(rowOf(refused)).toMatchObject({ costNano: 0n, upstreamNano: 0n, usageSource: "none" });
  });

  test("is counted here where its upstream does not tell, and has the cost of that", async () => {
    const row = await countedRowOf({ usage: null, countOutput: counts(7) });
    expect(row).toMatchObject({ usageSource: "estimated", flags: ["estimated"], outputTokens: 7 });
    expect(row?.inputTokens).toBeGreaterThan(0);
    expect(row?.costNano).toBeGreaterThan(0n);
    expect(row).toMatchObject({ chargedNano: 0n, payer: null });
  });

  test("is the estimated input, at once, where its client left and nothing was counted", () => {
    const left = { outcome: "client_gone", usage: null, countOutput: null } as const;
    expect(rowOf(left)).toMatchObject({ usageSource: "partial", inputTokens: 30, outputTokens: 0 });
  });

  test("is not counted while it goes on upstream, nor where counting was what it asked for", () => {
    expect(rowOf({ outcome: "pending", usage: null })).toMatchObject({ usageSource: "none", inputTokens: 0 });
    const endpoint = endpointOf("responses.input_tokens");
    expect(rowOf({ usage: null }, { endpoint })).toMatchObject({ usageSource: "none", inputTokens: 0 });
  });

  test("has the cost of failed attempts, by the estimate of its input", async () => {
    expect(rowOf({}, {}, ["reset"])).toMatchObject({ upstreamNano: LIST_NANO + 30n });
    const refused = { usage: null, isServed: false };
    expect(rowOf(refused, {}, ["reset"])).toMatchObject({ costNano: 0n, upstreamNano: 30n });
  });

  test.each([["paid for", CHARGE] as const, ["free", null] as const])(
    "has what a failed attempt told that it used (%s), unless that cannot be true",
    async (_, charge) => {
      const inVain = async (usage: TokenUsage | null, failure: FailureClass) => {
        const { books, rows, settlements } = setUp();
        const record = recordOf({ charge });
        noteWastedUsage(record.trace, usage);
        failAttempt(record.trace, upstreamFailure(failure, "broke"), 130);
        await settleRequest(books, record, { ...ENDING, outcome: "failed", usage: null, isServed: false });
        return rows[0]?.upstreamNano ?? settlements[0]?.row.upstreamNano;
      };
      const told = usageOf({ input_tokens: 100, output_tokens: 10 });
      expect(await inVain(told, "server")).toBe(LIST_NANO);
      expect(await inVain(told, "bad_answer")).toBe(LIST_NANO);
      expect(await inVain(null, "server")).toBe(0n);
      expect(await inVain(ABSURD, "server")).toBe(0n);
    },
  );

  test("has no cost by a count that cannot be true, and is marked", () => {
    const marked = { costNano: 0n, upstreamNano: 0n, flags: ["clamped"], inputTokens: 0 };
    expect(rowOf({ usage: ABSURD })).toMatchObject(marked);
    expect(rowOf({ usage: ABSURD }, { model: { ...MODEL, tariff: null } })).toMatchObject(marked);
  });
});

describe("what its limits reserved", () => {
  async function settledTo(ending: Partial<RequestEnding>, record: Partial<RequestRecord>) {
    const told: unknown[] = [];
    const lease: LimitLease = { settle: (...to) => void told.push(to), release() {}, cancel() {} };
    const place = { route: ROUTE, settle: (to: number) => void told.push(to), release() {}, abandon() {} };
    await settleRequest(setUp().books, recordOf({ lease, place, ...record }), { ...ENDING, ...ending });
    return told;
  }
  const counted = { usage: null, countOutput: counts(7) };
  const left = { outcome: "client_gone", usage: null, countOutput: null } as const;
  const streamed = requestOf("chat.completions", { stream: true });

  test.each([["paid for", CHARGE] as const, ["free", null] as const])(
    "is settled with what the row of a request that is %s says: told, counted, or neither",
    async (_, charge) => {
      expect(await settledTo({}, { charge })).toEqual([[110, Number(COST_NANO)], 110]);
      const [own, account] = await settledTo(counted, { charge });
      expect(own).toEqual([account, expect.any(Number)]);
      expect(account).toBeGreaterThan(7);
      expect(await settledTo({ isServed: false }, { charge })).toEqual([]);
    },
  );

  test("is settled before it is given back, where nothing has to be counted", () => {
    const told: unknown[] = [];
    const lease: LimitLease = { settle: (...to) => void told.push(to), release() {}, cancel() {} };
    void settleRequest(setUp().books, recordOf({ lease }), ENDING);
    expect(told).toEqual([[110, Number(COST_NANO)]]);
  });

  test("stays where a count cannot be true, but for the money that is charged all the same", async () => {
    expect(await settledTo({ usage: ABSURD }, { charge: null })).toEqual([[null, null]]);
    expect(await settledTo({ usage: ABSURD }, {})).toEqual([[null, Number(CHARGE.doubtNano)]]);
  });

  test("stays where an unpaid stream was left that nobody counted", async () => {
    expect(await settledTo(left, { charge: null, request: streamed })).toEqual([[null, null]]);
    expect(await settledTo(left, { charge: null })).toEqual([[30, 60], 30]);
    const [own] = await settledTo(left, { request: streamed });
    expect(own).toEqual([expect.any(Number), expect.any(Number)]);
  });
});

describe("whatever the end", () => {
  test("it is settled once, by the first", async () => {
    const { books, settlements } = setUp();
    const record = recordOf();
    await settleRequest(books, record, { ...ENDING, outcome: "client_gone" });
    expect(settleRequest(books, record, ENDING)).toBeNull();
    expect(settlements.map(({ row }) => row.outcome)).toEqual(["client_gone"]);
  });

  test("it leaves no row of someone without a key", () => {
    const { books, rows, settlements } = setUp();
    const record = recordOf({ caller: null, charge: null });
    expect(settleRequest(books, record, ENDING)).toBeNull();
    record.caller = callerWho("none");
    expect(settleRequest(books, record, ENDING)).toBeNull();
    expect([rows, settlements]).toEqual([[], []]);
  });
});
