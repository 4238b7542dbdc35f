import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type PgBouncer, startPgBouncer } from "../../../test/support/pgbouncer.ts";
import { type Postgres, startPostgres } from "../../../test/support/postgres.ts";
import { type SilentProxy, startSilentProxy } from "../../../test/support/silent-proxy.ts";
import { type Db, isLockTimeout, transaction } from "./db.ts";
import { openPostgres } from "./postgres.ts";
import { POOL_LIMITS, type PoolLimits, StoreSilent } from "./postgres-pool.ts";

const QUICK: PoolLimits = {
  connectionsMax: 4,
  lockMs: 100,
  statementMs: 400,
  idleTransactionMs: 300,
  transactionMs: 500,
  responseGraceMs: 200,
  silenceMs: 200,
  probeMs: 200,
};

let postgres: Postgres;
let pooler: PgBouncer;
let proxy: SilentProxy;
const opened: Db[] = [];

beforeAll(async () => {
  postgres = await startPostgres();
  pooler = await startPgBouncer(postgres.url);
  const { hostname, port } = new URL(postgres.url);
  proxy = startSilentProxy({ hostname, port: Number(port) });
  const db = await open();
  await db.sql.script("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT NOT NULL)");
  await db.sql.script("INSERT INTO t VALUES (1, 0), (2, 0)");
}, 300_000);

afterAll(async () => {
  for (const db of opened) await db.close();
  proxy.stop();
  await pooler.stop();
  await postgres.stop();
});

async function open(change: Partial<PoolLimits> = {}, url = postgres.url): Promise<Db> {
  const db = await openPostgres(url, { workload: "billing", limits: { ...QUICK, ...change } });
  opened.push(db);
  return db;
}

function openThroughProxy(): Promise<Db> {
  const url = new URL(postgres.url);
  url.port = String(proxy.port);
  return open({}, url.href);
}

const change = (db: Db, id: number) => db.sql`UPDATE t SET n = n + 1 WHERE id = ${id}`;

describe.each([
  ["PostgreSQL", () => postgres.url],
  ["PostgreSQL behind PgBouncer", () => pooler.url],
])("time-outs of %s", (_, findUrl) => {
  const openHere = (change: Partial<PoolLimits> = {}) => open(change, findUrl());

  test("a transaction without statements is ended by the server, and its locks are free", async () => {
    const [frozen, other] = [await openHere({ transactionMs: 5_000 }), await openHere({ lockMs: 0 })];
    const { promise, resolve } = Promise.withResolvers<void>();
    const locked = Promise.withResolvers<void>();
    const holding = transaction(frozen, async (tx) => {
      await change(tx, 1);
      locked.resolve();
      await promise;
    });
    holding.catch(() => {});
    await locked.promise;
    const startMs = performance.now();
    await change(other, 1);
    expect(performance.now() - startMs).toBeLessThan(QUICK.idleTransactionMs + 200);
    resolve();
    await expect(holding).rejects.toThrow();
  });

  test("a statement waits for a lock only so long", async () => {
    const [holder, waiter] = [await openHere(), await openHere()];
    await transaction(holder, async (tx) => {
      await change(tx, 1);
      const error = await change(waiter, 1).catch((reason: unknown) => reason);
      expect(isLockTimeout(error)).toBe(true);
    });
  });

  test("a transaction that takes too long is abandoned and rolled back", async () => {
    const db = await openHere({ transactionMs: 300 });
    const before = await db.sql`SELECT n FROM t WHERE id = 2`;
    const slow = transaction(db, async (tx) => {
      for (;;) {
        await change(tx, 2);
        await Bun.sleep(50);
      }
    });
    await expect(slow).rejects.toBeInstanceOf(StoreSilent);
    // The abandoned work would have written by then.
    await Bun.sleep(150);
    expect(await db.sql`SELECT n FROM t WHERE id = 2`).toEqual(before);
  });

  test("a statement that takes too long fails and does not break the connection", async () => {
    const db = await openHere();
    await expect(db.sql`SELECT pg_sleep(2)`).rejects.toThrow("statement timeout");
    expect(await db.sql`SELECT 1 AS one`).toEqual([{ one: 1 }]);
  });

  test("a database that was opened to be read rejects every write", async () => {
    const db = await openPostgres(findUrl(), { workload: "maintenance", access: "read" });
    opened.push(db);
    expect(await db.sql`SELECT COUNT(*) AS many FROM t`).toEqual([{ many: 2 }]);
    await expect(change(db, 1)).rejects.toThrow("read-only transaction");
    await expect(transaction(db, (tx) => change(tx, 1))).rejects.toThrow("read-only transaction");
  });
});

describe("connections that were lost without a reset", () => {
  test("are replaced by new ones", async () => {
    const db = await openThroughProxy();
    expect(await db.sql`SELECT 1 AS one`).toEqual([{ one: 1 }]);
    proxy.silence();
    const startMs = performance.now();
    await db.sql`SELECT 2`.catch(() => {});
    const elapsedMs = performance.now() - startMs;
    expect(elapsedMs).toBeLessThan(QUICK.statementMs + QUICK.responseGraceMs + 600);
    expect(await db.sql`SELECT 3 AS three`).toEqual([{ three: 3 }]);
  });

  test("a transaction on one fails in time, and the next one succeeds", async () => {
    const db = await openThroughProxy();
    const read = async () => Number((await db.sql`SELECT n FROM t WHERE id = 1`)[0]?.n);
    await change(db, 1);
    const before = await read();
    proxy.silence();
    const startMs = performance.now();
    await expect(transaction(db, (tx) => change(tx, 1))).rejects.toThrow();
    expect(performance.now() - startMs).toBeLessThan(QUICK.transactionMs + QUICK.responseGraceMs + 600);
    await transaction(db, (tx) => change(tx, 1));
    expect(await read()).toBe(before + 1);
  });

  test("a server that answers nothing at all is used again when it answers", async () => {
    const db = await openThroughProxy();
    proxy.silence({ andLater: true });
    await expect(db.sql`SELECT 1`).rejects.toThrow();
    proxy.pass();
    for (let attempt = 0; ; attempt++) {
      const rows = await db.sql`SELECT 1 AS one`.catch(() => null);
      if (rows !== null) break;
      expect(attempt).toBeLessThan(5);
    }
  });
});

test("billing waits less for a lock than a request waits for its hold", () => {
  expect(POOL_LIMITS.billing.lockMs).toBeLessThan(500);
});
