import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { parseUsd } from "../../money/nano.ts";
import { userRecord } from "../../records/records.test-support.ts";
import type { UserRecord } from "../../records/user.ts";
import type { Db } from "../engine/db.ts";
import { putPlan } from "../money/plans.ts";
import { countActive, listSubscriptionPage, type SubscriptionCursor } from "../money/subscription-list.ts";
import { readSubscriptionStatuses } from "../money/subscription-status.ts";
import { putSubscription } from "../money/subscriptions.ts";
import { changeWallet, lockWallet } from "../money/wallets.ts";
import { lookUpNames } from "../reports/names.ts";
import { listUserPage } from "./user-list.ts";
import { putUser } from "./users.ts";

const NOW_MS = Date.parse("2026-09-01T12:00:00Z");

async function putUsers(db: Db, emails: readonly string[], change: Partial<UserRecord> = {}) {
  for (const email of emails) {
    await putUser(db, userRecord(`user_${email}`, { email, ...change }));
  }
}

eachEngine(({ open }) => {
  test("users are listed by e-mail address, page by page, with their balance and usage", async () => {
    const db = await open();
    await putUsers(db, ["b@x.io", "a@x.io", "C@x.io"]);
    await putUsers(db, ["z@x.io"], { role: "admin", status: "disabled" });
    await db.begin("write", async (tx) => {
      await lockWallet(tx, "user_a@x.io");
      await changeWallet(tx, "user_a@x.io", parseUsd("5"));
    });
    const page = { limit: 2, usedSinceMs: 0 };
    const top = await listUserPage(db, {}, { ...page, after: null });
    expect(top.users.map(({ email }) => email)).toEqual(["a@x.io", "b@x.io"]);
    expect(top.users[0]).toMatchObject({ balanceNano: parseUsd("5"), keys: 0, signedInAtMs: null });
    const rest = await listUserPage(db, {}, { ...page, after: top.next });
    expect(rest.users.map(({ email }) => email)).toEqual(["C@x.io", "z@x.io"]);
    expect(rest.next).toBeNull();
    const found = async (filter: Parameters<typeof listUserPage>[1]) =>
      (await listUserPage(db, filter, { ...page, after: null })).users.map(({ email }) => email);
    expect(await found({ search: "c@X" })).toEqual(["C@x.io"]);
    expect(await found({ search: "%" })).toEqual([]);
    expect(await found({ role: "admin" })).toEqual(["z@x.io"]);
    expect(await found({ status: "disabled" })).toEqual(["z@x.io"]);
    expect(await found({ id: "user_b@x.io" })).toEqual(["b@x.io"]);
    expect(await lookUpNames(db, "user", ["user_a@x.io", "gone"])).toEqual(
      new Map([["user_a@x.io", "a@x.io"]]),
    );
  });

  test("subscriptions are listed newest first, page by page, and found by user and plan", async () => {
    const db = await open();
    await putUsers(db, ["a@x.io", "b@x.io"]);
    for (const id of ["p1", "p2"]) {
      const windows = [{ per: "day", usd: "5", counted: "calendar" } as const];
      await putPlan(db, { id, name: `plan ${id}`, timeZone: "UTC", windows, createdAtMs: 1 });
    }
    for (const [i, userId] of ["user_a@x.io", "user_b@x.io", "user_a@x.io"].entries()) {
      await putSubscription(db, {
        id: `sub_${i}`,
        userId,
        planId: i === 2 ? "p2" : "p1",
        startsAtMs: NOW_MS - 1_000,
        endsAtMs: null,
        renews: "none",
        priority: 1,
        status: i === 0 ? "cancelled" : "active",
        createdAtMs: NOW_MS + i,
      });
    }
    const ids: string[] = [];
    let after: SubscriptionCursor | null = null;
    do {
      const page = await listSubscriptionPage(db, {}, { after, limit: 2 });
      ids.push(...page.found.map(({ id }) => id));
      after = page.next;
    } while (after !== null);
    expect(ids).toEqual(["sub_2", "sub_1", "sub_0"]);
    const found = async (filter: Parameters<typeof listSubscriptionPage>[1]) =>
      (await listSubscriptionPage(db, filter, { after: null, limit: 10 })).found.map(({ id }) => id);
    expect(await found({ search: "B@x" })).toEqual(["sub_1"]);
    expect(await found({ userId: "user_a@x.io" })).toEqual(["sub_2", "sub_0"]);
    expect(await found({ planId: "p2" })).toEqual(["sub_2"]);
    expect(await countActive(db)).toEqual(
      new Map([
        ["p1", 1],
        ["p2", 1],
      ]),
    );
    const statuses = await readSubscriptionStatuses(db, ["sub_0", "sub_2"], NOW_MS);
    expect(statuses.map(({ id, state }) => [id, state]).toSorted()).toEqual([
      ["sub_0", "cancelled"],
      ["sub_2", "running"],
    ]);
  });
});
