/** The alerts of an installation about itself: its nodes, their coordinator and clocks, and its database. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { limits } from "../../src/config/limits/product-limits.ts";
import { eventually } from "../support/eventually.ts";
import { runCommand } from "../support/gateway-process.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";
import { gatewayFile, type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { FailoverDatabase } from "../support/standby.ts";
import { startWebhookListener, type WebhookListener, type WebhookPost } from "../support/webhook-listener.ts";

setDefaultTimeout(120_000);

const MASTER_KEY = Buffer.alloc(32, 7).toString("base64");
/** Nodes are checked every ten seconds, and a lost coordinator must be lost twice. */
const WITHIN_MS = 60_000;

let database: FailoverDatabase;
let redis: TestRedis;
let listener: WebhookListener;
const nodes: RunningGateway[] = [];

beforeAll(async () => {
  database = await FailoverDatabase.create();
  redis = await startRedis();
  listener = startWebhookListener();
  const webhook = { name: "ops", url: listener.url, private_network: true };
  const file = `${gatewayFile({})}\nalerts: ${JSON.stringify({ webhooks: [webhook] })}\n`;
  const alerts = { ...limits.alerts, databaseAwayMs: 12_000 };
  for (let started = 0; started < 2; started++) {
    nodes.push(
      await startTestGateway({
        databaseUrl: database.url,
        environment: { MODEL_GATEWAY_MASTER_KEY: MASTER_KEY, REDIS_URL: redis.url },
        file,
        limits: { alerts },
      }),
    );
  }
}, 300_000);

afterAll(async () => {
  for (const node of nodes) await node.stop();
  await listener?.stop();
  await redis?.stop();
  await database?.remove();
});

const findPosts = (type: string, rule: string): WebhookPost[] =>
  listener.posts.filter(({ body }) => body.type === type && body.alert?.rule === rule);

const waitForPosts = (type: string, rule: string, count: number) =>
  eventually(() => findPosts(type, rule).length, { equals: count, withinMs: WITHIN_MS });

test("a silent node and a wrong clock are posted once, and end when the node is removed", async () => {
  const [first] = nodes;
  if (first === undefined) throw new Error("no node runs");
  const { db } = first.installation;
  const insert = (id: string, sinceMs: number, skewMs: number) => db.sql`
    INSERT INTO process (id, host, pid, started_at_ms, beat_at_ms, schema_known, version, address, state, clock_skew_ms)
    VALUES (${id}, 'gw-3 x y', 4, 1, ${Date.now() - sinceMs}, 1, '0.1.0', ${`${id}:8787`}, 'ready', ${skewMs})`;
  await insert("silent", 40_000, 0);
  await insert("wrong", -20_000, 7_300);
  await waitForPosts("alert.firing", "node_silent", 1);
  await waitForPosts("alert.firing", "clock_skew", 1);
  expect(findPosts("alert.firing", "node_silent")[0]?.body.text).toMatch(
    /^Node silent:8787 has sent no heartbeat for \d+ s\./,
  );
  expect(findPosts("alert.firing", "clock_skew")[0]?.body.text).toStartWith(
    "Node wrong:8787 has a clock that is 7.3 s off the clock of the database.",
  );
  await db.sql`DELETE FROM process WHERE id IN ('silent', 'wrong')`;
  await waitForPosts("alert.resolved", "node_silent", 1);
  await waitForPosts("alert.resolved", "clock_skew", 1);
});

test("a lost coordinator is posted for each node, and doctor names the nodes", async () => {
  redis.freeze();
  await waitForPosts("alert.firing", "coordinator_lost", 2);
  const { output } = await runCommand(["doctor", "--json"], {
    folder: import.meta.dir,
    env: { DATABASE_URL: database.url, MODEL_GATEWAY_MASTER_KEY: MASTER_KEY },
  });
  redis.thaw();
  const findings: { what: string; message: string }[] = JSON.parse(output).findings;
  const lost = findings.filter(({ what }) => what === "coordinator");
  expect(lost).toHaveLength(2);
  expect(lost[0]?.message).toContain("cannot reach the coordinator of limits");
  await waitForPosts("alert.resolved", "coordinator_lost", 2);
});

test("a database that is away is posted by each node meanwhile, and a failover once", async () => {
  await database.standby.catchUp();
  database.silence();
  await waitForPosts("alert.firing", "database_away", 2);
  await database.failOver();
  await waitForPosts("alert.resolved", "database_away", 2);
  await waitForPosts("alert.firing", "database_failover", 1);
  expect(new Set(findPosts("alert.firing", "database_away").map(({ body }) => body.alert?.id)).size).toBe(2);
});
