/** How long a hold waits for PostgreSQL: longer for a slow database than for one that is unavailable. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Postgres, startPostgres } from "../../../test/support/postgres.ts";
import { type Db, openDb, transaction } from "../../store/engine/db.ts";
import { migrate } from "../../store/engine/migrate.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { addFunds, asking, LIMITS, makeTill } from "./direct-billing.test-support.ts";
import { BillingUnavailable } from "./direct-billing.ts";
import { isTooLong } from "./store-timeouts.ts";

let postgres: Postgres;
let db: Db;

beforeAll(async () => {
  postgres = await startPostgres();
  db = await openDb(postgres.url);
  await migrate(db);
  await addFunds(db, "u1", 1_000n);
}, 300_000);

afterAll(async () => {
  await db.close();
  await postgres.stop();
});

test("a store that is silent is taken for away, long before the patience with a slow one ends", async () => {
  const till = makeTill(db, { limits: { ...LIMITS, holdPatienceMs: 600_000, silenceMs: 60 } });
  await transaction(db, async (tx) => {
    await tx.sql`SELECT user_id FROM wallet WHERE user_id = 'u1' FOR UPDATE`;
    await expect(till.hold(asking("r1"))).rejects.toBeInstanceOf(BillingUnavailable);
  });
  await till.flush();
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n, heldNano: 0n });
  await till.stop();
});

test("a store whose commits take a fifth of a second holds money for everybody who asks", async () => {
  const slow: Db = {
    ...db,
    begin: (mode, work) =>
      db.begin(mode, async (tx) => {
        const result = await work(tx);
        await tx.sql`SELECT pg_sleep(0.2)`;
        return result;
      }),
  };
  const till = makeTill(slow);
  // Each batch is submitted while the previous one is in flight.
  const asked: Promise<unknown>[] = [];
  for (let i = 0; i < 3; i++) {
    asked.push(Promise.resolve(till.hold(asking(`slow${i}`, { wantedNano: 10n }))));
    await Bun.sleep(20);
  }
  for (const result of await Promise.all(asked)) expect(result).toMatchObject({ kind: "held" });
  await till.stop();
});

test.each([
  [
    "one transaction after the other ends",
    { sinceMs: 0, nowMs: 1_900, endedMs: 1_500, isThere: false },
    false,
  ],
  [
    "none has ended since it was asked for",
    { sinceMs: 0, nowMs: 500, endedMs: -9_000, isThere: false },
    true,
  ],
  ["it is younger than that", { sinceMs: 100, nowMs: 500, endedMs: -9_000, isThere: false }, false],
  [
    "the store is only locked by somebody else",
    { sinceMs: 0, nowMs: 1_900, endedMs: 0, isThere: true },
    false,
  ],
  ["it has waited as long as any may", { sinceMs: 0, nowMs: 2_000, endedMs: 1_999, isThere: true }, true],
])("a hold has waited when %s", (_when, { sinceMs, ...signs }, isOver) => {
  expect(isTooLong({ holdPatienceMs: 2_000, silenceMs: 500 }, sinceMs, signs)).toBe(isOver);
});
