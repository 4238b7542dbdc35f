import { expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { parseUsd } from "../../money/nano.ts";
import { userRecord } from "../../records/records.test-support.ts";
import { openDigester } from "../../secrets/api-key.ts";
import type { Db } from "../../store/engine/db.ts";
import { putUser } from "../../store/identity/users.ts";
import { findEntry } from "../../store/money/ledger.ts";
import { deletePlan, putPlan } from "../../store/money/plans.ts";
import { type BatchCursor, listRedeemBatches, listRedeemCodes } from "../../store/money/redeem-codes.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { type BatchOrder, type CodeContext, createCodes, redeem, voidBatch, voidCode } from "./redeem.ts";
import { MoneyOperationRejected } from "./rejection.ts";

const NOW_MS = 1_794_000_000_000;
const FIVE = { kind: "money", amountNano: parseUsd("5") } as const;
const BATCH = { name: "spring", count: 3, value: FIVE, expiresAtMs: null, actor: "cli:ada" };
const DAY_MS = 86_400_000;

async function deskOn(db: Db): Promise<CodeContext> {
  for (const id of ["u1", "u2"]) {
    await putUser(db, userRecord(id));
  }
  const digest = openDigester(new Uint8Array(32).fill(7));
  return { db, digest, randomBytes, clock: { nowMs: () => NOW_MS }, newId: (prefix) => `${prefix}_1` };
}

const at = (desk: CodeContext, ms: number): CodeContext => ({ ...desk, clock: { nowMs: () => ms } });
const first = (codes: string[]) => codes[0] ?? "";
const outcome = (call: Promise<unknown>) =>
  call.then(
    () => "done",
    (error: unknown) => (error instanceof MoneyOperationRejected ? error.code : error),
  );

eachEngine(({ open }) => {
  test("a code adds its amount once, as an entry from the promo book", async () => {
    const desk = await deskOn(await open());
    const code = first(await createCodes(desk, BATCH));
    const typed = code.toLowerCase().replaceAll("-", " ");
    const redeemed = await redeem(desk, { userId: "u1", code: typed, actor: "user:u1" });
    if (redeemed.kind !== "money") throw new Error("it is worth money");
    const { entry, wallet } = redeemed;
    expect(wallet.balanceNano).toBe(parseUsd("5"));
    expect(entry).toMatchObject({ kind: "redeem", debit: "promo", credit: "user:u1", actor: "user:u1" });
    expect(entry.id).toMatch(/^redeem:[A-Za-z0-9_-]{43}$/);
    expect(await findEntry(desk.db, entry.id)).toEqual(entry);
    expect(await outcome(redeem(desk, { userId: "u1", code, actor: "user:u1" }))).toBe("code_used");
    expect(await outcome(redeem(desk, { userId: "u2", code, actor: "user:u2" }))).toBe("code_used");
    expect((await readWallet(desk.db, "u1")).balanceNano).toBe(parseUsd("5"));
  });

  test("of many concurrent redemptions of one code, one succeeds", async () => {
    const desk = await deskOn(await open());
    const code = first(await createCodes(desk, BATCH));
    const outcomes = await Promise.all(
      Array.from({ length: 10 }, (_, i) => {
        const userId = i % 2 === 0 ? "u1" : "u2";
        return outcome(redeem(desk, { userId, code, actor: userId }));
      }),
    );
    expect(outcomes.toSorted()).toEqual([...Array(9).fill("code_used"), "done"]);
    const [one, two] = [await readWallet(desk.db, "u1"), await readWallet(desk.db, "u2")];
    expect(one.balanceNano + two.balanceNano).toBe(parseUsd("5"));
  });

  test("mistyped, unknown, expired and voided codes have different errors and book nothing", async () => {
    const desk = await deskOn(await open());
    const expiresAtMs = NOW_MS + 10;
    const expiring = first(await createCodes(desk, { ...BATCH, expiresAtMs }));
    const voided = first(await createCodes(desk, { ...BATCH, name: "other" }));
    await voidBatch(desk, "other");
    const elsewhere = first(
      await createCodes({ ...desk, digest: openDigester(new Uint8Array(32)) }, { ...BATCH, name: "x" }),
    );
    const tries = { userId: "u1", actor: "u1" };
    expect(await outcome(redeem(desk, { ...tries, code: `${expiring}0` }))).toBe("code_mistyped");
    expect(await outcome(redeem(desk, { ...tries, code: elsewhere }))).toBe("code_unknown");
    expect(await outcome(redeem(desk, { ...tries, code: voided }))).toBe("code_voided");
    expect(await outcome(redeem(at(desk, expiresAtMs), { ...tries, code: expiring }))).toBe("code_expired");
    expect(await outcome(redeem(desk, { userId: "nobody", actor: "x", code: expiring }))).toBe(
      "unknown_user",
    );
    expect((await readWallet(desk.db, "u1")).balanceNano).toBe(0n);
    expect(await outcome(redeem(at(desk, expiresAtMs - 1), { ...tries, code: expiring }))).toBe("done");
  });

  test("the database stores digests and first groups of codes, never the codes", async () => {
    const desk = await deskOn(await open());
    const codes = await createCodes(desk, BATCH);
    const kept = JSON.stringify(await desk.db.sql`SELECT * FROM redeem_code`);
    for (const code of codes) {
      expect(kept).not.toContain(code.slice(5));
      expect(kept).not.toContain(code.slice(5).replaceAll("-", ""));
      expect(kept).toContain(`"${code.slice(0, 4)}"`);
    }
  });

  test("batches count redeemed, voided, expired and unused codes", async () => {
    const desk = await deskOn(await open());
    const [one = "", two = ""] = await createCodes(desk, BATCH);
    await createCodes(at(desk, NOW_MS + 1), { ...BATCH, name: "later", expiresAtMs: NOW_MS + 50 });
    await redeem(desk, { userId: "u1", code: one, actor: "u1" });
    const batches = async (nowMs: number) =>
      (await listRedeemBatches(desk.db, nowMs, { after: null, limit: 10 })).batches;
    const { count: codes, actor: createdBy, ...same } = { ...BATCH, voided: 0 };
    expect(await batches(NOW_MS + 2)).toEqual([
      {
        ...same,
        name: "later",
        codes,
        createdBy,
        createdAtMs: NOW_MS + 1,
        expiresAtMs: NOW_MS + 50,
        redeemed: 0,
        open: 3,
      },
      { ...same, codes, createdBy, createdAtMs: NOW_MS, redeemed: 1, open: 2 },
    ]);
    expect((await batches(NOW_MS + 50))[0]).toMatchObject({ name: "later", open: 0 });
    expect(await voidBatch(desk, "spring")).toBe(2);
    expect(await voidBatch(desk, "spring")).toBe(0);
    expect((await batches(NOW_MS + 2))[1]).toMatchObject({ redeemed: 1, voided: 2, open: 0 });
    expect(await outcome(redeem(desk, { userId: "u1", code: two, actor: "u1" }))).toBe("code_voided");
    expect(await outcome(voidBatch(desk, "nope"))).toBe("batch_unknown");
  });

  test("an invalid batch is rejected", async () => {
    const desk = await deskOn(await open());
    const codes = await createCodes(desk, { ...BATCH, count: 500 });
    expect(new Set(codes).size).toBe(500);
    const made = (change: Partial<BatchOrder>) => outcome(createCodes(desk, { ...BATCH, ...change }));
    expect(await made({})).toBe("batch_exists");
    expect(await made({ name: "a", count: 0 })).toBe("bad_batch");
    expect(await made({ name: "a", count: 10_001 })).toBe("bad_batch");
    expect(await made({ name: "a", expiresAtMs: NOW_MS })).toBe("bad_batch");
    expect(await made({ name: "a", value: { kind: "money", amountNano: 0n } })).toBe("bad_amount");
    expect(await made({ name: "a", value: { kind: "plan", plan: "nope", days: 30 } })).toBe("bad_batch");
    expect(await made({ name: "a", value: { kind: "plan", plan: "pro", days: 0 } })).toBe("bad_batch");
  });

  test("a code can grant a plan, and a second code continues where the first ends", async () => {
    const desk = await deskOn(await open());
    let made = 0;
    const counting = { ...desk, newId: (prefix: string) => `${prefix}_${++made}` };
    await putPlan(desk.db, {
      id: "p1",
      name: "pro",
      timeZone: "UTC",
      windows: [{ per: "day", usd: "5", counted: "calendar" }],
      createdAtMs: 1,
    });
    const value = { kind: "plan", plan: "pro", days: 30 } as const;
    const [one = "", two = ""] = await createCodes(counting, { ...BATCH, value });
    const redeemFor = async (code: string) => {
      const redeemed = await redeem(counting, { userId: "u1", code, actor: "user:u1" });
      if (redeemed.kind !== "plan") throw new Error("it is worth a plan");
      return redeemed;
    };
    const first = await redeemFor(one);
    expect(first).toMatchObject({ plan: "pro", wallet: { balanceNano: 0n } });
    expect(first.subscription).toMatchObject({ startsAtMs: NOW_MS, endsAtMs: NOW_MS + 30 * DAY_MS });
    const second = await redeemFor(two);
    expect(second.subscription).toMatchObject({
      startsAtMs: NOW_MS + 30 * DAY_MS,
      endsAtMs: NOW_MS + 60 * DAY_MS,
    });
    expect(await outcome(redeem(counting, { userId: "u2", code: one, actor: "user:u2" }))).toBe("code_used");
    expect(deletePlan(desk.db, "p1")).rejects.toThrow("still has subscription");
  });

  test("one code of a batch can be voided, and codes are listed page by page", async () => {
    const desk = await deskOn(await open());
    const codes = await createCodes(desk, BATCH);
    const page = (after: string | null) => listRedeemCodes(desk.db, "spring", { after, limit: 2 });
    const top = await page(null);
    const rest = await page(top.next);
    expect([...top.codes, ...rest.codes].map(({ hint }) => hint).toSorted()).toEqual(
      codes.map((code) => code.slice(0, 4)).toSorted(),
    );
    expect(rest.next).toBeNull();
    const digest = top.codes[0]?.digest ?? "";
    expect(await voidCode(desk, "spring", digest)).toBe(true);
    expect(await voidCode(desk, "spring", digest)).toBe(false);
    expect(await voidBatch(desk, "spring")).toBe(2);
  });

  test("batches are listed newest first, page by page", async () => {
    const desk = await deskOn(await open());
    for (const [i, name] of ["a", "b", "c"].entries())
      await createCodes(at(desk, NOW_MS + i), { ...BATCH, name });
    const names: string[] = [];
    let after: BatchCursor | null = null;
    do {
      const page = await listRedeemBatches(desk.db, NOW_MS, { after, limit: 2 });
      names.push(...page.batches.map(({ name }) => name));
      after = page.next;
    } while (after !== null);
    expect(names).toEqual(["c", "b", "a"]);
  });
});
