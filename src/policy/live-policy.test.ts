import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../../test/support/eventually.ts";
import { type LogFields, openLog } from "../observe/log.ts";
import { NO_LIMITS } from "../records/limits.ts";
import {
  accountRecord,
  groupRecord,
  keyRecord as key,
  modelRecord,
  userRecord,
} from "../records/records.test-support.ts";
import { openKeyring } from "../secrets/keyring.ts";
import { accountCredentialBinding, seal } from "../secrets/seal.ts";
import { type Db, openDb } from "../store/engine/db.ts";
import { migrate } from "../store/engine/migrate.ts";
import { putUser } from "../store/identity/users.ts";
import { putAccount } from "../store/policy/accounts.ts";
import { putGroup } from "../store/policy/groups.ts";
import { insertKey, revokeKey } from "../store/policy/keys.ts";
import { putModel } from "../store/policy/models.ts";
import { writePriceList } from "../store/policy/price-list.ts";
import { type LivePolicy, openLivePolicy } from "./live-policy.ts";

let folder: string;
let db: Db;
let policy: LivePolicy;
let logged: LogFields[];

function keyring() {
  return openKeyring({ file: join(folder, "master.key"), fromEnv: undefined });
}

const account = (sealedCredential: string | null) => accountRecord("a1", { sealedCredential });

async function open(store: Db, pollMs = 3_600_000, timeoutMs = 5_000): Promise<LivePolicy> {
  const log = openLog(
    () => 0,
    (line) => logged.push(JSON.parse(line)),
  );
  return openLivePolicy({
    db: store,
    clock: { nowMs: () => 0, monotonicMs: () => performance.now() },
    keyring: keyring(),
    simulatorUrl: null,
    log,
    pollMs,
    timeoutMs,
  });
}

async function publish(model: string): Promise<void> {
  await putModel(db, modelRecord(model));
  await putGroup(db, groupRecord("g1", { interfaces: ["chat"], models: [model], accounts: ["a1"] }));
}

/** The database, with the results of single statements delayed while there is something to wait for. */
function respondingAfter(wait: () => Promise<void> | null): Db["sql"] {
  const { sql } = db;
  const late = async (...asked: Parameters<Db["sql"]>) => {
    const rows = await sql(...asked);
    await wait();
    return rows;
  };
  return Object.assign(late, { text: sql.text, script: sql.script, each: sql.each });
}

const listed = () => [...(policy.snapshot().groups.get("g1")?.models.keys() ?? [])];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "gateway-policy-"));
  logged = [];
  db = await openDb("sqlite::memory:");
  await migrate(db);
  await putAccount(db, account(null));
  await publish("m1");
  await insertKey(db, key("k1"));
  policy = await open(db);
});

afterEach(async () => {
  policy.close();
  await db.close();
  rmSync(folder, { recursive: true, force: true });
});

describe("the live policy", () => {
  test("has the state of the database at the start", () => {
    expect(listed()).toEqual(["m1"]);
    expect(policy.keys.find("digest of k1", 0)?.id).toBe("k1");
  });

  test("applies a policy change", async () => {
    await publish("m2");
    await policy.refresh();
    expect(listed()).toEqual(["m2"]);
  });

  test("applies a newer price list", async () => {
    const priceOfM1 = () => policy.snapshot().groups.get("g1")?.models.get("m1")?.tariff?.prices.tokens.input;
    expect(priceOfM1()).toBeUndefined();
    const m1 = { price: { input: "1" }, contextTokens: null, outputTokensMax: null };
    await writePriceList(db, { date: "2026-11-01", models: { m1 } });
    await policy.refresh();
    expect(priceOfM1()).toBe(1_000_000);
  });

  test("applies new and revoked keys", async () => {
    await insertKey(db, key("k2"));
    await revokeKey(db, "k1", 5);
    await policy.refresh();
    expect(policy.keys.find("digest of k2", 0)?.id).toBe("k2");
    expect(policy.keys.find("digest of k1", 0)).toBeUndefined();
  });

  test("applies changed user limits to each of the user's keys", async () => {
    await putUser(db, userRecord("u1", { limits: { ...NO_LIMITS, rpm: 5 } }));
    await insertKey(db, { ...key("k2"), userId: "u1" });
    await insertKey(db, { ...key("k3"), userId: "u1" });
    await policy.refresh();
    const rpms = () => ["k1", "k2", "k3"].map((id) => policy.keys.find(`digest of ${id}`, 0)?.userLimits.rpm);
    expect(rpms()).toEqual([null, 5, 5]);
    await putUser(db, userRecord("u1", { limits: { ...NO_LIMITS, rpm: 7 } }));
    await policy.refresh();
    expect(rpms()).toEqual([null, 7, 7]);
  });

  test("keeps the same snapshot while nothing changes", async () => {
    const before = policy.snapshot();
    await policy.refresh();
    expect(policy.snapshot()).toBe(before);
  });

  test("a refresh sees everything written before it started, even while another one runs", async () => {
    policy.close();
    const gate = Promise.withResolvers<void>();
    let wait: Promise<void> | null = null;
    policy = await open({ ...db, sql: respondingAfter(() => wait) });
    wait = gate.promise;
    const earlier = policy.refresh();
    await db.sql`SELECT 1 AS turn`;
    await publish("m2");
    const later = policy.refresh();
    gate.resolve();
    await Promise.all([earlier, later]);
    expect(listed()).toEqual(["m2"]);
  });

  test("a check that the database does not answer is abandoned, and its late result is discarded", async () => {
    policy.close();
    const gate = Promise.withResolvers<void>();
    let wait: Promise<void> | null = null;
    policy = await open({ ...db, sql: respondingAfter(() => wait) }, 3_600_000, 50);
    wait = gate.promise;
    await publish("m2");
    await expect(policy.refresh()).rejects.toThrow("does not respond");
    wait = null;
    await policy.refresh();
    const current = policy.snapshot();
    expect(listed()).toEqual(["m2"]);
    gate.resolve();
    await Bun.sleep(20);
    expect(policy.snapshot()).toBe(current);
  });

  test("while the database does not answer, each check logs once, however many polls wait for it", async () => {
    policy.close();
    let wait: Promise<void> | null = null;
    policy = await open({ ...db, sql: respondingAfter(() => wait) }, 2, 60);
    wait = new Promise(() => {});
    const startedMs = performance.now();
    await eventually(() => logged.length >= 3);
    // Three checks were abandoned, each after its time.
    expect(performance.now() - startedMs).toBeGreaterThan(170);
  });

  test("unseals credentials with the keyring", async () => {
    await putAccount(db, account(seal(keyring(), accountCredentialBinding("a1"), "upstream secret")));
    await policy.refresh();
    expect(policy.snapshot().accounts.get("a1")?.credential).toBe("upstream secret");
  });

  test("a failed build keeps the old snapshot, and the next successful one replaces it", async () => {
    const before = policy.snapshot();
    await putAccount(db, account("v1:nobody:AAAA"));
    await publish("m2");
    await expect(policy.refresh()).rejects.toThrow();
    expect(policy.snapshot()).toBe(before);
    await putAccount(db, account(null));
    await policy.refresh();
    expect(listed()).toEqual(["m2"]);
  });

  test("keys are updated even while the policy cannot be built", async () => {
    await putAccount(db, account("v1:nobody:AAAA"));
    await revokeKey(db, "k1", 5);
    await expect(policy.refresh()).rejects.toThrow();
    expect(policy.keys.find("digest of k1", 0)).toBeUndefined();
  });

  test("polls for changes, and logs a failed refresh", async () => {
    policy.close();
    policy = await open(db, 1);
    await putAccount(db, account("v1:nobody:AAAA"));
    await eventually(() => logged.length > 0);
    expect(logged[0]).toMatchObject({ level: "error", event: "policy_refresh_failed" });
  });
});
