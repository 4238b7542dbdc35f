import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { type LogFields, openLog } from "../observe/log.ts";
import { type Db, openDb } from "../store/db.ts";
import { migrate } from "../store/migrate.ts";
import type { UsageRow } from "../store/usage.ts";
import { openUsageWriter, type UsageWriterOptions } from "./settle.ts";

let db: Db;
let logged: LogFields[];
let writes: number;

beforeEach(async () => {
  db = await openDb("sqlite::memory:");
  await migrate(db);
  logged = [];
  writes = 0;
});

afterEach(() => db.close());

const row = (requestId: string): UsageRow => ({
  requestId,
  atMs: 1_790_000_000_000,
  keyId: "k1",
  userId: null,
  groupId: "g1",
  accountId: "a1",
  interface: "chat",
  endpoint: "chat.completions",
  publicModel: "fast",
  upstreamModel: "up",
  stream: false,
  status: 200,
  outcome: "completed",
  errorCode: null,
  inputTokens: 3,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 4,
  reasoningTokens: 0,
  images: 0,
  usageSource: "upstream",
  attempts: 1,
  firstByteMs: 1,
  durationMs: 2,
  waitMs: 0,
  trace: null,
  responseId: null,
  upstreamRequestId: null,
});

/** A writer that does nothing by itself unless the test says so. */
function writer(change: Partial<UsageWriterOptions> = {}) {
  return openUsageWriter({
    db: {
      ...db,
      begin(mode, work) {
        writes++;
        return db.begin(mode, work);
      },
    },
    log: openLog(
      () => 0,
      (line) => logged.push(JSON.parse(line)),
    ),
    gatherMs: 3_600_000,
    batchRowsMax: 100,
    waitingRowsMax: 1_000,
    retryMs: 0,
    ...change,
  });
}

async function stored(): Promise<string[]> {
  const rows = await db.sql`SELECT request_id FROM usage ORDER BY request_id`;
  return rows.map((found) => String(found.request_id));
}

const loseStore = () => db.sql.script("ALTER TABLE usage RENAME TO usage_away");
const mendStore = () => db.sql.script("ALTER TABLE usage_away RENAME TO usage");

describe("usage rows", () => {
  test("are in the store once a flush is through", async () => {
    const usage = writer();
    usage.push(row("r1"));
    expect(await stored()).toEqual([]);
    await usage.flush();
    expect(await stored()).toEqual(["r1"]);
  });

  test("that wait together are written together", async () => {
    const usage = writer();
    for (const id of ["r1", "r2", "r3"]) usage.push(row(id));
    await usage.flush();
    expect(writes).toBe(1);
  });

  test("are written without a flush when they have waited long enough", async () => {
    const usage = writer({ gatherMs: 1 });
    usage.push(row("r1"));
    while ((await stored()).length === 0) await Bun.sleep(1);
    usage.push(row("r2"));
    while ((await stored()).length === 1) await Bun.sleep(1);
    expect(writes).toBe(2);
  });

  test("are written at once when there are enough for a batch, and never more than that in one", async () => {
    const usage = writer({ batchRowsMax: 2 });
    for (const id of ["r1", "r2", "r3", "r4", "r5"]) usage.push(row(id));
    while ((await stored()).length < 5) await Bun.sleep(1);
    expect(writes).toBe(3);
  });

  test("that come while a write is under way are part of the flush that follows", async () => {
    const usage = writer({ batchRowsMax: 1 });
    usage.push(row("r1"));
    usage.push(row("r2"));
    const flushing = usage.flush();
    usage.push(row("r3"));
    await flushing;
    expect(await stored()).toContain("r2");
    await usage.flush();
    expect(await stored()).toEqual(["r1", "r2", "r3"]);
  });

  test("pushed twice are one", async () => {
    const usage = writer();
    usage.push(row("r1"));
    await usage.flush();
    usage.push(row("r1"));
    await usage.flush();
    expect(await stored()).toEqual(["r1"]);
  });

  test("are not written for nothing", async () => {
    await writer().flush();
    expect(writes).toBe(0);
  });
});

describe("while the store takes nothing", () => {
  test("rows are kept, tried again by themselves, and none is lost or doubled", async () => {
    const usage = writer({ gatherMs: 1, retryMs: 1, batchRowsMax: 2 });
    await loseStore();
    for (const id of ["r1", "r2", "r3"]) usage.push(row(id));
    while (logged.length < 2) await Bun.sleep(1);
    expect(logged[0]).toMatchObject({ level: "error", event: "usage_write_failed", rows: 3 });
    await mendStore();
    while ((await stored()).length < 3) await Bun.sleep(1);
    await usage.flush();
    expect(await stored()).toEqual(["r1", "r2", "r3"]);
    const [sum] = await db.sql`SELECT SUM(requests) AS requests FROM usage_hour`;
    expect(Number(sum?.requests)).toBe(3);
  });

  test("a flush says so instead of pretending", async () => {
    const usage = writer();
    await loseStore();
    usage.push(row("r1"));
    await expect(usage.flush()).rejects.toThrow("does not take");
    await mendStore();
    await usage.flush();
    expect(await stored()).toEqual(["r1"]);
  });

  test("there is room for so many rows and no more, until it takes them again", async () => {
    const usage = writer({ waitingRowsMax: 2 });
    await loseStore();
    expect(usage.hasRoom()).toBe(true);
    usage.push(row("r1"));
    expect(usage.hasRoom()).toBe(true);
    usage.push(row("r2"));
    expect(usage.hasRoom()).toBe(false);
    await mendStore();
    await usage.flush();
    expect(usage.hasRoom()).toBe(true);
  });
});
