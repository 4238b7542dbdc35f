import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Postgres, startPostgres } from "../../../test/support/postgres.ts";
import { insertStoredResponses } from "../responses/stored-responses.ts";
import {
  beginCopy,
  type CopiedTable,
  compareTable,
  copyTable,
  endCopy,
  hasBegunCopy,
  listCopiedTables,
  StoreCopyError,
} from "./copy-store.ts";
import { type Db, openDb } from "./db.ts";
import { migrate } from "./migrate.ts";

let postgres: Postgres;
let source: Db;
let target: Db;
let tables: CopiedTable[];

/** Above 2^53, where a number of JavaScript would be rounded. */
const LARGE = "9007199254740993";
const ROWS = 1_700;

beforeAll(async () => {
  postgres = await startPostgres();
  source = await openDb("sqlite::memory:");
  target = await openDb(postgres.url);
  for (const db of [source, target]) await migrate(db);
  await source.sql.script(`
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${ROWS})
    INSERT INTO billing_fault (id, at_ms, kind, detail)
    SELECT 'fault ' || i || ' ü', ${LARGE} + 2 * i, 'kind', 'quote '' \\ and 漢字 ' || char(10) FROM n;
    UPDATE revision SET policy = 77;`);
  tables = await listCopiedTables(source);
}, 300_000);

afterAll(async () => {
  await source?.close();
  await target?.close();
  await postgres?.stop();
});

function findTable(name: string): CopiedTable {
  const table = tables.find((one) => one.name === name);
  if (table === undefined) throw new Error(`${name} is not copied`);
  return table;
}

test("tables are copied after the tables that they refer to, without the state of processes", () => {
  const names = tables.map(({ name }) => name);
  expect(names.indexOf("publication")).toBeGreaterThan(names.indexOf("key_group"));
  expect(names.indexOf("session")).toBeGreaterThan(names.indexOf("app_user"));
  expect(names).not.toContain("process");
});

test("a copy that was interrupted continues after its last batch, and every value is equal", async () => {
  expect(await hasBegunCopy(target)).toBe(false);
  await beginCopy(target);
  const table = findTable("billing_fault");
  let batches = 0;
  const failing: Db = {
    ...target,
    begin: (mode, work) => (++batches > 2 ? Promise.reject(new Error("away")) : target.begin(mode, work)),
  };
  expect(await copyTable(source, failing, table).catch((error: Error) => error.message)).toBe("away");
  const [half] = await target.sql`SELECT COUNT(*) AS many FROM billing_fault`;
  expect(Number(half?.many)).toBe(1_000);
  expect(await hasBegunCopy(target)).toBe(true);
  let continued = 0;
  const counting: Db = {
    ...target,
    begin(mode, work) {
      continued += 1;
      return target.begin(mode, work);
    },
  };
  expect(await copyTable(source, counting, table)).toBe(ROWS);
  expect(continued).toBe(2);
  expect(await compareTable(source, target, table)).toBe(ROWS);
  const [row] = await target.sql`SELECT CAST(MAX(at_ms) AS TEXT) AS at FROM billing_fault`;
  expect(row?.at).toBe(String(BigInt(LARGE) + 2n * BigInt(ROWS)));
});

test("stored responses, which may be large, are copied a few at a time", async () => {
  const shared = { keyId: "k1", owner: "u1", previousId: null, atMs: 1, tokens: null, memoryBytes: 1 };
  const responses = Array.from({ length: 20 }, (_, at) => ({
    ...shared,
    id: `resp_${at}`,
    sealed: `v1:${at}`,
  }));
  await insertStoredResponses(source, responses);
  let batches = 0;
  const counting: Db = {
    ...target,
    begin(mode, work) {
      batches += 1;
      return target.begin(mode, work);
    },
  };
  const table = findTable("stored_response");
  expect(await copyTable(source, counting, table)).toBe(20);
  expect(batches).toBe(3);
  expect(await compareTable(source, target, table)).toBe(20);
  for (const name of ["stored_conversation", "stored_response_owner"])
    expect(await copyTable(source, target, findTable(name))).toBeGreaterThan(0);
});

test("rows that a migration creates are replaced by those of the source", async () => {
  const table = findTable("revision");
  await copyTable(source, target, table);
  expect(await target.sql`SELECT policy FROM revision`).toEqual([{ policy: 77 }]);
});

test("a value that differs, a missing row and an additional row are found", async () => {
  const table = findTable("billing_fault");
  const compare = () => compareTable(source, target, table).catch((error: unknown) => String(error));
  await target.sql`UPDATE billing_fault SET at_ms = at_ms + 1 WHERE id = 'fault 1234 ü'`;
  expect(await compare()).toContain("fault 1234 ü of billing_fault differs in at_ms");
  await target.sql`DELETE FROM billing_fault WHERE id = 'fault 1234 ü'`;
  expect(await compare()).toContain("billing_fault");
  await target.sql`DELETE FROM billing_fault`;
  await target.sql`DELETE FROM migrate_store_progress`;
  await copyTable(source, target, table);
  await target.sql`INSERT INTO billing_fault (id, at_ms, kind, detail) VALUES ('z', 1, '', '')`;
  const error = await compareTable(source, target, table).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(StoreCopyError);
  await endCopy(target);
});
