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
import { eachEngine } from "../../../test/support/each-engine.ts";
import { readSetting, writeSetting } from "../settings/settings.ts";
import { type Db, openDb, snapshot, transaction } from "./db.ts";

/** A promise that the test resolves: keeps a transaction open while it tries something else. */
function gate(): { opened: Promise<void>; open(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}

async function catchMessage(failing: Promise<unknown>): Promise<string | null> {
  try {
    await failing;
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

const names = async (db: Db) => (await db.sql`SELECT name FROM setting ORDER BY name`).map((row) => row.name);

eachEngine(({ open, emptyUrl }) => {
  test("integers of any size are read back as numbers", async () => {
    const db = await open();
    await db.sql`UPDATE revision SET policy = ${1_794_711_836_937}, keys = ${Number.MAX_SAFE_INTEGER}`;
    const rows = await db.sql`SELECT policy, keys, COUNT(*) AS many FROM revision GROUP BY policy, keys`;
    expect(rows[0]).toEqual({ policy: 1_794_711_836_937, keys: Number.MAX_SAFE_INTEGER, many: 1 });
  });

  test("text is read back as written, including quotes", async () => {
    const db = await open();
    const value = `'; DROP TABLE setting; -- "$1" ? \\ ünï 🙂`;
    await writeSetting(db, "a", value);
    expect(await readSetting(db, "a")).toBe(value);
  });

  test("a transaction commits all of its writes, or none", async () => {
    const db = await open();
    await transaction(db, async (tx) => {
      await writeSetting(tx, "a", "1");
      await writeSetting(tx, "b", "1");
    });
    const failing = transaction(db, async (tx) => {
      await writeSetting(tx, "c", "1");
      throw new Error("no");
    });
    expect(await catchMessage(failing)).toBe("no");
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

  test("a statement outside does not become part of an open transaction", async () => {
    const db = await open();
    const { rollBack } = await openTransaction(db);
    const outside = writeSetting(db, "outside", "1");
    await rollBack();
    await outside;
    expect(await names(db)).toEqual(["outside"]);
  });

  test("a read outside does not see uncommitted writes", async () => {
    const db = await open();
    const { rollBack } = await openTransaction(db);
    const seen = readSetting(db, "inside");
    await rollBack();
    expect(await seen).toBeNull();
  });

  test("concurrent increments of one value lose nothing", async () => {
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

  test("two connections take turns to write", async () => {
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

  test("a connection that writes continuously lets another connection write", async () => {
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

  test("a nested transaction can fail alone", async () => {
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

  test("concurrent nested transactions do not mix", async () => {
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

  test("a swallowed statement error rolls the transaction back and is reported", async () => {
    const db = await open();
    const swallowing = transaction(db, async (tx) => {
      await writeSetting(tx, "a", "1");
      await tx.sql`INSERT INTO nowhere (x) VALUES (1)`.catch(() => {});
    });
    expect(await catchMessage(swallowing)).toContain("ignored");
    expect(await names(db)).toEqual([]);
  });

  test("a handle used after its transaction is rejected", async () => {
    const db = await open();
    const kept = await transaction(db, async (tx) => ({ tx }));
    expect(await catchMessage(writeSetting(kept.tx, "late", "1"))).toContain("has ended");
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

  test("a snapshot is consistent", async () => {
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
  const readMode = (file: string) => statSync(file).mode & 0o777;

  test("is readable by its owner only, and so is its WAL", async () => {
    const file = join(folder, "deep", "gateway.db");
    const db = await openDb(`sqlite:${file}`);
    await db.sql`CREATE TABLE a (b BIGINT)`;
    for (const each of [file, `${file}-wal`, `${file}-shm`]) expect(readMode(each)).toBe(0o600);
    await db.close();
    chmodSync(file, 0o644);
    await (await openDb(`sqlite:${file}`)).close();
    expect(readMode(file)).toBe(0o600);
  });

  test("uses WAL mode, foreign keys and synchronous=NORMAL", async () => {
    const db = await openDb(`sqlite://${folder}/pragma.db`);
    expect(await db.sql`PRAGMA journal_mode`).toEqual([{ journal_mode: "wal" }]);
    expect(await db.sql`PRAGMA synchronous`).toEqual([{ synchronous: 1 }]);
    expect(await db.sql`PRAGMA foreign_keys`).toEqual([{ foreign_keys: 1 }]);
    await db.close();
  });

  test("closes its file descriptor when a flush fails", async () => {
    const file = join(folder, "unflushed.db");
    const db = await openDb(`sqlite:${file}`);
    await db.sql`CREATE TABLE a (b BIGINT)`;
    // Replaces the WAL by a device that cannot be synced.
    renameSync(`${file}-wal`, `${file}-kept`);
    symlinkSync("/dev/zero", `${file}-wal`);
    const opened = () => readdirSync("/proc/self/fd").filter((fd) => readLink(fd) === "/dev/zero").length;
    const before = opened();
    await expect(db.flush()).rejects.toThrow();
    expect(opened()).toBe(before);
    rmSync(`${file}-wal`);
    renameSync(`${file}-kept`, `${file}-wal`);
    await db.flush();
    await db.close();
  });

  function readLink(fd: string): string | null {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return null;
    }
  }

  test("can be in memory", async () => {
    const db = await openDb("sqlite::memory:");
    expect(await db.sql`SELECT ${"x"} AS y`).toEqual([{ y: "x" }]);
    await db.close();
  });
});

test("on SQLite, a write transaction knows whether another one waits for it", async () => {
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

test("an unsupported database URL is rejected without showing its password", async () => {
  const message = await catchMessage(openDb("mysql://root:hunter2@db/x"));
  expect(message).toContain("sqlite: or postgres://");
  expect(message).not.toContain("hunter2");
  expect(await catchMessage(openDb("sqlite:"))).toContain("has no file");
});
