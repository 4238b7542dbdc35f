import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { createHmac, randomBytes } from "node:crypto";
import { eventually } from "../../test/support/eventually.ts";
import { startWebhookListener, type WebhookListener } from "../../test/support/webhook-listener.ts";
import { upstreamFailure } from "../accounts/failure.ts";
import { systemClock, uuidV7 } from "../base/clock.ts";
import { openDeadlines } from "../base/deadlines.ts";
import { openHttpClient } from "../net/http-client/client.ts";
import type { HttpClient } from "../net/http-client/contract.ts";
import { Dialer } from "../net/http-client/dial.ts";
import { BillingFaults } from "../observe/billing-faults.ts";
import { openTraffic, type Traffic } from "../observe/traffic.ts";
import { compileSnapshot } from "../policy/snapshot.ts";
import { openTestPool } from "../pool/pool.test-support.ts";
import { accountRecord, modelRecord } from "../records/records.test-support.ts";
import { type AlertsRecord, DEFAULT_ALERTS, type WebhookRecord } from "../records/settings.ts";
import { seal, webhookSecretBinding } from "../secrets/seal.ts";
import { listAlerts } from "../store/alerts/alerts.ts";
import { type Db, openDb } from "../store/engine/db.ts";
import { migrate } from "../store/engine/migrate.ts";
import { insertOverruns } from "../store/money/overruns.ts";
import { readAlertSettings, writeAlertSettings } from "../store/settings/sections.ts";
import { type Alerts, startAlerts } from "./engine.ts";

const key = randomBytes(32);
const keyring = { activeKid: "k1", get: (kid: string) => (kid === "k1" ? key : null) };
const SECRET = "a-secret-of-the-webhook";
const quiet = { info() {}, warn() {}, error() {} };

const records = {
  models: [modelRecord("m")],
  accounts: [accountRecord("acct_1", { name: "openai-1", sealedCredential: "sealed" })],
  groups: [],
};

/** What this process knows of the database. */
const store = { sinceWrittenMs: () => sinceWrittenMs, replacedAtMs: () => null };
let sinceWrittenMs = 0;

let db: Db;
let listener: WebhookListener;
let http: HttpClient;
let deadlines: ReturnType<typeof openDeadlines>;
let engines: Alerts[] = [];

beforeEach(async () => {
  sinceWrittenMs = 0;
  db = await openDb("sqlite::memory:");
  await migrate(db);
  listener = startWebhookListener();
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
  for (const engine of engines) await engine.stop();
  engines = [];
  http.close();
  deadlines.stop();
  await listener.stop();
  await db.close();
});

const webhook = (change: Partial<WebhookRecord> = {}): WebhookRecord => ({
  name: "ops",
  url: listener.url,
  sealedSecret: null,
  privateNetwork: true,
  enabled: true,
  ...change,
});

const configure = (change: Partial<AlertsRecord>) => writeAlertSettings(db, { ...DEFAULT_ALERTS, ...change });

/** An engine of one process. The test can park and restore its account. */
function start(traffic: Traffic = openTraffic(), retriesMs: readonly number[] = [1, 1]) {
  const rig = openTestPool();
  const snapshot = compileSnapshot(records, { simulatorUrl: "", unseal: () => "credential" });
  const account = snapshot.accounts.get("acct_1");
  if (account === undefined) throw new Error("the account is in the snapshot");
  const route = { account, upstreamModel: "m", translation: null };
  const billingFaults = new BillingFaults(systemClock.nowMs);
  const engine = startAlerts({
    db,
    clock: systemClock,
    log: quiet,
    keyring,
    newId: uuidV7,
    // A new object each time, so that every check reads the settings again.
    policy: { snapshot: () => ({ ...snapshot }) },
    pool: rig.pool,
    traffic,
    dialer: new Dialer({ clock: systemClock, lookupTimeoutMs: 1_000, cacheMs: 1_000 }),
    http,
    origin: () => ({ node: "here:8787", publicUrl: "https://gateway.example" }),
    billingFaults,
    loop: { countRepeated: () => 0 },
    store,
    // The test starts each check itself.
    limits: {
      checkIntervalMs: 3_600_000,
      deliveryTimeoutMs: 1_000,
      retriesMs,
      keptMs: 86_400_000,
      billingFaultMs: 3_600_000,
      nodeSilentMs: 30_000,
      databaseAwayMs: 30_000,
      failoverMs: 3_600_000,
      directoryLoss: { people: 10, percent: 20, overMs: 600_000, reportedMs: 86_400_000 },
    },
  });
  engines.push(engine);
  return {
    engine,
    billingFaults,
    park() {
      const picked = rig.take([route]);
      rig.pool.recordFailure(route, upstreamFailure("credential", "refused"));
      picked.lease.release();
    },
    mend: () => rig.pool.resetHealth("acct_1"),
    succeed() {
      const picked = rig.take([route]);
      rig.pool.recordSuccess(route, 10, null);
      picked.lease.release();
    },
  };
}

const deliveries = async () => {
  const { alerts } = await listAlerts(db, { after: null, limit: 10 });
  return alerts.flatMap((alert) => alert.deliveries);
};

describe("an alert", () => {
  test("is sent to a webhook once when it fires and once when it is resolved", async () => {
    await configure({ webhooks: [webhook()] });
    const { engine, park, mend } = start();
    await engine.check();
    expect(listener.posts).toEqual([]);
    park();
    await engine.check();
    const firing = await listener.next("alert.firing");
    expect(firing.path).toBe("/hook?room=ops");
    expect(firing.body).toMatchObject({
      text: expect.stringContaining("Account openai-1 is parked"),
      alert: { rule: "account_parked", details: { account: "openai-1" }, ended_at: null },
      gateway: { node: "here:8787", url: "https://gateway.example" },
    });
    expect(firing.headers.get("x-gateway-signature")).toBeNull();
    await engine.check();
    await engine.check();
    mend();
    await engine.check();
    const resolved = await listener.next("alert.resolved");
    expect(resolved.body.alert).toMatchObject({ id: firing.body.alert?.id, ended_at: expect.any(Number) });
    expect(listener.posts).toHaveLength(2);
  });

  test("fires for a paid request that was recorded without a payer", async () => {
    await configure({ webhooks: [webhook()] });
    const { engine, billingFaults } = start();
    await engine.check();
    expect(listener.posts).toEqual([]);
    billingFaults.add("unpaid_row");
    await engine.check();
    expect((await listener.next("alert.firing")).body.alert).toMatchObject({
      rule: "billing_fault",
      details: { fault: "unpaid_row", count: 1 },
    });
    billingFaults.add("unpaid_row");
    await engine.check();
    expect(listener.posts).toHaveLength(1);
  });

  test("is signed with the webhook's secret, over the time and the body", async () => {
    const sealedSecret = seal(keyring, webhookSecretBinding("alerts", "ops"), SECRET);
    await configure({ webhooks: [webhook({ sealedSecret })] });
    const { engine, park } = start();
    park();
    await engine.check();
    const { headers, text } = await listener.next("alert.firing");
    const signature = headers.get("x-gateway-signature") ?? "";
    const [, seconds = "", mac = ""] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(signature) ?? [];
    expect(mac).toBe(createHmac("sha256", SECRET).update(`${seconds}.${text}`).digest("hex"));
    expect(text).not.toContain(SECRET);
  });

  test("is retried after a failure, and the result of each delivery is recorded", async () => {
    await configure({ webhooks: [webhook()] });
    listener.respond(() => new Response("no", { status: 500 }));
    const { engine, park } = start();
    park();
    await engine.check();
    await eventually(async () => (await deliveries())[0]?.response, { equals: "HTTP 500" });
    listener.respond(() => new Response("yes"));
    await eventually(async () => {
      await engine.check();
      return (await deliveries())[0]?.state === "delivered";
    });
    expect(listener.posts.length).toBeGreaterThanOrEqual(2);
    // The delivery id is the same for each attempt, so that the receiver can detect a repeat.
    expect(new Set(listener.posts.map(({ headers }) => headers.get("x-gateway-delivery"))).size).toBe(1);
  });

  test("fails permanently after the last retry", async () => {
    await configure({ webhooks: [webhook()] });
    listener.respond(() => new Response(null, { status: 302, headers: { location: "http://127.0.0.1:1/" } }));
    const { engine, park } = start();
    park();
    const [last] = await eventually(async () => {
      await engine.check();
      const all = await deliveries();
      return all[0]?.state === "failed" ? all : null;
    });
    expect(last).toMatchObject({ attempts: 3, response: "HTTP 302" });
  });

  test("is not sent to a private address unless the file allows it", async () => {
    await configure({ webhooks: [webhook({ privateNetwork: false })] });
    const { engine, park } = start(openTraffic(), []);
    park();
    await engine.check();
    await eventually(async () => (await deliveries())[0]?.state, { equals: "failed" });
    expect((await deliveries())[0]?.response).toContain("private network");
    expect(listener.posts).toEqual([]);
  });

  test("is not sent again after a restart, and is resolved once the account has responded", async () => {
    await configure({ webhooks: [webhook()] });
    const first = start();
    first.park();
    await first.engine.check();
    await listener.next("alert.firing");
    await first.engine.stop();

    const second = start();
    await second.engine.check();
    second.park();
    await second.engine.check();
    expect(listener.posts).toHaveLength(1);
    await second.engine.stop();

    const third = start();
    await third.engine.check();
    expect(listener.posts).toHaveLength(1);
    third.succeed();
    await third.engine.check();
    await listener.next("alert.resolved");
  });

  test("about the spend of a day is sent by one of two processes", async () => {
    await configure({ webhooks: [webhook()], spend: { enabled: true, usdPerDay: "1" } });
    const traffic = { ...openTraffic() };
    const [one, two] = [start(traffic), start(traffic)];
    await one.engine.check();
    await two.engine.check();
    traffic.costNano = 2e9;
    await one.engine.check();
    await two.engine.check();
    await listener.next("alert.firing");
    expect((await listAlerts(db, { after: null, limit: 10 })).alerts).toMatchObject([
      { rule: "spend", node: "", endedAtMs: null },
    ]);
  });

  test("fires for repeated overruns of a user, and is resolved when their time has passed", async () => {
    await configure({ overruns: { enabled: true, count: 3, overMs: 3_600_000 } });
    const overrun = (requestId: string, atMs: number) => ({
      requestId,
      atMs,
      userId: "u1",
      subscriptionId: null,
      heldNano: 10n,
      chargedNano: 30n,
      debtNano: 5n,
    });
    const nowMs = Date.now();
    await insertOverruns(db, [overrun("r1", nowMs), overrun("r2", nowMs), overrun("r3", nowMs - 7_200_000)]);
    const listed = async () => (await listAlerts(db, { after: null, limit: 10 })).alerts;
    await start().engine.check();
    expect(await listed()).toEqual([]);
    await insertOverruns(db, [overrun("r4", nowMs)]);
    await start().engine.check();
    expect(await listed()).toMatchObject([
      { rule: "overruns", subject: "u1", node: "", details: { overruns: 3, usd: "0.00000006" } },
    ]);
    await db.sql`UPDATE overrun SET at_ms = ${nowMs - 7_200_000}`;
    await start().engine.check();
    expect(await listed()).toMatchObject([{ rule: "overruns", endedAtMs: expect.any(Number) }]);
  });

  test("fires for an error rate, and is resolved when requests succeed again", async () => {
    await configure({ errorRate: { enabled: true, percent: 50, overMs: 60_000, requestsMin: 10 } });
    const traffic = { ...openTraffic() };
    const { engine } = start(traffic);
    traffic.requests = 10;
    traffic.errors = 5;
    await engine.check();
    traffic.requests = 100;
    await engine.check();
    const { alerts } = await listAlerts(db, { after: null, limit: 10 });
    expect(alerts).toMatchObject([{ rule: "error_rate", endedAtMs: expect.any(Number), deliveries: [] }]);
  });
});

describe("the alert about a database that is away", () => {
  const listed = async () => (await listAlerts(db, { after: null, limit: 10 })).alerts;

  test("is sent without the database, and stored with its end when the database is back", async () => {
    await configure({ webhooks: [webhook()] });
    const { engine } = start();
    await engine.check();
    sinceWrittenMs = 29_999;
    await engine.check();
    sinceWrittenMs = 31_000;
    for (let checks = 0; checks < 3; checks++) await engine.check();
    const firing = await listener.next("alert.firing");
    expect(firing.body.alert).toMatchObject({ rule: "database_away", details: { seconds: 31 } });
    expect(await listed()).toEqual([]);
    sinceWrittenMs = 100;
    await eventually(async () => {
      await engine.check();
      return (await listed()).length === 1;
    });
    const resolved = await listener.next("alert.resolved");
    expect(resolved.body.alert).toMatchObject({ id: firing.body.alert?.id, ended_at: expect.any(Number) });
    expect(await listed()).toMatchObject([{ rule: "database_away", node: "here:8787" }]);
    expect(listener.posts).toHaveLength(2);
  });

  test("is sent later to a webhook that did not accept it", async () => {
    await configure({ webhooks: [webhook()] });
    listener.respond(() => new Response("no", { status: 500 }));
    const { engine } = start(openTraffic(), [3_600_000]);
    await engine.check();
    sinceWrittenMs = 31_000;
    await engine.check();
    await listener.next("alert.firing");
    listener.respond(() => new Response("thanks"));
    sinceWrittenMs = 0;
    await eventually(async () => {
      await engine.check();
      return listener.posts.length === 3;
    });
    expect(listener.posts.map(({ body }) => body.type)).toEqual([
      "alert.firing",
      "alert.firing",
      "alert.resolved",
    ]);
  });
});

test("a test alert is sent at once and returns the result", async () => {
  await configure({ webhooks: [webhook()] });
  const { engine } = start();
  expect(await engine.test("ops")).toMatchObject({ ok: true, response: "HTTP 200" });
  expect(listener.posts[0]?.body).toMatchObject({ type: "alert.test", alert: null });
  listener.respond(() => new Response("gone", { status: 410 }));
  expect(await engine.test("ops")).toMatchObject({ ok: false, response: "HTTP 410" });
  expect(await engine.test("nobody")).toBeNull();
  expect((await readAlertSettings(db)).webhooks).toHaveLength(1);
});
