import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { transaction } from "../engine/db.ts";
import { BY_HAND, refundedNano } from "./entries.ts";
import { insertEntries } from "./ledger.ts";

eachEngine(({ open }) => {
  test("the refunds of a request are found by index, without reading the charges", async () => {
    const db = await open();
    const entry = (kind: "charge" | "refund", i: number) => ({
      id: `${kind}:r${i}`,
      atMs: i,
      kind,
      debit: "a",
      credit: "b",
      amountNano: 2n,
      userId: "u1",
      subscriptionId: null,
      requestId: `r${i}`,
      actor: "test",
      reason: null,
    });
    const charges = Array.from({ length: 2_000 }, (_, i) => entry("charge", i));
    await transaction(db, (tx) => insertEntries(tx, [...charges, entry("refund", 7), entry("refund", 8)]));
    await db.sql.script("ANALYZE");
    expect(await refundedNano(db, "r7")).toBe(2n);
    expect(await refundedNano(db, "r9")).toBe(0n);
    const explain = db.engine === "postgres" ? "EXPLAIN" : "EXPLAIN QUERY PLAN";
    const plan = await db.sql.text(
      `${explain} SELECT SUM(amount_nano) FROM entry WHERE ${BY_HAND} AND kind = 'refund' AND request_id = 'r7'`,
      [],
    );
    expect(plan.map((line) => Object.values(line).join(" ")).join("\n")).toContain("entry_by_hand");
  });
});
