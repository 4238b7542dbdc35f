/**
 * Times what dashboards ask: `npm run bench:charts -- [rows] [database address]`. Without an address SQLite and
 * PostgreSQL are filled one after the other, in a folder that goes afterwards. A store that has rows is used as it is.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { foldDays } from "../src/billing/maintenance/fold-days.ts";
import { type Db, openDb } from "../src/store/engine/db.ts";
import { migrate } from "../src/store/engine/migrate.ts";
import { integer } from "../src/store/engine/row.ts";
import { type ChartScope, readTopUsage, readUsageSeries } from "../src/store/reports/usage-charts.ts";
import { listUsage, type UsageFilter } from "../src/store/reports/usage-list.ts";
import { startPostgres } from "../test/support/postgres.ts";
import { fillUsage } from "./fill-usage.ts";

const DAY_MS = 86_400_000;
const REPEATS = 15;
const GOAL_MS = 50;

const SCOPES: readonly ChartScope[] = [
  { kind: "all" },
  { kind: "group", id: "g3" },
  { kind: "user", id: "u33" },
  { kind: "key", id: "k333" },
];

interface ChartQuery {
  title: string;
  /** Whether the goal is for it. */
  isChart: boolean;
  ask(): Promise<readonly unknown[]>;
}

function buildQueries(db: Db, nowMs: number): ChartQuery[] {
  const range = { fromMs: nowMs - 90 * DAY_MS, toMs: nowMs };
  const series = SCOPES.flatMap((scope) =>
    (["total", "model"] as const).map((by) => ({
      title: `90 days, ${scope.kind}, by ${by}`,
      isChart: true,
      ask: () => readUsageSeries(db, { scope, ...range, granularity: "day", by }),
    })),
  );
  const hours = SCOPES.map((scope) => ({
    title: `24 hours, ${scope.kind}, by model`,
    isChart: true,
    ask: () =>
      readUsageSeries(db, { scope, fromMs: nowMs - DAY_MS, toMs: nowMs, granularity: "hour", by: "model" }),
  }));
  const tops = [
    ...(["key", "user", "group", "model"] as const).map((of) => ({ of, within: { kind: "all" } as const })),
    { of: "key", within: { kind: "user", id: "u33" } } as const,
    { of: "key", within: { kind: "group", id: "g3" } } as const,
    { of: "model", within: { kind: "key", id: "k333" } } as const,
  ].map(({ of, within }) => ({
    title: `90 days, top ${of}s of ${within.kind}`,
    isChart: true,
    ask: () => readTopUsage(db, { rankBy: of, within, ...range, limit: 20 }),
  }));
  const filters: [string, UsageFilter][] = [
    ["all", {}],
    ["one key", { keyId: "k333" }],
    ["one user", { userId: "u33" }],
    ["one group", { groupId: "g3" }],
    ["one key, failed", { keyId: "k333", outcome: "failed" }],
    ["one model, failed", { model: "model-3", outcome: "failed" }],
  ];
  const lists = filters.map(([title, filter]) => ({
    title: `page of 100 in the middle, ${title}`,
    isChart: false,
    ask: async () =>
      (
        await listUsage(db, filter, {
          after: { atMs: nowMs - 45 * DAY_MS, requestId: "req_9" },
          limit: 100,
        })
      ).rows,
  }));
  const fold = {
    title: "fold of the last hours",
    isChart: false,
    ask: () => foldDays(db, nowMs, false),
  };
  return [...series, ...hours, ...tops, ...lists, fold];
}

/** True if every chart was fast enough. */
async function measure(db: Db, rowsWanted: number): Promise<boolean> {
  await migrate(db);
  const [newest] = await db.sql`SELECT at_ms FROM usage ORDER BY at_ms DESC LIMIT 1`;
  let nowMs = Date.now();
  if (newest === undefined) {
    const startedMs = performance.now();
    await fillUsage(db, rowsWanted, nowMs);
    print(
      `${db.engine}: ${rowsWanted} rows made in ${((performance.now() - startedMs) / 1000).toFixed(1)} s`,
    );
  } else nowMs = integer(newest, "at_ms") + 1;
  let good = true;
  print(`${"".padEnd(48)}${"rows".padStart(7)}${"median ms".padStart(11)}${"most ms".padStart(10)}`);
  for (const { title, isChart, ask } of buildQueries(db, nowMs)) {
    const times: number[] = [];
    let rows = 0;
    for (let i = 0; i < REPEATS; i++) {
      const startedMs = performance.now();
      rows = (await ask()).length;
      times.push(performance.now() - startedMs);
    }
    times.sort((a, b) => a - b);
    const median = times[Math.floor(REPEATS / 2)] ?? 0;
    const slow = isChart && median > GOAL_MS;
    if (slow) good = false;
    const cells = [median.toFixed(2).padStart(11), (times.at(-1) ?? 0).toFixed(2).padStart(10)];
    print(`${title.padEnd(48)}${String(rows).padStart(7)}${cells.join("")}${slow ? "  too slow" : ""}`);
  }
  return good;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

async function measureAt(url: string, rows: number): Promise<boolean> {
  const db = await openDb(url);
  try {
    return await measure(db, rows);
  } finally {
    await db.close();
  }
}

const [rows = "1000000", url] = process.argv.slice(2);
if (url !== undefined) process.exit((await measureAt(url, Number(rows))) ? 0 : 1);
const folder = mkdtempSync(join(tmpdir(), "gateway-charts-"));
let good = await measureAt(`sqlite:${folder}/usage.db`, Number(rows));
rmSync(folder, { recursive: true, force: true });
const postgres = await startPostgres();
good = (await measureAt(postgres.url, Number(rows))) && good;
await postgres.stop();
process.exit(good ? 0 : 1);
