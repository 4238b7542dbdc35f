import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { nextTurn } from "../../base/next-turn.ts";
import { type Db, openDb, transaction } from "../engine/db.ts";
import { migrate } from "../engine/migrate.ts";
import { appendChange, type ChangeEntry, listChanges, verifyAuditLog } from "./audit-log.ts";

const entry = (n: number, change: Partial<ChangeEntry> = {}): ChangeEntry => ({
  atMs: 1_794_000_000_000 + n,
  actor: { kind: "user", id: "user_1", name: "ada@example.com" },
  action: "group.change",
  target: `group g${n}`,
  changes: [{ field: "models", from: "[a]", to: null }],
  address: "127.0.0.1",
  ...change,
});

async function filled(db: Db, many: number): Promise<Db> {
  for (let n = 1; n <= many; n += 1) await appendChange(db, entry(n));
  return db;
}

eachEngine(({ open, emptyUrl }) => {
  test("entries are read back newest first, page by page", async () => {
    const db = await filled(await open(), 5);
    const first = await listChanges(db, {}, { after: null, limit: 3 });
    expect(first.rows.map(({ target }) => target)).toEqual(["group g5", "group g4", "group g3"]);
    expect(first.rows[0]).toMatchObject(entry(5));
    const rest = await listChanges(db, {}, { after: first.next, limit: 3 });
    expect(rest.rows.map(({ target }) => target)).toEqual(["group g2", "group g1"]);
    expect(rest.next).toBeNull();
  });

  test("rows are filtered by actor, action, target and time", async () => {
    const db = await filled(await open(), 3);
    const bob = { kind: "user", id: "user_2", name: "bob_b@example.com" } as const;
    await appendChange(db, entry(4, { actor: bob, action: "group.remove" }));
    await appendChange(db, entry(5, { action: "grouping.change", target: "100% Größe" }));
    const found = async (filter: Parameters<typeof listChanges>[1]) =>
      (await listChanges(db, filter, { after: null, limit: 10 })).rows.map(({ seq }) => seq);
    expect(await found({ actorId: "user_2" })).toEqual([4]);
    expect(await found({ action: "group.change" })).toEqual([3, 2, 1]);
    expect(await found({ action: "group." })).toEqual([4, 3, 2, 1]);
    expect(await found({ target: "group g2" })).toEqual([2]);
    expect(await found({ search: "BOB_B" })).toEqual([4]);
    expect(await found({ search: "Größe" })).toEqual([5]);
    expect(await found({ search: "%" })).toEqual([5]);
    expect(await found({ fromMs: entry(2).atMs, toMs: entry(4).atMs })).toEqual([3, 2]);
  });

  test("an unmodified chain is valid, and so is an empty one", async () => {
    const db = await open();
    expect(await verifyAuditLog(db)).toEqual({ rows: 0, head: "", broken: [] });
    await filled(db, 3);
    expect(await verifyAuditLog(db)).toEqual({
      rows: 3,
      head: expect.stringMatching(/^[0-9a-f]{64}$/),
      broken: [],
    });
  });

  test.each([
    ["changed", "UPDATE audit SET changes = '[]' WHERE seq = 2", [{ seq: 2, kind: "changed" }]],
    ["changed", "UPDATE audit SET actor_name = 'eve' WHERE seq = 2", [{ seq: 2, kind: "changed" }]],
    ["deleted", "DELETE FROM audit WHERE seq = 2", [{ seq: 3, kind: "missing" }]],
    ["deleted at the end", "DELETE FROM audit WHERE seq = 4", [{ seq: 3, kind: "cut" }]],
  ] as const)("verification reports a row that was %s: %s", async (_, statement, broken) => {
    const db = await filled(await open(), 4);
    await db.sql.script(statement);
    expect((await verifyAuditLog(db)).broken).toEqual([...broken]);
  });

  test("a rolled back entry leaves no gap", async () => {
    const db = await filled(await open(), 1);
    await transaction(db, async (tx) => {
      await appendChange(tx, entry(2));
      throw new Error("changed my mind");
    }).catch(() => {});
    await appendChange(db, entry(3));
    const { rows } = await listChanges(db, {}, { after: null, limit: 10 });
    expect(rows.map(({ seq, target }) => [seq, target])).toEqual([
      [2, "group g3"],
      [1, "group g1"],
    ]);
    expect((await verifyAuditLog(db)).broken).toEqual([]);
  });

  test("concurrent writers on several connections create one chain", async () => {
    const url = await emptyUrl();
    const connections = await Promise.all(Array.from({ length: 3 }, () => openDb(url)));
    const [first] = connections;
    if (first === undefined) throw new Error("no connection");
    await migrate(first);
    await Promise.all(
      Array.from({ length: 30 }, (_, n) => {
        const db = connections[n % connections.length] ?? first;
        return transaction(db, (tx) => appendChange(tx, entry(n)));
      }),
    );
    expect(await verifyAuditLog(first)).toMatchObject({ rows: 30, broken: [] });
    for (const db of connections) await db.close();
  });
});

describe("a long log on SQLite", () => {
  const ROWS = 200_000;
  let db: Db;

  beforeAll(async () => {
    db = await openDb("sqlite::memory:");
    await migrate(db);
    await db.sql.script(`
      WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${ROWS})
      INSERT INTO audit (seq, at_ms, actor_kind, actor_id, actor_name, action, target, changes, address, hash)
      SELECT n, n, 'user', 'user_1', 'ada@example.com', 'key.create', 'key number ' || n, '[]', '10.0.0.1', ''
      FROM numbers`);
  });
  afterAll(() => db.close());

  test("is searched to its first entry, page by page", async () => {
    const filter = { search: "number 1000" };
    const targets: string[] = [];
    let after: number | null = null;
    do {
      const page = await listChanges(db, filter, { after, limit: 40 });
      targets.push(...page.rows.map(({ target }) => target));
      after = page.next;
    } while (after !== null);
    // 1000, 10000 to 10009, and 100000 to 100099.
    expect(targets).toHaveLength(111);
    expect(targets.at(-1)).toBe("key number 1000");
  });

  test("is searched in turns of the event loop", async () => {
    let isSearching = true;
    let turnMsMax = 0;
    const watching = (async () => {
      while (isSearching) {
        const before = process.threadCpuUsage();
        await nextTurn();
        const { user, system } = process.threadCpuUsage(before);
        turnMsMax = Math.max(turnMsMax, (user + system) / 1_000);
      }
    })();
    const { rows } = await listChanges(db, { search: "nothing like this" }, { after: null, limit: 10 });
    isSearching = false;
    await watching;
    expect(rows).toEqual([]);
    // At once it took 140 ms.
    expect(turnMsMax).toBeLessThan(70);
  });
});
