import { expect, test } from "bun:test";
import { eachEngine, startPostgres } from "../../../test/support/postgres.ts";
import { DEFAULT_QUEUE, NO_BILLING } from "../../records/group.ts";
import { NO_LIMITS, NO_RATE_LIMITS } from "../../records/limits.ts";
import { listAccessTokens } from "../identity/access-tokens.ts";
import { listUsers } from "../identity/users.ts";
import { MIGRATIONS, type Migration } from "../migrations/index.ts";
import { registerProcess } from "../money/processes.ts";
import { readKeyCeiling, readKeys } from "../policy/keys.ts";
import { readPolicy } from "../policy/policy.ts";
import { listUsage, type UsageFilter } from "../reports/usage-list.ts";
import { findRoute, findUsage, type UsageRow } from "../usage/usage.ts";
import { insertUsage, usageRow } from "../usage/usage-row.test-support.ts";
import { toValues, USAGE_COLUMNS } from "../usage/usage-values.ts";
import { type Db, openDb, transaction } from "./db.ts";
import { insertRows } from "./insert-rows.ts";
import { changesAhead, findWaitingMigrations, finishMigrations, migrate, ProgramTooOld } from "./migrate.ts";
import { readRevisions } from "./revisions.ts";

const newest = MIGRATIONS.at(-1)?.version ?? 0;
const later: Migration = {
  version: newest + 1,
  name: "later",
  sql: "CREATE TABLE later (a BIGINT); INSERT INTO later (a) VALUES (7);",
};

/** Removes the table of `later`, which programs that know `later` no longer use. */
const contract: Migration = {
  version: newest + 2,
  name: "contract",
  sql: "DROP TABLE later;",
  phase: { kind: "contract", oldestReader: newest + 1 },
};

const processRecord = (id: string) => ({
  id,
  host: "h",
  pid: 1,
  startedAtMs: 1,
  beatAtMs: 1,
  folderId: null,
  startTicks: null,
});

async function applyAll(db: Db, migrations: readonly Migration[]): Promise<void> {
  await migrate(db, migrations);
  await finishMigrations(db, migrations);
}

/** The columns of a usage row when it was stored in a single table. */
const LATER_COLUMNS = ["request_count", "cache_write_1h_tokens", "web_searches"];
const COLUMNS_BEFORE = USAGE_COLUMNS.filter((column) => !LATER_COLUMNS.includes(column));

async function insertBefore(db: Db, rows: readonly UsageRow[]): Promise<void> {
  await transaction(db, (tx) => insertRowsBefore(tx, rows));
}

async function insertRowsBefore(tx: Db, rows: readonly UsageRow[]): Promise<void> {
  const lists = rows.map((row) =>
    toValues(row).filter((_, at) => COLUMNS_BEFORE.includes(USAGE_COLUMNS[at] ?? "")),
  );
  await insertRows(tx, "usage", COLUMNS_BEFORE, lists);
}

test("migrations are numbered from one without a gap", () => {
  expect(MIGRATIONS.map(({ version }) => version)).toEqual(MIGRATIONS.map((_, index) => index + 1));
});

eachEngine(({ emptyUrl, open }) => {
  test("an empty database is migrated to the newest version, and a second run changes nothing", async () => {
    const db = await openDb(await emptyUrl());
    expect(await migrate(db)).toEqual({ from: 0, to: newest });
    expect(await migrate(db)).toEqual({ from: newest, to: newest });
    expect(await readRevisions(db)).toEqual({ policy: 1, keys: 1 });
    await db.close();
  });

  test("processes that start together all succeed, and one of them migrates", async () => {
    const url = await emptyUrl();
    const connections = await Promise.all(Array.from({ length: 4 }, () => openDb(url)));
    const results = await Promise.all(connections.map((db) => migrate(db)));
    expect(results.map(({ from }) => from).sort()).toEqual([0, newest, newest, newest]);
    for (const db of connections) await db.close();
  });

  test("rows from before limits existed have no limits, the default queue, and no trace", async () => {
    const db = await openDb(await emptyUrl());
    await migrate(db, MIGRATIONS.slice(0, 1));
    await db.sql.script(`
      INSERT INTO grp (id, name, interfaces, billing, on_disconnect, created_at_ms)
      VALUES ('g1', 'g1', '[]', '${JSON.stringify(NO_BILLING)}', 'cancel', 1);
      INSERT INTO account (id, name, kind, base_url, interfaces, private_network, priority, weight, models, enabled,
        created_at_ms)
      VALUES ('a1', 'a1', 'simulator', '', '[]', 0, 1, 1, '{}', 1, 1);
      INSERT INTO app_user (id, email, email_folded, role, created_at_ms) VALUES ('u1', 'a@b.c', 'a@b.c', 'user', 1);
      INSERT INTO api_key (id, name, user_id, group_id, digest, public_id, last4, status, created_at_ms, revision)
      VALUES ('k1', 'k1', 'u1', 'g1', 'd1', 'p1', '', 'active', 1, 1);
      INSERT INTO usage (request_id, at_ms, key_id, group_id, interface, endpoint, public_model, stream, status,
        outcome, input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens, images,
        usage_source, attempts, duration_ms)
      VALUES ('r1', 1, 'k1', 'g1', 'chat', 'x', 'm', 0, 200, 'completed', 1, 0, 0, 1, 0, 0, 'upstream', 1, 5);`);
    expect(await migrate(db)).toEqual({ from: 1, to: newest });
    const { accounts, groups } = await readPolicy(db);
    expect(accounts[0]?.limits).toEqual(NO_RATE_LIMITS);
    expect(groups[0]).toMatchObject({ limits: NO_LIMITS, groupLimits: NO_LIMITS, queue: DEFAULT_QUEUE });
    expect((await listUsers(db))[0]?.limits).toEqual(NO_LIMITS);
    expect((await readKeys(db, 0, 0)).keys[0]).toMatchObject({ limits: NO_LIMITS, userLimits: NO_LIMITS });
    expect(await findUsage(db, "r1")).toMatchObject({ durationMs: 5, waitMs: 0, trace: null });
    await db.close();
  });

  test("rows from before the shorter indexes are listed unchanged", async () => {
    const db = await openDb(await emptyUrl());
    await migrate(db, MIGRATIONS.slice(0, 11));
    await insertBefore(db, [
      usageRow({ requestId: "r1", atMs: 1, keyId: "k1" }),
      usageRow({ requestId: "r2", atMs: 2, keyId: "k2" }),
      usageRow({ requestId: "r3", atMs: 2, keyId: "k1" }),
      usageRow({ requestId: "r4", atMs: 2, keyId: "k1" }),
    ]);
    expect(await migrate(db)).toEqual({ from: 11, to: newest });
    const ids = async (filter: UsageFilter) =>
      (await listUsage(db, filter, { after: null, limit: 9 })).rows.map(({ requestId }) => requestId);
    expect(await ids({})).toEqual(["r4", "r3", "r2", "r1"]);
    expect(await ids({ keyId: "k1" })).toEqual(["r4", "r3", "r1"]);
    await db.close();
  });

  test("rows from before the compact layout are read back unchanged", async () => {
    const db = await openDb(await emptyUrl());
    await migrate(db, MIGRATIONS.slice(0, 13));
    const odd = { publicModel: "a:1-b", upstreamModel: "2:-", errorCode: "-" };
    const money = { chargedNano: 7n, costNano: 7n, payer: "balance", tariffId: "t1" } as const;
    const rows = [
      usageRow({ userId: "u1", accountId: "a1", responseId: "resp_1", interface: "responses", trace: "{}" }),
      usageRow({ userId: "u1", accountId: "k1", stream: true, attempts: 3, status: 502, outcome: "failed" }),
      usageRow({ outcome: "refused", publicModel: "whatever", status: 404, errorCode: "model_not_found" }),
      usageRow({ outcome: "refused", publicModel: "anything", status: 404, errorCode: "model_not_found" }),
      usageRow({ ...odd, outcome: "pending", usageSource: "none" }),
      usageRow({ ...odd, upstreamModel: null, waitMs: 9, firstByteMs: 8, images: 2 }),
      usageRow({ ...money, userId: "u2", flags: ["overrun", "capped"] }),
      usageRow({ ...money, userId: "u2", flags: [] }),
    ];
    await insertBefore(db, rows);
    await db.sql`UPDATE usage SET charged_with = ${rows[6]?.requestId ?? ""} WHERE charged_nano > 0`;
    await migrate(db);
    const shared =
      await db.sql`SELECT request_id FROM usage WHERE charged_with = ${rows[6]?.requestId ?? ""}`;
    expect(shared.map((row) => row.request_id).sort()).toEqual(rows.slice(6).map((row) => row.requestId));
    for (const row of rows) expect(await findUsage(db, row.requestId)).toEqual(row);
    expect((await findRoute(db, "resp_1"))?.accountId).toBe("a1");
    const page = { after: null, limit: 9 };
    expect((await listUsage(db, { keyId: "k1" }, page)).rows).toEqual(rows.toReversed());
    expect((await listUsage(db, { accountId: "a1" }, page)).rows).toEqual(rows.slice(0, 1));
    const again = rows.map((row) => ({ ...row, requestId: `${row.requestId}-again` }));
    await insertUsage(db, again);
    for (const row of again) expect(await findUsage(db, row.requestId)).toEqual(row);
    await db.close();
  });

  test("a row that is written while rows are rewritten is not lost", async () => {
    const url = await emptyUrl();
    const [writer, db] = [await openDb(url), await openDb(url)];
    await migrate(db, MIGRATIONS.slice(0, 13));
    const row = usageRow();
    let migrated: Promise<unknown> = Promise.resolve();
    await transaction(writer, async (tx) => {
      await insertRowsBefore(tx, [row]);
      migrated = migrate(db);
      await Bun.sleep(200);
    });
    await migrated;
    expect(await findUsage(db, row.requestId)).toEqual(row);
    await writer.close();
    await db.close();
  });

  test("limits from before their author was recorded are the ceiling for the key's owner", async () => {
    const db = await openDb(await emptyUrl());
    await migrate(db, MIGRATIONS.slice(0, 7));
    await db.sql.script(`
      INSERT INTO grp (id, name, interfaces, billing, on_disconnect, created_at_ms)
      VALUES ('g1', 'g1', '[]', '${JSON.stringify(NO_BILLING)}', 'cancel', 1);
      INSERT INTO api_key (id, name, group_id, digest, public_id, last4, status, expires_at_ms, limits, created_at_ms,
        revision)
      VALUES ('k1', 'k1', 'g1', 'd1', 'p1', '', 'active', 9, '{"rpm":3}', 1, 1);`);
    await migrate(db);
    expect(await readKeyCeiling(db, "k1")).toEqual({ expiresAtMs: 9, limits: { ...NO_LIMITS, rpm: 3 } });
    await db.close();
  });

  test("a token with all rights of its owner becomes read-only", async () => {
    const db = await openDb(await emptyUrl());
    await migrate(
      db,
      MIGRATIONS.filter(({ version }) => version < 17),
    );
    await db.sql.script(`
      INSERT INTO app_user (id, email, email_folded, role, limits, created_at_ms) VALUES ('u', 'u@x.y', 'u@x.y', 'admin', '{}', 1);
      INSERT INTO access_token (id, digest, user_id, name, last4, scope, created_at_ms)
        VALUES ('t1', 'd1', 'u', 'a', 'aaaa', 'full', 1), ('t2', 'd2', 'u', 'b', 'bbbb', 'read', 2);`);
    await migrate(db);
    expect((await listAccessTokens(db, "u")).map(({ scope }) => scope)).toEqual(["read", "read"]);
    await db.close();
  });

  test("groups that cancelled by default follow their charge, and draining groups keep draining", async () => {
    const db = await openDb(await emptyUrl());
    await migrate(
      db,
      MIGRATIONS.filter(({ version }) => version < 16),
    );
    for (const policy of ["cancel", "drain"]) {
      await db.sql`
        INSERT INTO grp (id, name, interfaces, billing, on_disconnect, created_at_ms)
        VALUES (${policy}, ${policy}, '[]', ${JSON.stringify(NO_BILLING)}, ${policy}, 1)`;
    }
    await migrate(db);
    const { groups } = await readPolicy(db);
    expect(groups.map(({ id, onDisconnect }) => [id, onDisconnect])).toEqual([
      ["cancel", null],
      ["drain", "drain"],
    ]);
    await db.close();
  });

  test("pending migrations of an older database can be listed before they run", async () => {
    const db = await openDb(await emptyUrl());
    expect(await changesAhead(db)).toBeNull();
    await migrate(db, MIGRATIONS.slice(0, 13));
    const slow: Migration = { ...later, phase: { kind: "offline", locks: [], takes: "Long." } };
    expect(await changesAhead(db, [...MIGRATIONS.slice(0, 13), slow])).toEqual({
      from: 13,
      to: newest + 1,
      takes: ["Long."],
    });
    await migrate(db);
    expect(await changesAhead(db)).toBeNull();
    await db.close();
  });

  test("only missing migrations are applied", async () => {
    const db = await open();
    expect(await migrate(db, [...MIGRATIONS, later])).toEqual({ from: newest, to: newest + 1 });
    expect(await db.sql`SELECT a FROM later`).toEqual([{ a: 7 }]);
  });

  test("a program runs on a database with later migrations that only add", async () => {
    const db = await open();
    await migrate(db, [...MIGRATIONS, later]);
    expect(await migrate(db)).toEqual({ from: newest + 1, to: newest + 1 });
    expect(await changesAhead(db)).toBeNull();
    await registerProcess(db, processRecord("inc_old"));
  });

  test("a program is rejected by a database that has removed what it needs", async () => {
    const db = await open();
    await applyAll(db, [...MIGRATIONS, later, contract]);
    const error = await migrate(db).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ProgramTooOld);
    expect(String(error)).toContain(`requires a version that knows schema ${newest + 1}`);
    expect(String(error)).toContain(`up to ${newest}`);
    const registered = await registerProcess(db, processRecord("inc_late")).catch(
      (reason: unknown) => reason,
    );
    expect(registered).toBeInstanceOf(ProgramTooOld);
    expect(await migrate(db, [...MIGRATIONS, later])).toEqual({ from: newest + 2, to: newest + 2 });
  });

  test("a database that was created with all migrations has applied those that remove as well", async () => {
    const db = await openDb(await emptyUrl());
    await migrate(db, [...MIGRATIONS, later, contract]);
    expect(await db.sql`SELECT a FROM later`.catch(() => "no table")).toBe("no table");
    await db.close();
  });

  test("a migration that fails leaves nothing behind", async () => {
    const db = await open();
    const broken = { ...later, sql: "CREATE TABLE half (a BIGINT); INSERT INTO nowhere (a) VALUES (1);" };
    expect(await migrate(db, [...MIGRATIONS, broken]).catch(() => "failed")).toBe("failed");
    expect(await db.sql`SELECT a FROM half`.catch(() => "no table")).toBe("no table");
    expect(await migrate(db)).toEqual({ from: newest, to: newest });
  });
});

test("a migration that removes waits for the last process that needs it", async () => {
  const { url, stop } = await startPostgres();
  const db = await openDb(url);
  await migrate(db);
  await registerProcess(db, processRecord("inc_old"));
  const next = [...MIGRATIONS, later, contract];
  expect(await migrate(db, next)).toEqual({ from: newest, to: newest + 2 });
  expect(await db.sql`SELECT a FROM later`).toEqual([{ a: 7 }]);
  const waiting = [{ name: "contract", processIds: ["inc_old"] }];
  expect(await findWaitingMigrations(db, next)).toEqual(waiting);
  expect(await finishMigrations(db, next)).toEqual({ applied: [], waiting });
  await db.sql`DELETE FROM incarnation`;
  expect(await finishMigrations(db, next)).toEqual({ applied: ["contract"], waiting: [] });
  expect(await db.sql`SELECT a FROM later`.catch(() => "no table")).toBe("no table");
  await db.close();
  await stop();
});

test("a migration waits briefly for a lock, lets the queue behind it pass, and tries again", async () => {
  const { url, stop } = await startPostgres();
  const [db, other] = [await openDb(url), await openDb(url)];
  await migrate(db);
  const addColumn: Migration = { ...later, sql: "ALTER TABLE setting ADD COLUMN later BIGINT" };
  let migrated: Promise<unknown> = Promise.resolve();
  const readMs: number[] = [];
  await transaction(other, async (tx) => {
    await tx.sql`SELECT name FROM setting`;
    migrated = migrate(db, [...MIGRATIONS, addColumn]);
    await Bun.sleep(100);
    // Queues behind the migration until that gives up.
    const startedMs = performance.now();
    await db.sql`SELECT name FROM setting`;
    readMs.push(performance.now() - startedMs);
  });
  await migrated;
  expect(readMs[0]).toBeWithin(1_000, 10_000);
  expect(await db.sql`SELECT later FROM setting`).toEqual([]);
  for (const opened of [db, other]) await opened.close();
  await stop();
}, 30_000);
