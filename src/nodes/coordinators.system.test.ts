/** The contract of a coordinator, on every engine. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { RedisClient } from "bun";
import { eventually } from "../../test/support/eventually.ts";
import { type Postgres, startPostgres } from "../../test/support/postgres.ts";
import { startRedis, type TestRedis } from "../../test/support/redis.ts";
import { nodeLimits } from "../config/limits/node-limits.ts";
import { openLimiter, type Subject } from "../limits/limiter.ts";
import { type Coordinator, MemoryCoordinator } from "../limits/sharing/coordinator.ts";
import { LimitSharing } from "../limits/sharing/limit-sharing.ts";
import { ShareAllocator } from "../limits/sharing/share-allocator.ts";
import { systemTimers } from "../limits/sharing/timers.ts";
import { SubjectRegistry } from "../limits/subject-registry.ts";
import { NO_LIMITS } from "../records/limits.ts";
import { openDb } from "../store/engine/db.ts";
import { migrate } from "../store/engine/migrate.ts";
import { PostgresCoordinator } from "./postgres-coordinator.ts";
import { RedisCoordinator } from "./redis-coordinator.ts";

let postgres: Postgres;
let redis: TestRedis;

beforeAll(async () => {
  postgres = await startPostgres();
  redis = await startRedis();
  const db = await openDb(postgres.url);
  await migrate(db);
  await db.close();
}, 300_000);

afterAll(async () => {
  await redis?.stop();
  await postgres?.stop();
});

const newToken = () => crypto.randomUUID();
const monotonicMs = () => performance.now();

/** Each function opens connections to the same document. */
const ENGINES: Readonly<Record<string, () => () => Promise<Coordinator>>> = {
  memory: () => {
    const shared = new MemoryCoordinator(Date.now);
    return async () => shared;
  },
  postgres: () => {
    let isOpened = false;
    return async () => {
      const db = await openDb(postgres.url, { workload: "coordination" });
      if (!isOpened) await db.sql`DELETE FROM coordination`;
      isOpened = true;
      return new PostgresCoordinator(db, newToken);
    };
  },
  redis: () => {
    const key = `test:{${newToken()}}`;
    return async () => new RedisCoordinator({ url: redis.url, key, newToken, monotonicMs });
  },
};

for (const [engine, open] of Object.entries(ENGINES)) {
  describe(engine, () => {
    test("a document is replaced only by a node that has read it", async () => {
      const connect = open();
      const [a, b] = [await connect(), await connect()];
      const empty = await a.read();
      expect(empty.text).toBeNull();
      const also = await b.read();
      expect(await a.replace(empty, "first")).toBe(true);
      expect(await b.replace(also, "lost")).toBe(false);
      const first = await b.read();
      expect(first.text).toBe("first");
      expect(await b.replace(first, 'second "ü" \u2028')).toBe(true);
      expect(await a.replace(first, "late")).toBe(false);
      expect((await a.read()).text).toBe('second "ü" \u2028');
      // A token is never used again, also if the document returns to an earlier text.
      expect(await a.replace(await a.read(), "first")).toBe(true);
      expect(await b.replace(first, "late")).toBe(false);
      await Promise.all([a.close(), b.close()]);
    });

    test("of many writers at once, one replaces the document", async () => {
      const connect = open();
      const nodes = await Promise.all(Array.from({ length: 5 }, connect));
      const read = await Promise.all(nodes.map((node) => node.read()));
      const results = await Promise.all(
        nodes.map((node, i) => node.replace(read[i] ?? { text: null, token: "", nowMs: 0 }, `text ${i}`)),
      );
      expect(results.filter(Boolean)).toHaveLength(1);
      await Promise.all(nodes.map((node) => node.close()));
    });

    test("its clock is the same for all nodes and runs forward", async () => {
      const connect = open();
      const [a, b] = [await connect(), await connect()];
      const { nowMs } = await a.read();
      await Bun.sleep(20);
      const laterMs = (await b.read()).nowMs - nowMs;
      expect(laterMs).toBeGreaterThanOrEqual(15);
      expect(laterMs).toBeLessThan(10_000);
      await Promise.all([a.close(), b.close()]);
    });

    test("nodes divide a limit, move it to the node that needs it, and never exceed it", async () => {
      const connect = open();
      const ids = [newToken(), newToken(), newToken()];
      const nodes = [];
      for (const id of ids) nodes.push(await startNode(id, ids, await connect()));
      const subject: Subject = { scope: "key", id: "k", limits: { ...NO_LIMITS, rpm: 30 } };
      const [busy] = nodes;
      if (busy === undefined) throw new Error("no node");
      let served = 0;
      const untilMs = performance.now() + 20_000;
      // Two nodes keep a sixth of their shares: one request each.
      while (served < 28 && performance.now() < untilMs) {
        if (busy.limiter.admit([subject], {}).ok) served += 1;
        else await busy.sharing.waitForGain();
      }
      expect(served).toBe(28);
      for (const { limiter } of nodes) while (limiter.admit([subject], {}).ok) served += 1;
      expect(served).toBeLessThanOrEqual(30);
      for (const { sharing } of nodes) await sharing.stop();
    });
  });
}

const WRONG_DOCUMENTS = [
  "null",
  "[]",
  '{"format":1}',
  '{"format":1,"members":5,"nodes":{},"meters":{}}',
  '{"format":1,"epoch":"e","serial":1,"version":1,"members":["a"],"nodes":{"a":null},"meters":{}}',
  "not JSON",
  `"${"x".repeat(2 * 1_048_576)}"`,
];

for (const [engine, open] of Object.entries(ENGINES)) {
  test.each(WRONG_DOCUMENTS.map((text) => [text.slice(0, 60), text]))(
    `on ${engine} a starting node replaces the document %p`,
    async (_, text) => {
      const connect = open();
      const writer = await connect();
      expect(await writer.replace(await writer.read(), text)).toBe(true);
      const node = newToken();
      const { sharing, allocator } = await startNode(node, [node], await connect());
      expect([sharing.state, allocator.isActive]).toEqual(["up", true]);
      expect((await writer.read()).text).toContain(`"members":["${node}"]`);
      await sharing.stop();
      if (engine !== "memory") await writer.close();
    },
    30_000,
  );
}

test("a Redis key of another type, and a row without a token, are replaced", async () => {
  const key = `test:{${newToken()}}`;
  const client = new RedisClient(redis.url);
  await client.set(key, "a string");
  const onRedis = new RedisCoordinator({ url: redis.url, key, newToken, monotonicMs });
  expect(await onRedis.read()).toMatchObject({ text: null, token: "" });
  expect(await onRedis.replace(await onRedis.read(), "first")).toBe(true);
  expect((await onRedis.read()).text).toBe("first");
  await onRedis.close();
  client.close();

  const db = await openDb(postgres.url, { workload: "coordination" });
  await db.sql`DELETE FROM coordination`;
  await db.sql`INSERT INTO coordination (id, token, document) VALUES (1, '', 'null')`;
  const onPostgres = new PostgresCoordinator(db, newToken);
  expect(await onPostgres.replace(await onPostgres.read(), "first")).toBe(true);
  expect((await onPostgres.read()).text).toBe("first");
  await onPostgres.close();
});

for (const [when, isConnected] of [
  ["a connected client", true],
  ["a new client", false],
] as const)
  test(`${when} uses a Redis again that was frozen for longer than a connection attempt`, async () => {
    const url = redis.url;
    const coordinator = () => new RedisCoordinator({ url, key: "test:{frozen}", newToken, monotonicMs });
    let client = coordinator();
    if (isConnected) await client.read();
    redis.freeze();
    try {
      if (!isConnected) client = coordinator();
      for (let second = 0; second < 6; second += 1) {
        // As the nodes do: each command has a deadline, and the next one follows.
        void client.read().catch(() => {});
        await Bun.sleep(1_000);
      }
    } finally {
      redis.thaw();
    }
    await eventually(() =>
      client.read().then(
        () => true,
        () => false,
      ),
    );
    await client.close();
  }, 60_000);

async function startNode(node: string, all: readonly string[], coordinator: Coordinator) {
  const subjects = new SubjectRegistry();
  const clock = { monotonicMs };
  const allocator = new ShareAllocator({ node, subjects, monotonicMs, onGain() {} });
  subjects.shares = allocator;
  const sharing = new LimitSharing({
    node,
    coordinator,
    allocator,
    // The limits of these tests are limits of a minute.
    history: { publish: async () => {}, learn: async () => {} },
    clock,
    timers: systemTimers,
    // The machine of a test may be busy.
    timing: { ...nodeLimits.limitSharing, commandMs: 2_000, joinMs: 500 },
    lossRule: "share",
    newEpoch: newToken,
    random: Math.random,
    listNodes: async () => all.slice(0, all.indexOf(node) + 1),
    onStateChange() {},
  });
  await sharing.start();
  return { sharing, limiter: openLimiter(clock, subjects), allocator };
}
