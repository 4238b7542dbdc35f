import { expect, test } from "bun:test";
import {
  BillingUnavailable,
  type HoldRequest,
  type HoldResult,
} from "../../billing/engine/direct-billing.ts";
import { INPUT_COUNTER } from "../metering/input-counter.test-support.ts";
import { createInputEstimates } from "../metering/input-estimate.ts";
import { lookUpEndpoint, MODEL, makeCaller, makeRequest } from "./charging.test-support.ts";
import { HoldRejection } from "./hold-error.ts";
import { replaceMoney } from "./replace-money.ts";

/** A request that moves to a step whose group charges so. */
function move(charge: "balance" | "none", replace: () => Promise<HoldResult | null>) {
  const calls: string[] = [];
  const billingEngine = {
    hold: () => Promise.reject(new Error("a request that has a hold takes no second one")),
    async replaceHold({ requestId }: HoldRequest): Promise<HoldResult> {
      calls.push(`replace ${requestId}`);
      return (await replace()) ?? { kind: "short", availableNano: 0n, resetsAtMs: null };
    },
    async releaseHold(requestId: string): Promise<void> {
      calls.push(`release ${requestId}`);
      await replace();
    },
  };
  const chargeable = {
    call: { requestId: "req_1" },
    caller: makeCaller(charge),
    endpoint: lookUpEndpoint("chat.completions"),
    request: makeRequest("chat.completions"),
    model: MODEL,
    windowCap: null,
    windowSearches: null,
  };
  const services = { billingEngine, estimates: createInputEstimates(), inputCounter: INPUT_COUNTER };
  const charged = replaceMoney(services, chargeable, null).catch((error: unknown) => error);
  return charged.then((result) => ({ calls, result }));
}

test("a paid step replaces the hold", async () => {
  const { calls, result } = await move("balance", async () => ({
    kind: "held",
    amountNano: 1_000_000n,
    subscriptionId: null,
  }));
  expect([calls, result]).toEqual([
    ["replace req_1"],
    expect.objectContaining({ payer: "balance", heldNano: 1_000_000n }),
  ]);
});

test("an unpaid step ends the hold", async () => {
  const { calls, result } = await move("none", async () => null);
  expect([calls, result]).toEqual([["release req_1"], null]);
});

test("a step that the payer cannot afford is rejected with the reason", async () => {
  const { result } = await move("balance", async () => null);
  expect(result).toBeInstanceOf(HoldRejection);
  expect(result).toMatchObject({ reason: "insufficient_funds" });
});

test.each(["balance", "none"] as const)(
  "while the database is away, a step whose payer is %s is not sent",
  async (charge) => {
    const { result } = await move(charge, () => Promise.reject(new BillingUnavailable("away")));
    // Neither a condition of a later step nor a reason to skip this one, so the request ends.
    expect(result).toMatchObject({ status: 503, code: "store_unavailable", limit: null });
    expect(result).not.toBeInstanceOf(HoldRejection);
  },
);
