/**
 * Fills a store with many requests: 90 days up to now, 1,000 keys of 200 users in 20 groups, three of 20 models a key.
 * Nothing is charged, so there is no ledger to match. The engine makes the rows itself, and the indexes come last.
 *
 *   bun bench/fill-usage.ts sqlite:/tmp/usage.db 1000000
 */

import { foldDays } from "../src/billing/maintenance/fold-days.ts";
import { type Db, openDb, transaction } from "../src/store/engine/db.ts";
import { insertRows } from "../src/store/engine/insert-rows.ts";
import { migrate } from "../src/store/engine/migrate.ts";
import { text } from "../src/store/engine/row.ts";

export const FILL = { days: 90, keys: 1_000, users: 200, groups: 20, models: 20 } as const;

const DAY_MS = 86_400_000;
/** From where on the ids of each are numbered. */
const NO = { key: 10_000, user: 20_000, group: 30_000, account: 40_000 } as const;
/** What becomes of a request, in the order of the kinds of its model: one in fifty is rejected, one fails. */
const OUTCOMES = [
  [429, "refused"],
  [502, "failed"],
  [200, "completed"],
] as const;
const ROWS_PER_STATEMENT = 250_000;

export async function fillUsage(db: Db, rows: number, nowMs: number): Promise<void> {
  await migrate(db);
  await transaction(db, addPeople);
  await transaction(db, addNumbers);
  const indexes = await dropIndexes(db);
  for (let first = 0; first < rows; first += ROWS_PER_STATEMENT) {
    await addRows(db, first, Math.min(rows, first + ROWS_PER_STATEMENT), rows, nowMs);
  }
  await addHours(db);
  for (const statement of indexes) await db.sql.script(statement);
  await db.sql.script("ANALYZE");
  await foldDays(db, nowMs, true);
  await db.sql.script("ANALYZE");
}

async function addPeople(tx: Db): Promise<void> {
  const many = <T>(count: number, make: (i: number) => T) => Array.from({ length: count }, (_, i) => make(i));
  await insertRows(
    tx,
    "app_user",
    ["id", "email", "email_folded", "role", "created_at_ms"],
    many(FILL.users, (i) => [`u${i}`, `u${i}@example.com`, `u${i}@example.com`, "user", 1]),
  );
  await insertRows(
    tx,
    "key_group",
    ["id", "name", "interfaces", "billing", "on_disconnect", "created_at_ms"],
    many(FILL.groups, (i) => [
      `g${i}`,
      `group ${i}`,
      "[]",
      '{"charge":"none","plans":null,"multiplier":"1","modelMultipliers":{},"modelPrices":{}}',
      "cancel",
      1,
    ]),
  );
  await insertRows(
    tx,
    "api_key",
    [
      "id",
      "name",
      "user_id",
      "group_id",
      "digest",
      "public_id",
      "last4",
      "status",
      "created_at_ms",
      "revision",
    ],
    many(FILL.keys, (i) => [
      `k${i}`,
      `key ${i}`,
      `u${i % FILL.users}`,
      `g${i % FILL.groups}`,
      `digest ${i}`,
      `public ${i}`,
      "0000",
      "active",
      1,
      1,
    ]),
  );
}

async function addNumbers(tx: Db): Promise<void> {
  const ids = (letter: string, first: number, count: number) =>
    Array.from({ length: count }, (_, i) => [first + i, `${letter}${i}`]);
  await insertRows(
    tx,
    "usage_id",
    ["no", "id"],
    [
      ...ids("k", NO.key, FILL.keys),
      ...ids("u", NO.user, FILL.users),
      ...ids("g", NO.group, FILL.groups),
      ...ids("a", NO.account, 1),
    ],
  );
  const kinds = Array.from({ length: FILL.models }, (_, model) =>
    OUTCOMES.map(([status, outcome], fate) => {
      const no = 1 + model * OUTCOMES.length + fate;
      const name = outcome === "refused" ? "" : `model-${model}`;
      return [no, `kind ${no}`, name, "up", "/v1/chat/completions", 1, outcome, status, "upstream", 1];
    }),
  );
  const columns =
    "no digest public_model upstream_model endpoint stream outcome status usage_source attempts".split(" ");
  await insertRows(tx, "usage_kind", columns, kinds.flat());
}

/** Numbers that look drawn and are the same each time. `i` stays below 2^30, so nothing overflows. */
const randomColumn = (salt: number, below: number) => `((i * 2654435761 + ${salt}) / 8191 % ${below})`;

async function addRows(db: Db, first: number, end: number, rows: number, nowMs: number): Promise<void> {
  const numbers =
    db.engine === "postgres"
      ? `SELECT i FROM generate_series(CAST(${first} AS BIGINT), ${end - 1}) AS made (i)`
      : `WITH RECURSIVE made (i) AS (SELECT ${first} UNION ALL SELECT i + 1 FROM made WHERE i < ${end - 1}) SELECT i FROM made`;
  const startMs = nowMs - FILL.days * DAY_MS;
  const id = db.engine === "postgres" ? "lpad(CAST(i AS TEXT), 12, '0')" : "printf('%012d', i)";
  await db.sql.script(`
    INSERT INTO usage_row (request_id, at_ms, key_no, user_no, group_no, account_no, kind_no, interface, input_tokens,
      cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens, image_input_tokens, audio_input_tokens,
      audio_output_tokens, images, cost_nano, charged_nano, upstream_nano, first_byte_ms, duration_ms, wait_ms,
      asked_model)
    SELECT 'req_' || ${id}, at_ms, ${NO.key} + k, ${NO.user} + k % ${FILL.users}, ${NO.group} + k % ${FILL.groups},
      ${NO.account}, 1 + model * ${OUTCOMES.length} + CASE WHEN fate < 2 THEN fate ELSE 2 END, 'chat',
      CASE fate WHEN 0 THEN 0 ELSE tokens END, CASE fate WHEN 0 THEN 0 ELSE tokens / 4 END, 0,
      CASE fate WHEN 0 THEN 0 ELSE tokens / 3 END, 0, 0, 0, 0, 0,
      CASE fate WHEN 0 THEN 0 ELSE tokens * 350 END, 0, 0,
      CASE fate WHEN 0 THEN NULL ELSE 100 + tokens % 900 END, 500 + tokens % 8000, 0,
      CASE fate WHEN 0 THEN 'model-' || model END
    FROM (SELECT drawn.*, (k * 7 + m) % ${FILL.models} AS model FROM (
      SELECT i, ${startMs} + i * ${FILL.days * DAY_MS} / ${rows} AS at_ms, ${randomColumn(1, FILL.keys)} AS k,
        ${randomColumn(77_777, 3)} AS m, ${randomColumn(5_555_555, 50)} AS fate, 20 + ${randomColumn(999_999, 5_000)} AS tokens
      FROM (${numbers}) AS numbers
    ) AS drawn) AS requests`);
}

/** As the gateway adds them up request by request. */
async function addHours(db: Db): Promise<void> {
  const counted = "CASE WHEN outcome = 'refused' THEN 0 ELSE 1 END";
  await db.sql.script(`
    INSERT INTO usage_hour (key_id, hour_ms, group_id, public_model, interface, requests, refused, failed,
      input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens, images, cost_nano,
      duration_ms, first_byte_ms, first_bytes)
    SELECT key_id, at_ms - at_ms % 3600000, group_id, public_model, interface, SUM(${counted}),
      SUM(1 - ${counted}), COUNT(CASE WHEN outcome = 'failed' THEN 1 END), SUM(input_tokens), SUM(cached_tokens),
      SUM(cache_write_tokens), SUM(output_tokens), SUM(reasoning_tokens), SUM(images), SUM(cost_nano),
      SUM(duration_ms), COALESCE(SUM(first_byte_ms), 0), COUNT(first_byte_ms)
    FROM usage GROUP BY 1, 2, 3, 4, 5`);
}

async function dropIndexes(db: Db): Promise<string[]> {
  const found =
    db.engine === "postgres"
      ? await db.sql`SELECT indexname AS name, indexdef AS text FROM pg_indexes
          WHERE tablename IN ('usage_row', 'usage_hour') AND indexname NOT LIKE '%_pkey'`
      : await db.sql`SELECT name, sql AS text FROM sqlite_master
          WHERE type = 'index' AND tbl_name IN ('usage_row', 'usage_hour') AND sql IS NOT NULL`;
  for (const row of found) await db.sql.script(`DROP INDEX ${text(row, "name")}`);
  return found.map((row) => text(row, "text"));
}

if (import.meta.main) {
  const [url, rows = "1000000"] = process.argv.slice(2);
  if (url === undefined) {
    process.stderr.write("bun bench/fill-usage.ts <database address> [rows]\n");
    process.exit(2);
  }
  const db = await openDb(url);
  const startedMs = performance.now();
  await fillUsage(db, Number(rows), Date.now());
  process.stdout.write(`${rows} rows in ${((performance.now() - startedMs) / 1000).toFixed(1)} s\n`);
  await db.close();
}
