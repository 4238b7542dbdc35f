import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Postgres, startPostgres } from "../../../test/support/postgres.ts";
import { type Db, openDb } from "./db.ts";
import { StoreClock } from "./store-clock.ts";

let postgres: Postgres;
let db: Db;
const DAY_MS = 86_400_000;

beforeAll(async () => {
  postgres = await startPostgres();
  db = await openDb(postgres.url);
}, 300_000);

afterAll(async () => {
  await db.close();
  await postgres.stop();
});

/** A machine whose wall clock is wrong by `errorMs`, which may change. */
function machineClock(errorMs: number) {
  const machine = {
    errorMs,
    nowMs: () => Date.now() + machine.errorMs,
    monotonicMs: () => performance.now(),
  };
  return machine;
}

test("a node whose clock is a day ahead uses the time of the database", async () => {
  const clock = new StoreClock(machineClock(DAY_MS));
  expect(clock.nowMs() - Date.now()).toBeGreaterThan(DAY_MS - 1_000);
  await clock.synchronize(db);
  expect(Math.abs(clock.nowMs() - Date.now())).toBeLessThan(1_000);
});

test("a step of the machine's clock changes nothing", async () => {
  const machine = machineClock(0);
  const clock = new StoreClock(machine);
  await clock.synchronize(db);
  machine.errorMs = -600_000;
  expect(Math.abs(clock.nowMs() - Date.now())).toBeLessThan(1_000);
  await clock.synchronize(db);
  expect(Math.abs(clock.nowMs() - Date.now())).toBeLessThan(1_000);
});

test("its methods work without their object", async () => {
  const clock = new StoreClock(machineClock(DAY_MS));
  const { nowMs, monotonicMs } = clock;
  await clock.synchronize(db);
  expect(Math.abs(nowMs() - Date.now())).toBeLessThan(1_000);
  expect(Math.abs(monotonicMs() - performance.now())).toBeLessThan(100);
});

test("an embedded database has no clock", async () => {
  const embedded = await openDb("sqlite::memory:");
  const clock = new StoreClock(machineClock(DAY_MS));
  await clock.synchronize(embedded);
  expect(clock.nowMs() - Date.now()).toBeGreaterThan(DAY_MS - 1_000);
  await embedded.close();
});
