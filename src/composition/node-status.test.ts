import { expect, test } from "bun:test";
import { systemClock } from "../base/clock.ts";
import { openLog } from "../observe/log.ts";
import { openDb } from "../store/engine/db.ts";
import { migrate } from "../store/engine/migrate.ts";
import { NodeStatus } from "./node-status.ts";

test("changes while the database is away are published together, once it has failed to respond", async () => {
  const db = await openDb("sqlite::memory:");
  await migrate(db);
  const lines: string[] = [];
  const log = openLog(systemClock.nowMs, (line) => lines.push(line));
  const status = new NodeStatus({ db, machineClock: systemClock, log, id: "process-1", everyMs: 60_000 });
  await db.close();
  const updates = Array.from({ length: 100 }, () => status.update({ state: "draining" }));
  await status.stop();
  await Promise.all(updates);
  expect(lines.map((line) => JSON.parse(line).event)).toEqual(["node_status_failed"]);
});
