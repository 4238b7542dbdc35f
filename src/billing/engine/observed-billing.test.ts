import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { usageRow } from "../../store/usage/usage-row.test-support.ts";
import {
  addFunds,
  buildHoldRequest,
  buildTestSettlement,
  makeBilling,
} from "./direct-billing.test-support.ts";
import { ObservedBilling } from "./observed-billing.ts";

eachEngine(({ open }) => {
  test("requests of this process are reported once, and recovered ones are not", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const reported: string[] = [];
    const billing = new ObservedBilling(makeBilling(db), ({ requestId }) => void reported.push(requestId));
    billing.push(usageRow({ requestId: "unpaid" }));
    await billing.hold(buildHoldRequest("paid"));
    await billing.settle(buildTestSettlement("paid", 30n));
    await billing.hold(buildHoldRequest("recovered"));
    await billing.book(buildTestSettlement("recovered", 30n));
    await billing.flush();
    expect(reported).toEqual(["unpaid", "paid"]);
    await billing.stop();
  });
});
