import { afterAll, describe, expect, test } from "bun:test";
import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eachEngine } from "../../../test/support/postgres.ts";
import { readSetting, writeSetting } from "../settings/settings.ts";
import { type Db, openDb, snapshot, transaction } from "./db.ts";

/** A promise that the test resolves: keeps a transaction open while it tries something else. */
function gate(): { opened: Promise<void>; open(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}

async function messageOf(failing: Promise<unknown>): Promise<string | null> {
  try {
    await failing;
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

const names = async (db: Db) => (await db.sql`SELECT name FROM setting ORDER BY name`).map((row) => row.name);

eachEngine(({ open, emptyUrl }) => {
  test("integers come back as numbers, whatever their size", async () => {
    const db = await open();
    await db.sql`UPDATE revision SET policy = ${1_794_711_836_937}, keys = ${Number.MAX_SAFE_INTEGER}`;
    const rows = await db.sql`SELECT policy, keys, COUNT(*) AS many FROM revision GROUP BY policy, keys`;
    expect(rows[0]).toEqual({ policy: 1_794_711_836_937, keys: Number.MAX_SAFE_INTEGER, many: 1 });
  });

  test("text comes back as it went in, quotes and all", async () => {
    const db = await open();
    const value = `'; DROP TABLE setting; -- "$1" ? \\ ünï 🙂`;
    await writeSetting(db, "a", value);
    expect(await readSetting(db, "a")).toBe(value);
  });

  test("a transaction keeps all of its writes, or none", async () => {
    const db = await open();
    await transaction(db, async (tx) => {
      await writeSetting(tx, "a", "1");
      await writeSetting(tx, "b", "1");
    });
    const failing = transaction(db, async (tx) => {
      await writeSetting(tx, "c", "1");
      throw new Error("no");
    });
    expect(await messageOf(failing)).toBe("no");
    expect(await names(db)).toEqual(["a", "b"]);
  });

  /** A transaction that has written `inside` and stays open until it is rolled back. */
  async function openTransaction(db: Db): Promise<{ rollBack(): Promise<void> }> {
    const ending = gate();
    const writing = gate();
    const failing = transaction(db, async (tx) => {
      await writeSetting(tx, "inside", "1");
      writing.open();
      await ending.opened;
      throw new Error("rolled back");
    });
    await writing.opened;
    return {
      async rollBack() {
        ending.open();
        await failing.catch(() => {});
      },
    };
  }

  test("a statement outside does not become part of a transaction that is open", async () => {
    const db = await open();
    const { rollBack } = await openTransaction(db);
    const outside = writeSetting(db, "outside", "1");
    await rollBack();
    await outside;
    expect(await names(db)).toEqual(["outside"]);
  });

  test("a read outside does not see what a transaction has not committed", async () => {
    const db = await open();
    const { rollBack } = await openTransaction(db);
    const seen = readSetting(db, "inside");
    await rollBack();
    expect(await seen).toBeNull();
  });

  test("transactions that add to one value at once lose nothing", async () => {
    const db = await open();
    await db.sql`UPDATE revision SET policy = 0`;
    const add = () =>
      transaction(db, async (tx) => {
        await tx.sql`UPDATE revision SET policy = policy + 1`;
        await tx.sql`UPDATE revision SET keys = policy`;
      });
    await Promise.all(Array.from({ length: 50 }, add));
    expect(await db.sql`SELECT policy, keys FROM revision`).toEqual([{ policy: 50, keys: 50 }]);
  });

  test("two connections write in turns", async () => {
    const url = await emptyUrl();
    const [one, two] = [await openDb(url), await openDb(url)];
    await one.sql`CREATE TABLE counter (value BIGINT)`;
    await one.sql`INSERT INTO counter (value) VALUES (0)`;
    const add = (db: Db) => transaction(db, (tx) => tx.sql`UPDATE counter SET value = value + 1`);
    await Promise.all(Array.from({ length: 40 }, (_, index) => add(index % 2 === 0 ? one : two)));
    expect(await one.sql`SELECT value FROM counter`).toEqual([{ value: 40 }]);
    await one.close();
    await two.close();
  });

  test("a connection that goes on writing lets another have its turn", async () => {
    const url = await emptyUrl();
    const [one, other] = [await openDb(url), await openDb(url)];
    await one.sql`CREATE TABLE step (name TEXT)`;
    let isOver = false;
    const busy = (async () => {
      for (let i = 0; i < 200 && !isOver; i++) {
        await transaction(one, async (tx) => {
          await tx.sql`INSERT INTO step VALUES (${`busy ${i}`})`;
          await new Promise<void>((resolve) => setImmediate(resolve));
        });
      }
    })();
    await transaction(other, (tx) => tx.sql`INSERT INTO step VALUES ('other')`);
    isOver = true;
    await busy;
    const rows = await one.sql`SELECT name FROM step`;
    expect(rows.length).toBeLessThan(100);
    await one.close();
    await other.close();
  });

  test("a transaction within another can fail alone", async () => {
    const db = await open();
    await transaction(db, async (tx) => {
      await writeSetting(tx, "a", "1");
      await transaction(tx, async (nested) => {
        await writeSetting(nested, "b", "1");
        await nested.sql`INSERT INTO setting (name, value) VALUES ('a', 'again')`;
      }).catch(() => {});
      await transaction(tx, (nested) => writeSetting(nested, "c", "1"));
    });
    expect(await names(db)).toEqual(["a", "c"]);
  });

  test("transactions begun side by side within another do not mix", async () => {
    const db = await open();
    await transaction(db, async (tx) => {
      await Promise.allSettled(
        ["a", "b", "c", "d"].map((name) =>
          transaction(tx, async (nested) => {
            await writeSetting(nested, name, "1");
            await nested.sql`SELECT 1 AS one`;
            if (name === "b" || name === "d") throw new Error(name);
          }),
        ),
      );
    });
    expect(await names(db)).toEqual(["a", "c"]);
  });

  test("a failed statement whose error is swallowed rolls the transaction back, and says so", async () => {
    const db = await open();
    const swallowing = transaction(db, async (tx) => {
      await writeSetting(tx, "a", "1");
      await tx.sql`INSERT INTO nowhere (x) VALUES (1)`.catch(() => {});
    });
    expect(await messageOf(swallowing)).toContain("swallowed");
    expect(await names(db)).toEqual([]);
  });

  test("a handle kept beyond its transaction is refused", async () => {
    const db = await open();
    const kept = await transaction(db, async (tx) => ({ tx }));
    expect(await messageOf(writeSetting(kept.tx, "late", "1"))).toContain("over");
    expect(await names(db)).toEqual([]);
  });

  test("a statement that was not awaited still belongs to its transaction", async () => {
    const db = await open();
    await transaction(db, async (tx) => {
      void writeSetting(tx, "a", "1");
      void writeSetting(tx, "b", "1");
    });
    expect(await names(db)).toEqual(["a", "b"]);
  });

  test("a snapshot sees one moment", async () => {
    const url = await emptyUrl();
    const [reader, writer] = [await openDb(url), await openDb(url)];
    await writer.sql`CREATE TABLE counter (value BIGINT)`;
    await writer.sql`INSERT INTO counter (value) VALUES (1)`;
    const seen = await snapshot(reader, async (tx) => {
      const before = await tx.sql`SELECT value FROM counter`;
      await writer.sql`UPDATE counter SET value = 2`;
      return [before, await tx.sql`SELECT value FROM counter`];
    });
    expect(seen).toEqual([[{ value: 1 }], [{ value: 1 }]]);
    expect(await reader.sql`SELECT value FROM counter`).toEqual([{ value: 2 }]);
    await reader.close();
    await writer.close();
  });
});

describe("a SQLite file", () => {
  const folder = mkdtempSync(join(tmpdir(), "gateway-db-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const modeOf = (file: string) => statSync(file).mode & 0o777;

  test("can be read by its owner alone, and so can its log", async () => {
    const file = join(folder, "deep", "gateway.db");
    const db = await openDb(`sqlite:${file}`);
    await db.sql`CREATE TABLE a (b BIGINT)`;
    for (const each of [file, `${file}-wal`, `${file}-shm`]) expect(modeOf(each)).toBe(0o600);
    await db.close();
    chmodSync(file, 0o644);
    await (await openDb(`sqlite:${file}`)).close();
    expect(modeOf(file)).toBe(0o600);
  });

  test("keeps a log, checks references and syncs as it should", async () => {
    const db = await openDb(`sqlite://${folder}/pragma.db`);
    expect(await db.sql`PRAGMA journal_mode`).toEqual([{ journal_mode: "wal" }]);
    expect(await db.sql`PRAGMA synchronous`).toEqual([{ synchronous: 1 }]);
    expect(await db.sql`PRAGMA foreign_keys`).toEqual([{ foreign_keys: 1 }]);
    await db.close();
  });

  test("that cannot be flushed is not kept open for it", async () => {
    const file = join(folder, "unflushed.db");
    const db = await openDb(`sqlite:${file}`);
    await db.sql`CREATE TABLE a (b BIGINT)`;
    // Replaces the WAL by a device that cannot be synced.
    renameSync(`${file}-wal`, `${file}-kept`);
    symlinkSync("/dev/zero", `${file}-wal`);
    const opened = () => readdirSync("/proc/self/fd").filter((fd) => linkOf(fd) === "/dev/zero").length;
    const before = opened();
    await expect(db.flush()).rejects.toThrow();
    expect(opened()).toBe(before);
    rmSync(`${file}-wal`);
    renameSync(`${file}-kept`, `${file}-wal`);
    await db.flush();
    await db.close();
  });

  function linkOf(fd: string): string | null {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return null;
    }
  }

  test("may be memory", async () => {
    const db = await openDb("sqlite::memory:");
    expect(await db.sql`SELECT ${"x"} AS y`).toEqual([{ y: "x" }]);
    await db.close();
  });
});

test("on SQLite a transaction that writes knows whether another waits for its end", async () => {
  const db = await openDb("sqlite::memory:");
  const seen: boolean[] = [];
  const first = transaction(db, async (tx) => {
    seen.push(tx.isAwaited());
    second = transaction(db, async (inner) => void seen.push(inner.isAwaited()));
    seen.push(tx.isAwaited());
  });
  let second = Promise.resolve();
  await first;
  await second;
  expect(seen).toEqual([false, true, false]);
  expect(db.isAwaited()).toBe(false);
});

test("an address of another kind is refused without showing its password", async () => {
  const message = await messageOf(openDb("mysql://root:hunter2@db/x"));
  expect(message).toContain("sqlite: or postgres://");
  expect(message).not.toContain("hunter2");
  expect(await messageOf(openDb("sqlite:"))).toContain("names no file");
});
