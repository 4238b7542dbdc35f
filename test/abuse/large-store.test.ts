/**
 * Reads of a large SQLite store, by an ordinary user, an administrator and an API key: charts, lists, searches, sums, and many
 * verifications of the audit log at once. SQLite runs on the thread that calls it.
 */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { readSettings } from "../../src/config/installation/environment.ts";
import { type Installation, openPresent } from "../../src/config/installation/installation.ts";
import { type SignedInClient, signInAs } from "../support/console-client.ts";
import { measureSlowdown } from "../support/machine-speed.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import { type AttackTarget, measureAttack, startAttackTarget, TURN_MS_MAX } from "./attack-setup.ts";

const HOUR_MS = 3_600_000;
const USERS = 50_000;
/** Of one user, who may have 1,000. */
const KEYS = 500;
const HOURS = 300;
const AUDIT_ENTRIES = 50_000;

let target: AttackTarget;
let installation: Installation;
let user: SignedInClient;
let admin: SignedInClient;

beforeAll(async () => {
  target = await startAttackTarget();
  const settings = readSettings({ flags: { data: join(target.folder, "data") }, environment: {} });
  if (!settings.ok) throw new Error(settings.problems.join("\n"));
  installation = await openPresent(settings.settings, {});
  const running = { url: target.url, installation };
  user = await signInAs(running, "dev@example.com");
  admin = await signInAs(running, "root@example.com", "admin");
  for (const statement of buildFill(user.user.id, Date.now())) await installation.db.sql.script(statement);
  // Loads the modules of the console's API, so that the attack does not measure it.
  await user.call("session.current");
}, 180_000);
afterAll(async () => {
  await installation.db.close();
  await target.stop();
});

/** The revision of the keys is old, so the gateway does not load them. */
function buildFill(userId: string, nowMs: number): string[] {
  const numbers = (count: number) =>
    `WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${count - 1})`;
  const firstHourMs = Math.floor(nowMs / HOUR_MS) * HOUR_MS - HOURS * HOUR_MS;
  return [
    `INSERT INTO app_user (id, email, email_folded, role, created_at_ms) ${numbers(USERS)}
     SELECT 'user_' || n, 'person.' || n || '@example.org', 'person.' || n || '@example.org', 'user', n FROM numbers`,
    `INSERT INTO api_key (id, name, user_id, group_id, digest, public_id, last4, status, created_at_ms, revision)
     ${numbers(USERS + KEYS)}
     SELECT 'key_' || n, 'laptop ' || n, CASE WHEN n < ${KEYS} THEN '${userId}' ELSE 'user_' || (n - ${KEYS}) END,
       (SELECT MIN(id) FROM key_group), 'digest ' || n, 'public ' || n, '0000', 'active', n, 0 FROM numbers`,
    // A few hours at a time, because the gateway writes as well.
    ...Array.from({ length: HOURS / 30 }, (_, part) => part * 30).map(
      (
        first,
      ) => `INSERT INTO usage_hour (key_id, hour_ms, group_id, public_model, interface, requests, refused, failed,
         input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens, images)
       ${numbers(30 * KEYS)}
       SELECT 'key_' || (n % ${KEYS}), ${firstHourMs} + (${first} + n / ${KEYS}) * ${HOUR_MS},
         (SELECT MIN(id) FROM key_group), 'fast-chat', 'chat', 1, 0, 0, 10, 0, 0, 10, 0, 0 FROM numbers`,
    ),
    `INSERT INTO audit (seq, at_ms, actor_kind, actor_id, actor_name, action, target, changes, address, hash)
     ${numbers(AUDIT_ENTRIES)}
     SELECT n + (SELECT seq FROM audit_head) + 1, n, 'user', 'user_1', 'ada@example.com', 'key.create', 'key ' || n,
       '[]', '10.0.0.1', '' FROM numbers`,
    `UPDATE audit_head SET seq = seq + ${AUDIT_ENTRIES}`,
    "ANALYZE",
  ];
}

async function attack(name: string, work: () => Promise<void>): Promise<void> {
  const slowdown = measureSlowdown();
  const report = await measureAttack(name, target, { bytes: 0, run: work });
  expect(report.worstTurnMs).toBeLessThan(TURN_MS_MAX * Math.max(slowdown, measureSlowdown()));
}

test("charts of a user with 150,000 rows of hourly usage", async () => {
  await attack("charts of a user with many keys", async () => {
    const from_at = Date.now() - HOURS * HOUR_MS;
    for (const by of ["total", "model", "key", "group"] as const) {
      const { total } = await user.call("usage.chart", { query: { by, granularity: "hour", from_at } });
      // In one statement of the event loop it took SERIES ms.
      expect(total.requests).toBeGreaterThan(145_000);
    }
    await user.call("usage.requests", { query: { outcome: "failed" } });
    await user.call("keys.list", { query: { search: "nothing", limit: 200 } });
  });
}, 120_000);

test("searches of 50,000 users, 50,500 keys and 50,000 entries of the audit log", async () => {
  await attack("searches that find nothing", async () => {
    const query = { search: "nothing like this" };
    expect((await admin.call("admin.users.list", { query })).data).toEqual([]);
    expect((await admin.call("admin.keys.list", { query })).data).toEqual([]);
    expect((await admin.call("admin.audit.list", { query })).data).toEqual([]);
    await admin.call("admin.users.list", { query: { limit: 200 } });
    await admin.call("usage.chart", { query: { whose: "everybody", by: "user" } });
  });
}, 120_000);

test("verifications of the audit log run one at a time, and those that wait share one", async () => {
  const other = await signInAs({ url: target.url, installation }, "auditor@example.com", "auditor");
  await attack("8 verifications of the audit log at once", async () => {
    const verify = (client: SignedInClient) =>
      Array.from({ length: 4 }, () => client.call("admin.audit.verify", { query: { fresh: true } }));
    const results = await Promise.all([...verify(admin), ...verify(other)]);
    expect(results.map(({ entries }) => entries)).not.toContain(0);
    // Two requests of each caller run at once.
    expect(new Set(results.map(({ checked_at }) => checked_at)).size).toBeLessThan(6);
  });
}, 120_000);

test("another user does not wait for all charts of one user", async () => {
  await attack("10 charts at once", async () => {
    const from_at = Date.now() - HOURS * HOUR_MS;
    const charts = Array.from({ length: 10 }, () =>
      user.send("usage.chart", { query: { by: "total", granularity: "hour", from_at } }),
    );
    let served = 0;
    for (const chart of charts) void chart.then(() => (served += 1));
    await admin.call("keys.list");
    expect(served).toBeLessThan(8);
    for (const response of await Promise.all(charts)) expect(response.status).toBe(200);
  });
}, 120_000);

test("the usage of an API key", async () => {
  await attack("the usage of a key", async () => {
    const response = await fetch(`${target.url}/v1/usage`, {
      headers: { authorization: `Bearer ${TEST_KEY}` },
    });
    expect(response.status).toBe(200);
    await response.arrayBuffer();
  });
}, 120_000);
