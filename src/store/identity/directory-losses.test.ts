import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { NO_LIMITS } from "../../records/limits.ts";
import type { Db } from "../engine/db.ts";
import { findDirectoryLosses, listLostPeople } from "./directory-losses.ts";
import { insertIdentity } from "./external-identities.ts";
import { putUser } from "./users.ts";

const NOW_MS = Date.parse("2026-09-01T12:00:00Z");
const BOUNDS = { people: 10, percent: 20, overMs: 600_000, reportedMs: 86_400_000 };

let created = 0;

/** People of a provider, by when they were suspended; null: not. */
async function addPeople(db: Db, provider: string, suspended: readonly (number | null)[]): Promise<void> {
  for (const suspendedAtMs of suspended) {
    const id = `u${++created}`;
    const user = {
      id,
      email: `${id}@example.com`,
      role: "user",
      status: "active",
      passwordHash: null,
    } as const;
    await putUser(db, { ...user, limits: NO_LIMITS, groups: [], createdAtMs: 0 });
    const times = { createdAtMs: 0, signedInAtMs: 0, suspendedAtMs: null };
    await insertIdentity(db, { userId: id, issuer: "i", subject: id, provider, ...times }, "user");
    await db.sql`UPDATE external_identity SET suspended_at_ms = ${suspendedAtMs} WHERE user_id = ${id}`;
  }
}

const times = (count: number, atMs: number | null, stepMs = 0) =>
  Array.from({ length: count }, (_, i) => (atMs === null ? null : atMs + i * stepMs));

eachEngine((engine) => {
  test("a loss is above ten people, above 20 %, and within ten minutes", async () => {
    const db = await engine.open();
    await addPeople(db, "few", [...times(10, NOW_MS - 1_000), ...times(2, null)]);
    await addPeople(db, "share", [...times(12, NOW_MS - 1_000), ...times(48, null)]);
    await addPeople(db, "slow", [...times(40, NOW_MS - 20_000_000, 61_000), ...times(10, null)]);
    expect(await findDirectoryLosses(db, NOW_MS, BOUNDS)).toEqual([]);
    await addPeople(db, "many", [...times(13, NOW_MS - 600_000, 1_000), ...times(47, null)]);
    const losses = await findDirectoryLosses(db, NOW_MS, BOUNDS);
    expect(losses).toEqual([
      { provider: "many", suspended: 13, people: 60, fromMs: NOW_MS - 600_000, toMs: NOW_MS - 588_000 },
    ]);
    expect(await listLostPeople(db, losses[0] ?? { provider: "", fromMs: 0, toMs: 0 })).toHaveLength(13);
  });

  test("people who lost access before are neither in the loss nor in the share", async () => {
    const db = await engine.open();
    const longAgo = NOW_MS - BOUNDS.reportedMs - 1;
    const before = NOW_MS - BOUNDS.overMs - 2_000;
    await addPeople(db, "corp", [...times(50, longAgo), ...times(5, before), ...times(11, NOW_MS - 1_000)]);
    await addPeople(db, "corp", times(40, null));
    expect(await findDirectoryLosses(db, NOW_MS, BOUNDS)).toMatchObject([{ suspended: 11, people: 51 }]);
    // A day later it is no longer reported.
    expect(await findDirectoryLosses(db, NOW_MS + BOUNDS.reportedMs, BOUNDS)).toEqual([]);
  });
});
