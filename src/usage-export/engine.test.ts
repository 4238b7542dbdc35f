import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { createHmac, randomBytes } from "node:crypto";
import { eachEngine } from "../../test/support/each-engine.ts";
import { eventually } from "../../test/support/eventually.ts";
import { startUsageReceiver, type UsageReceiver } from "../../test/support/usage-receiver.ts";
import { systemClock } from "../base/clock.ts";
import { openDeadlines } from "../base/deadlines.ts";
import { openHttpClient } from "../net/http-client/client.ts";
import type { HttpClient } from "../net/http-client/contract.ts";
import { Dialer } from "../net/http-client/dial.ts";
import { compileSnapshot } from "../policy/snapshot.ts";
import type { WebhookRecord } from "../records/settings.ts";
import { seal, webhookSecretBinding } from "../secrets/seal.ts";
import type { Db } from "../store/engine/db.ts";
import { transaction } from "../store/engine/db.ts";
import { registerProcess } from "../store/money/processes.ts";
import { JobLeases } from "../store/nodes/job-leases.ts";
import { writeUsageExport } from "../store/settings/usage-export-settings.ts";
import { settlePending } from "../store/usage/usage.ts";
import { insertUsage, usageRow } from "../store/usage/usage-row.test-support.ts";
import { readEntries } from "../store/usage-feed/feed.ts";
import { listTargets } from "../store/usage-feed/targets.ts";
import { UsageExport } from "./engine.ts";

const key = randomBytes(32);
const keyring = { activeKid: "k1", get: (kid: string) => (kid === "k1" ? key : null) };
const SECRET = "a-secret-of-the-webhook";
const FEED = "feed_0199";
const quiet = { info() {}, warn() {}, error() {} };
const snapshot = compileSnapshot(
  { models: [], accounts: [], groups: [] },
  { simulatorUrl: "", unseal: () => "credential" },
);

let receiver: UsageReceiver;
let http: HttpClient;
let deadlines: ReturnType<typeof openDeadlines>;

beforeEach(() => {
  receiver = startUsageReceiver();
  deadlines = openDeadlines(50, systemClock);
  http = openHttpClient({
    deadlines,
    clock: systemClock,
    connectTimeoutMs: 1_000,
    idleMs: 1_000,
    idlePerOriginMax: 4,
    headBytesMax: 65_536,
  });
});
afterEach(async () => {
  http.close();
  deadlines.stop();
  await receiver.stop();
});

const webhook = (change: Partial<WebhookRecord> = {}): WebhookRecord => ({
  name: "warehouse",
  url: receiver.url,
  sealedSecret: null,
  privateNetwork: true,
  enabled: true,
  ...change,
});

const configure = (db: Db, webhooks: readonly WebhookRecord[], enabled = true) =>
  transaction(db, (tx) => writeUsageExport(tx, { enabled, webhooks }, FEED));

/** The export of one node. The test starts each round itself. */
async function openNode(
  db: Db,
  { id = "inc_a", ...limits }: { id?: string; deliveryTimeoutMs?: number } = {},
) {
  const atMs = Date.now();
  const node = {
    id,
    host: "gw",
    pid: 7,
    startedAtMs: atMs,
    beatAtMs: atMs,
    folderId: null,
    startTicks: null,
  };
  await registerProcess(db, node);
  const jobs = new JobLeases({ db, clock: systemClock, holder: id });
  const engine = new UsageExport({
    db,
    clock: systemClock,
    log: quiet,
    keyring,
    // A new object each time, so that every round reads the settings again.
    policy: { snapshot: () => ({ ...snapshot }) },
    dialer: new Dialer({ clock: systemClock, lookupTimeoutMs: 1_000, cacheMs: 1_000 }),
    http,
    runJob: jobs.forJob("usage_export", 1_000),
    limits: {
      intervalMs: 3_600_000,
      deliveryTimeoutMs: 20_000,
      batchRowsMax: 10,
      retriesMs: [1],
      keptMs: 86_400_000,
      settleMs: 500,
      ...limits,
    },
  });
  return { engine, jobs };
}

let numbered = 0;
async function insert(db: Db, count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, () => `req_${String(++numbered).padStart(6, "0")}`);
  await insertUsage(
    db,
    ids.map((requestId) => usageRow({ requestId, costNano: 1_500_000n })),
  );
  return ids;
}

/** Runs rounds until the condition holds: a retry is due a moment after the failure. */
async function checkUntil(engine: UsageExport, condition: () => boolean | Promise<boolean>): Promise<void> {
  await eventually(async () => {
    await engine.check();
    return (await condition()) || undefined;
  });
}

eachEngine(({ open }) => {
  test("batches arrive in order, signed, with cursors that form a chain", async () => {
    const db = await open();
    await configure(db, [
      webhook({ sealedSecret: seal(keyring, webhookSecretBinding("usage_export", "warehouse"), SECRET) }),
    ]);
    const { engine } = await openNode(db);
    const ids = await insert(db, 25);
    await engine.check();
    expect(receiver.batches.map(({ ids }) => ids.length)).toEqual([10, 10, 5]);
    expect(receiver.batches.flatMap((batch) => batch.ids).toSorted()).toEqual(ids);
    let before = `${FEED}:0`;
    for (const { headers, text, records } of receiver.batches) {
      expect(headers.get("content-type")).toBe("application/x-ndjson");
      expect(headers.get("x-gateway-cursor-before")).toBe(before);
      before = headers.get("x-gateway-cursor") ?? "";
      expect(String(records.at(-1)?.cursor)).toBe(before);
      expect(headers.get("x-gateway-rows")).toBe(String(records.length));
      const [, seconds, mac] =
        /^t=(\d+),v1=([0-9a-f]{64})$/.exec(headers.get("x-gateway-signature") ?? "") ?? [];
      expect(mac).toBe(createHmac("sha256", SECRET).update(`${seconds}.${text}`).digest("hex"));
    }
    expect(receiver.batches[0]?.records[0]).toMatchObject({ cost_usd: "0.0015", outcome: "completed" });
    await engine.check();
    expect(receiver.batches).toHaveLength(3);
    expect(engine.counts).toMatchObject({ delivered: 3, failed: 0, rows: 25 });
    expect(engine.counts.lags()).toEqual([["warehouse", 0]]);
  });

  test("a receiver that fails, times out and closes connections gets every batch again under the same id", async () => {
    const db = await open();
    await configure(db, [webhook()]);
    const { engine } = await openNode(db, { deliveryTimeoutMs: 2_000 });
    const ids = await insert(db, 4);
    const faults = [
      () => new Response("no", { status: 500 }),
      () => new Promise<Response>(() => {}),
      () => new Response("busy", { status: 429 }),
      () => new Response("moved", { status: 302, headers: { location: receiver.url } }),
    ];
    receiver.respond(() => (faults.shift() ?? (() => new Response("ok")))());
    await engine.check();
    const [failing] = await listTargets(db);
    expect(failing).toMatchObject({ deliveredTo: 0, failures: 1, response: "HTTP 500" });
    // Rows that arrive meanwhile do not change the batch.
    const later = await insert(db, 3);
    await checkUntil(engine, () => receiver.accepted.length === 2);
    expect(receiver.batches.slice(0, 5).map(({ headers }) => headers.get("x-gateway-delivery"))).toEqual(
      Array.from({ length: 5 }, () => `${FEED}:0-4`),
    );
    expect(receiver.accepted.map(({ ids }) => ids.toSorted())).toEqual([ids, later]);
    expect(await listTargets(db)).toMatchObject([{ deliveredTo: 7, sendingTo: null, failures: 0 }]);
    expect(engine.counts.failed).toBe(4);
  });

  test("a receiver that is down for a while gets all records when it is back", async () => {
    const db = await open();
    await configure(db, [webhook()]);
    const { engine } = await openNode(db);
    await receiver.stop();
    const ids = await insert(db, 15);
    await engine.check();
    await checkUntil(engine, async () => ((await listTargets(db))[0]?.failures ?? 0) >= 3);
    expect(engine.counts.lags()[0]?.[1]).toBeGreaterThanOrEqual(0);
    receiver = startUsageReceiver(receiver.port);
    await checkUntil(engine, () => receiver.accepted.length === 2);
    expect(receiver.accepted.flatMap((batch) => batch.ids).toSorted()).toEqual(ids);
  });

  test("a node that takes over sends the batch that was in delivery, and continues after it", async () => {
    const db = await open();
    await configure(db, [webhook()]);
    const [a, b] = [await openNode(db, { id: "inc_a" }), await openNode(db, { id: "inc_b" })];
    const ids = await insert(db, 12);
    receiver.respond(() => new Response("no", { status: 503 }));
    await a.engine.check();
    await b.engine.check();
    // Only the node with the lease delivers.
    expect(receiver.batches).toHaveLength(1);
    expect(b.engine.counts.lags()).toEqual([]);
    receiver.respond(() => new Response("ok"));
    await a.jobs.release();
    await checkUntil(b.engine, () => receiver.accepted.length === 2);
    expect(receiver.batches[1]?.headers.get("x-gateway-delivery")).toBe(`${FEED}:0-10`);
    expect(receiver.accepted.flatMap((batch) => batch.ids).toSorted()).toEqual(ids);
    await a.engine.check();
    expect(a.engine.counts.delivered).toBe(0);
  });

  test("a restored receiver returns its position with 409, and gets the records again", async () => {
    const db = await open();
    await configure(db, [webhook()]);
    const { engine } = await openNode(db);
    await insert(db, 20);
    await engine.check();
    expect(receiver.accepted).toHaveLength(2);
    let isRestored = false;
    receiver.respond(() => {
      if (isRestored) return new Response("ok");
      isRestored = true;
      return new Response("gap", { status: 409, headers: { "x-gateway-cursor": `${FEED}:10` } });
    });
    await insert(db, 1);
    await checkUntil(engine, async () => (await listTargets(db))[0]?.deliveredTo === 21);
    expect(receiver.accepted.slice(2).flatMap((batch) => batch.ids)).toHaveLength(11);
    expect(receiver.accepted[2]?.headers.get("x-gateway-cursor-before")).toBe(`${FEED}:10`);
  });

  test("a cursor of another feed or ahead of the feed is not followed", async () => {
    const db = await open();
    await configure(db, [webhook()]);
    const { engine } = await openNode(db);
    await insert(db, 2);
    const cursors = ["feed_other:1", `${FEED}:99`, "nonsense", `${FEED}:0`];
    receiver.respond(() => {
      const cursor = cursors.shift();
      if (cursor === undefined) return new Response("ok");
      return new Response("gap", { status: 409, headers: { "x-gateway-cursor": cursor } });
    });
    await checkUntil(engine, () => receiver.accepted.length === 1);
    expect(receiver.accepted[0]?.headers.get("x-gateway-delivery")).toBe(`${FEED}:0-2`);
  });

  test("a batch that is too large for its receiver is cut until it fits", async () => {
    const db = await open();
    await configure(db, [webhook()]);
    const { engine } = await openNode(db);
    const ids = await insert(db, 10);
    receiver.respond(({ records }) => new Response("", { status: records.length > 3 ? 413 : 200 }));
    await checkUntil(engine, () => receiver.accepted.flatMap((batch) => batch.ids).length === 10);
    expect(receiver.accepted.flatMap((batch) => batch.ids).toSorted()).toEqual(ids);
  });

  test("a background response is exported when it has ended, and a removed row is skipped", async () => {
    const db = await open();
    await configure(db, [webhook()]);
    const { engine } = await openNode(db);
    const [kept, removed] = await insert(db, 2);
    await insertUsage(db, [usageRow({ requestId: "pending", outcome: "pending" })]);
    await db.sql`DELETE FROM usage_row WHERE request_id = ${removed ?? ""}`;
    await engine.check();
    expect(receiver.accepted.map(({ ids }) => ids)).toEqual([[kept ?? ""]]);
    await settlePending(db, "pending", null, "completed");
    await engine.check();
    expect(receiver.accepted[1]?.ids).toEqual(["pending"]);
    expect(await listTargets(db)).toMatchObject([{ deliveredTo: 4 }]);
  });

  test("entries are removed after their time, but not before an enabled webhook has received them", async () => {
    const db = await open();
    await configure(db, [webhook()]);
    await insert(db, 5);
    await db.sql`UPDATE usage_export SET appended_at_ms = 1`;
    receiver.respond(() => new Response("no", { status: 500 }));
    await (await openNode(db)).engine.check();
    const count = async () => (await readEntries(db, { after: 0, to: 1e9, limit: 100 })).length;
    expect(await count()).toBe(5);
    receiver.respond(() => new Response("ok"));
    // Another engine of the same node: the first has removed entries a moment ago.
    const { engine } = await openNode(db);
    await checkUntil(engine, () => receiver.accepted.length === 1);
    const { engine: next } = await openNode(db);
    await next.check();
    expect(await count()).toBe(1);
  });

  test("a paused webhook continues where it stopped, and a deleted one begins at the start of the feed", async () => {
    const db = await open();
    await configure(db, [webhook()]);
    const { engine } = await openNode(db);
    await insert(db, 1);
    await engine.check();
    await configure(db, [webhook({ enabled: false })]);
    const [second] = await insert(db, 1);
    await engine.check();
    expect(receiver.accepted).toHaveLength(1);
    await configure(db, [webhook()]);
    await engine.check();
    expect(receiver.accepted[1]?.ids).toEqual([second ?? ""]);
    await configure(db, []);
    await engine.check();
    expect(await listTargets(db)).toEqual([]);
    await configure(db, [webhook()]);
    await engine.check();
    expect(receiver.accepted[2]?.ids).toHaveLength(2);
  });
});

describe("addresses", () => {
  eachEngine(({ open }) => {
    test("a webhook in a private network is dialled only if the file has allowed it", async () => {
      const db = await open();
      await configure(db, [webhook({ privateNetwork: false })]);
      const { engine } = await openNode(db);
      await insert(db, 1);
      await engine.check();
      expect(receiver.batches).toEqual([]);
      expect((await listTargets(db))[0]?.response).toContain("private network");
      expect((await engine.test("warehouse"))?.ok).toBe(false);
      await configure(db, [webhook()]);
      expect(await engine.test("warehouse")).toMatchObject({ ok: true, response: "HTTP 200" });
      expect(receiver.batches[0]?.headers.get("x-gateway-rows")).toBe("0");
    });
  });
});
