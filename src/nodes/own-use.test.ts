import { afterEach, beforeEach, expect, test } from "bun:test";
import { openLog } from "../observe/log.ts";
import { type Db, openDb } from "../store/engine/db.ts";
import { migrate } from "../store/engine/migrate.ts";
import { usageRow } from "../store/usage/usage-row.test-support.ts";
import { OwnUse } from "./own-use.ts";

const HOUR_MS = 3_600_000;
const START_MS = Date.parse("2026-09-30T12:00:00Z");

let db: Db;
let nowMs: number;

beforeEach(async () => {
  db = await openDb("sqlite::memory:");
  await migrate(db);
  nowMs = START_MS + 60_000;
});

afterEach(() => db.close());

function open(flush: () => Promise<void> = async () => {}): OwnUse {
  const clock = { nowMs: () => nowMs };
  return new OwnUse({
    db,
    clock,
    log: openLog(clock.nowMs, () => {}),
    node: "n1",
    flush,
    limits: { publishIntervalMs: 60_000, keptMs: 2 * HOUR_MS },
  });
}

const row = (atMs: number, change = {}) => usageRow({ atMs, inputTokens: 30, outputTokens: 70, ...change });

async function readPublished(): Promise<number[][]> {
  const rows = await db.sql`SELECT hour_ms, requests, tokens, cost_nano FROM node_use ORDER BY hour_ms`;
  return rows.map((one) => [
    (Number(one.hour_ms) - START_MS) / HOUR_MS,
    Number(one.requests),
    Number(one.tokens),
    Number(one.cost_nano),
  ]);
}

test("the use of an hour is published as its sum, without rejected requests", async () => {
  const own = open();
  own.add(row(START_MS, { costNano: 5n }));
  own.add(row(START_MS + 1_000, { costNano: 7n }));
  own.add(row(START_MS + 2_000, { outcome: "refused", inputTokens: 0, outputTokens: 0 }));
  own.add(row(START_MS + HOUR_MS));
  await own.publish();
  expect(await readPublished()).toEqual([
    [0, 2, 200, 12],
    [1, 1, 100, 0],
  ]);
  own.add(row(START_MS + 3_000));
  await own.publish();
  expect((await readPublished())[0]).toEqual([0, 3, 300, 12]);
});

test("a row that is added while rows are stored is published the next time", async () => {
  const own: OwnUse = open(async () => own.add(row(START_MS)));
  own.add(row(START_MS));
  await own.publish();
  expect(await readPublished()).toEqual([[0, 1, 100, 0]]);
});

test("nothing is published until the rows are stored", async () => {
  let isStored = false;
  const own = open(async () => {
    if (!isStored) throw new Error("the database does not answer");
  });
  own.add(row(START_MS));
  await expect(own.publish()).rejects.toThrow("the database does not answer");
  expect(await readPublished()).toEqual([]);
  isStored = true;
  await own.publish();
  expect(await readPublished()).toEqual([[0, 1, 100, 0]]);
});

test("an hour that ended long ago is forgotten, and a late row never publishes more than is stored", async () => {
  const own = open();
  own.add(row(START_MS));
  own.add(row(START_MS));
  await own.publish();
  nowMs = START_MS + 4 * HOUR_MS;
  await own.publish();
  own.add(row(START_MS));
  await own.publish();
  expect(await readPublished()).toEqual([[0, 1, 100, 0]]);
});
