/** What the comparison of the three ledgers reports about requests without a row. */

import { expect, test } from "bun:test";
import type { LedgerEntry } from "../../simulator/ledger.ts";
import { usageRow } from "../../src/store/usage/usage-row.test-support.ts";
import type { UsageRow } from "../../src/store/usage/usage-row.ts";
import { createClientRecord } from "./client.ts";
import { MARKER_HEADERS } from "./killable-gateway.ts";
import { checkRecovered, wasTimed } from "./ledger-checks.ts";
import { buildPaidSetup } from "./paid-setup.ts";
import { buildOracle } from "./price-oracle.ts";
import { reconcile } from "./reconcile.ts";
import { StepOracle } from "./step-oracle.ts";

test("a response needs a row; a rejection as an event of a stream does not, if it did not reach the upstream", () => {
  const setup = buildPaidSetup("balance");
  const stream = { url: "", key: "k", family: "chat", model: "short", stream: true, prompt: "" } as const;
  const whole = { status: 200, isWhole: true };
  const served = { ...createClientRecord(stream), ...whole, requestId: "req_served" };
  const error = { ...whole, errorCode: "store_unavailable" };
  const rejected = { ...createClientRecord(stream), ...error, requestId: "req_rejected" };
  const broken = { ...createClientRecord(stream), ...error, requestId: "req_broken" };
  const entry: Partial<LedgerEntry> = { id: "1", headers: { [MARKER_HEADERS.openai]: broken.marker } };
  const { terminalWithoutRow } = reconcile({
    asked: [served, rejected, broken],
    rows: [],
    truth: [entry as LedgerEntry],
    prices: buildOracle(setup),
    steps: new StepOracle(setup),
    groupNames: new Map(),
    unpaidKeys: new Set(["k"]),
    isTimed: false,
  });
  expect(terminalWithoutRow).toEqual(["req_served short", "req_broken short"]);
});

test("a recovered row is compared with what was produced, also if the machine was too busy for timing", () => {
  const setup = buildPaidSetup("balance");
  const stream = { url: "", key: "k", family: "chat", model: "short", stream: true, prompt: "" } as const;
  const client = { ...createClientRecord(stream), status: 200, requestId: "req_recovered" };
  const entry = {
    id: "1",
    headers: { [MARKER_HEADERS.openai]: client.marker },
    outputTokens: 100,
  } as Partial<LedgerEntry> as LedgerEntry;
  const row = usageRow({ requestId: "req_recovered", outputTokens: 130, flags: ["recovered"] });
  const one = reconcile({
    asked: [client],
    rows: [row],
    truth: [entry],
    prices: buildOracle(setup),
    steps: new StepOracle(setup),
    groupNames: new Map(),
    unpaidKeys: new Set(),
    isTimed: false,
  });
  expect(one.recoveredOutput).toEqual({ charged: 130, produced: 100, above: 30 });
  const findings = checkRecovered([one], { isTimed: false });
  expect(wasTimed(findings)).toBe(false);
  expect(findings.filter(({ isRight }) => !isRight).map(({ got }) => got)).toEqual([30]);
  expect(wasTimed(checkRecovered([one]))).toBe(true);
});

test("a background response whose client got its id is charged what was produced, and never by estimate", () => {
  const setup = buildPaidSetup("balance");
  const request = {
    url: "",
    key: "k",
    family: "responses",
    model: "later",
    stream: false,
    prompt: "",
  } as const;
  const client = {
    ...createClientRecord(request),
    isInBackground: true,
    status: 200,
    requestId: "req_begun",
  };
  const entry = {
    id: "1",
    headers: { [MARKER_HEADERS.openai]: client.marker },
    inputTokens: 4,
    outputTokens: 67,
    cachedTokens: 0,
  } as Partial<LedgerEntry> as LedgerEntry;
  const findWrong = (rows: readonly UsageRow[]) =>
    reconcile({
      asked: [client],
      rows,
      truth: [entry],
      prices: buildOracle(setup),
      steps: new StepOracle(setup),
      groupNames: new Map(),
      unpaidKeys: new Set(),
      isTimed: false,
    }).wrongBackground;
  const whole = usageRow({
    requestId: "req_begun",
    inputTokens: 4,
    outputTokens: 67,
    usageSource: "upstream",
  });
  expect(findWrong([whole])).toEqual([]);
  expect(findWrong([])).toEqual(["req_begun has no row, and 67 produced"]);
  expect(findWrong([{ ...whole, outcome: "upstream_cut", outputTokens: 0, usageSource: "partial" }])).toEqual(
    ["req_begun upstream_cut, 0 tokens by partial, and 67 produced"],
  );
});

test("a charge that differs from the configured price by a nano-dollar is reported", () => {
  const setup = buildPaidSetup("balance");
  // 40 × 2,500 + 20 × 10,000, times 1.3
  const right = 390_000n;
  const findWrong = (costNano: bigint, chargedNano: bigint) => {
    const used = { inputTokens: 40, cachedTokens: 0, outputTokens: 20, usageSource: "upstream" } as const;
    const paid = { payer: "balance", groupId: "group_1", publicModel: "fast" } as const;
    const row = usageRow({ requestId: "req_1", ...used, ...paid, costNano, chargedNano });
    return reconcile({
      asked: [],
      rows: [row],
      truth: [],
      prices: buildOracle(setup),
      steps: new StepOracle(setup),
      groupNames: new Map([["group_1", "default"]]),
      unpaidKeys: new Set(),
      isTimed: false,
    }).wrongCost;
  };
  expect(findWrong(right, right)).toEqual([]);
  expect(findWrong(right + 1n, right + 1n)).toEqual(["req_1 charged 390001 of 390001, not 390000"]);
  expect(findWrong(right, right - 1n)).toEqual(["req_1 charged 389999 of 390000, not 390000"]);
});
