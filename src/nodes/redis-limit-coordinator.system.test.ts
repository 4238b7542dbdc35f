/** The coordinator on Redis or Valkey: values of another shape, restarts, and a server that does not respond. */

import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { RedisClient } from "bun";
import { eventually } from "../../test/support/eventually.ts";
import type { LimitNote } from "../limits/coordinator/protocol.ts";
import {
  openOnRedis,
  ProtocolCluster,
  type ProtocolNode,
  REDIS_PREFIX,
  rates,
} from "./limit-coordinators.test-support.ts";

const [SLOTS, REQUESTS] = [0, 1] as const;
const STATE_KEY = `${REDIS_PREFIX}:state`;
const RECORD_KEY = `${REDIS_PREFIX}:key:record:`;
const RECORD = rates("record", { slots: 2, requests: 10 });

let under: Awaited<ReturnType<typeof openOnRedis>>;
let client: RedisClient;
let cluster: ProtocolCluster;

beforeAll(async () => {
  under = await openOnRedis();
  client = new RedisClient(under.url);
});

afterAll(async () => {
  client?.close();
  await under?.stop();
});

beforeEach(async () => {
  await under.clear();
  cluster = new ProtocolCluster(under);
});

/** Opens another term in a new epoch and declares one slot. */
async function declareAgain(node: ProtocolNode): Promise<void> {
  const { epoch } = node;
  await node.open();
  expect(node.epoch).not.toBe(epoch);
  await node.declare([{ of: RECORD, record: 0, meter: SLOTS, lent: 1, usedAgo: [] }]);
}

const pack = (lua: string) =>
  ["EVAL", [`return redis.call('SET', KEYS[1], cmsgpack.pack(${lua}))`, "1"]] as const;
const WRONG_VALUES: Readonly<Record<string, (key: string) => Promise<unknown>>> = {
  "a value of another type": async (key) => {
    await client.send("DEL", [key]);
    await client.send("HSET", [key, "field", "value"]);
  },
  "a text": (key) => client.set(key, "not packed"),
  "an empty text": (key) => client.set(key, ""),
  "a number": (key) => client.send(pack("7")[0], [...pack("7")[1], key]),
  "an empty table": (key) => client.send(pack("{}")[0], [...pack("{}")[1], key]),
  "a table with a missing field": (key) => damage(key, "value.holders, value.terms = nil, nil"),
  "a table with a text for a number": (key) => damage(key, "value.offset = 'x'; value.revision = 'x'"),
  "a table with a text for a time": (key) => damage(key, "value.began = 'x'; value.buckets = { 'x', 0, 0 }"),
  "a table with a wrong holder, and a wrong term": (key) =>
    damage(key, "if value.holders then value.holders.x = { 1, 2 } else value.terms.x = { seq = 'x' } end"),
};

function damage(key: string, lua: string): Promise<unknown> {
  const script = `local value = cmsgpack.unpack(redis.call('GET', KEYS[1])); ${lua}
    return redis.call('SET', KEYS[1], cmsgpack.pack(value))`;
  return client.send("EVAL", [script, "1", key]);
}

for (const [name, write] of Object.entries(WRONG_VALUES))
  for (const key of [STATE_KEY, RECORD_KEY])
    test(`${name} counts as lost state (${key})`, async () => {
      const node = await cluster.start("p1");
      await node.ask(RECORD, SLOTS, { amount: 2 });
      await write(key);
      expect(await node.exchange([RECORD])).toEqual({ kind: "declare" });
      await declareAgain(node);
      expect(await node.read(RECORD, SLOTS)).toMatchObject({ lent: 1, free: 1 });
    });

test("a restarted server begins an epoch, also if it has kept its data", async () => {
  const node = await cluster.start("p1");
  await node.ask(RECORD, SLOTS);
  // As a replica with the data of another server.
  await damage(STATE_KEY, "value.run = 'another server'");
  expect(await node.exchange([RECORD])).toEqual({ kind: "declare" });
  await declareAgain(node);
  await under.restart();
  await eventually(() =>
    node.exchange([RECORD]).then(
      ({ kind }) => kind === "declare",
      () => false,
    ),
  );
  await declareAgain(node);
  expect(await node.read(RECORD, SLOTS)).toMatchObject({ lent: 1 });
});

test("after a call to a former primary, which is a replica now, another connection is opened", async () => {
  const countConnections = async () =>
    Number(/total_connections_received:(\d+)/.exec(String(await client.send("INFO", ["stats"])))?.[1]);
  await cluster.start("p1");
  await client.send("REPLICAOF", ["127.0.0.1", "1"]);
  try {
    const before = await countConnections();
    for (let call = 0; call < 2; call += 1)
      expect(await under.coordinator.sweep().catch(String)).toContain("READONLY");
    expect((await countConnections()) - before).toBe(1);
  } finally {
    await client.send("REPLICAOF", ["NO", "ONE"]);
  }
});

test("notes arrive again after a restart of the server", async () => {
  const notes: LimitNote[] = [];
  let connections = 0;
  const subscription = under.coordinator.subscribe("p1", {
    onNote: (note) => notes.push(note),
    onConnected: () => {
      connections += 1;
    },
  });
  await eventually(() => connections, { equals: 1 });
  await under.restart();
  await eventually(() => connections, { equals: 2 });
  const publish = new RedisClient(under.url);
  await publish.send("PUBLISH", [`${REDIS_PREFIX}:notes:p1`, "not a note"]);
  await publish.send("PUBLISH", [`${REDIS_PREFIX}:notes:p1`, '["t","key:k:",0,"r","3"]']);
  publish.close();
  expect(await eventually(() => notes[0])).toEqual({
    term: "t",
    record: { scope: "key", id: "k", perMs: null },
    meter: SLOTS,
    about: { kind: "recall", no: 3 },
  });
  await subscription.stop();
});

test("records expire some time after their use, and stay while something is lent", async () => {
  const node = await cluster.start("p1");
  await node.ask(RECORD, REQUESTS, { amount: 2 });
  expect(Number(await client.send("PTTL", [RECORD_KEY]))).toBeGreaterThan(86_400_000);
  await node.report(RECORD, REQUESTS, { used: 2 });
  const left = Number(await client.send("PTTL", [RECORD_KEY]));
  expect(left).toBeGreaterThan(900_000);
  expect(left).toBeLessThanOrEqual(3_600_000);
  await node.read(rates("never used", { slots: 1 }), SLOTS);
  expect(await client.exists(`${REDIS_PREFIX}:key:never used:`)).toBe(false);
});

test("calls work again after the server did not respond for seconds", async () => {
  const node = await cluster.start("p1");
  under.freeze();
  try {
    for (let second = 0; second < 5; second += 1) {
      // As nodes do: each call has a deadline, and the next one follows.
      void under.coordinator.listProcesses().catch(() => {});
      await Bun.sleep(1_000);
    }
  } finally {
    under.thaw();
  }
  await eventually(() =>
    under.coordinator.listProcesses().then(
      ({ length }) => length === 1,
      () => false,
    ),
  );
  expect(await node.read(RECORD, SLOTS)).toMatchObject({ free: 2 });
}, 30_000);
