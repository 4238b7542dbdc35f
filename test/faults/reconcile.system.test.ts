/** What the comparison of the three ledgers reports about requests without a row. */

import { expect, test } from "bun:test";
import type { LedgerEntry } from "../../simulator/ledger.ts";
import { createClientRecord } from "./client.ts";
import { MARKER_HEADERS } from "./killable-gateway.ts";
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
