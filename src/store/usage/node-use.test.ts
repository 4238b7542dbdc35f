import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import type { Db } from "../engine/db.ts";
import { writeHeartbeat } from "../money/processes.ts";
import { deleteOldNodeUse, type NodeUse, publishNodeUse } from "./node-use.ts";
import { readUsageByHour } from "./usage-hour.ts";
import { insertUsage, usageRow } from "./usage-row.test-support.ts";

const HOUR_MS = 3_600_000;
const START_MS = Date.parse("2026-09-30T12:00:00Z");

const row = (atMs: number) => usageRow({ atMs, inputTokens: 30, outputTokens: 70, costNano: 9n });

const use = (change: Partial<NodeUse> = {}): NodeUse => ({
  keyId: "k1",
  groupId: "g1",
  hourMs: START_MS,
  requests: 1,
  tokens: 100,
  costNano: 9n,
  ...change,
});

async function readUse(db: Db, exceptNodes: readonly string[]): Promise<number[][]> {
  const hours = await readUsageByHour(db, START_MS - HOUR_MS, { exceptNodes });
  return hours.map(({ atMs, requests, tokens, costNano }) => [
    Math.floor((atMs - START_MS) / HOUR_MS),
    requests,
    tokens,
    Number(costNano),
  ]);
}

eachEngine(({ open }) => {
  test("usage without that of some nodes is what they have not published", async () => {
    const db = await open();
    await insertUsage(db, [row(START_MS), row(START_MS + 1), row(START_MS + 2), row(START_MS + HOUR_MS)]);
    await publishNodeUse(db, "n1", [use(), use({ hourMs: START_MS + HOUR_MS })]);
    await publishNodeUse(db, "n2", [use()]);
    expect(await readUse(db, [])).toEqual([
      [0, 3, 300, 27],
      [1, 1, 100, 9],
    ]);
    expect(await readUse(db, ["n2", "unknown"])).toEqual([
      [0, 2, 200, 18],
      [1, 1, 100, 9],
    ]);
    expect(await readUse(db, ["n1", "n2"])).toEqual([[0, 1, 100, 9]]);
    await publishNodeUse(db, "n2", [use({ requests: 2, tokens: 150, costNano: 18n })]);
    expect(await readUse(db, ["n1", "n2"])).toEqual([[0, 0, 50, 0]]);
  });

  test("the use of ended processes and of old hours is deleted", async () => {
    const db = await open();
    await insertUsage(db, [row(START_MS), row(START_MS + HOUR_MS)]);
    await writeHeartbeat(db, {
      id: "running",
      host: "h",
      pid: 1,
      startedAtMs: 1,
      beatAtMs: 1,
      folderId: null,
      startTicks: null,
    });
    await publishNodeUse(db, "running", [use(), use({ hourMs: START_MS + HOUR_MS })]);
    await publishNodeUse(db, "ended", [use({ hourMs: START_MS + HOUR_MS })]);
    await deleteOldNodeUse(db, START_MS + HOUR_MS);
    const rows = await db.sql`SELECT node, hour_ms FROM node_use`;
    expect(rows.map(({ node, hour_ms }) => [node, Number(hour_ms)])).toEqual([
      ["running", START_MS + HOUR_MS],
    ]);
  });
});
