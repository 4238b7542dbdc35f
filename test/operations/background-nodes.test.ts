/** Paid background responses on two nodes that are killed, stopped and replaced: each is charged once, to the nano-dollar. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { SQL } from "bun";
import { eventually } from "../support/eventually.ts";
import type { GatewayProcess } from "../support/gateway-process.ts";
import { type BegunResponse, PaidNodes } from "../support/paid-nodes.ts";
import { type Postgres, startPostgres } from "../support/postgres.ts";

setDefaultTimeout(180_000);

/** A dead process is noticed within 15 s, and its responses are polled soon afterwards. */
const ADOPTED_WITHIN_MS = 40_000;
const CLIENTS = 4;
/** Responses that clients create before the next node is replaced: about as many as they create in two seconds. */
const MORE_RESPONSES = 6;

let postgres: Postgres;
let cluster: PaidNodes;
let names = 0;

const startNode = () => cluster.start(`node-${names++}`);

beforeAll(async () => {
  postgres = await startPostgres();
  cluster = await PaidNodes.open(postgres.url);
}, 300_000);

afterAll(async () => {
  await cluster?.records.expectReconciled();
  await cluster?.close();
  await postgres?.stop();
});

async function expectCharged(begun: BegunResponse): Promise<void> {
  const row = await eventually(() => cluster.records.findRow(begun.requestId), ADOPTED_WITHIN_MS);
  expect(row).toMatchObject({
    outcome: "completed",
    usageSource: "upstream",
    responseId: begun.id,
    flags: [],
  });
  expect(row.chargedNano).toBe(await cluster.price(begun));
  const entries = await cluster.db.sql`SELECT amount_nano FROM entry WHERE request_id = ${begun.requestId}`;
  expect(entries.map(({ amount_nano }) => BigInt(amount_nano as number))).toEqual([row.chargedNano]);
}

async function countRows(): Promise<number> {
  const [sum] = await cluster.db.sql`SELECT COUNT(*) AS rows FROM usage_row`;
  return Number(sum?.rows);
}

test("the responses of a killed node are charged by the other one, whether or not a client retrieves them", async () => {
  const [killed, other] = [await startNode(), await startNode()];
  const [retrieved, left] = [await cluster.begin(killed), await cluster.begin(killed)];
  await cluster.kill(killed);
  await cluster.waitForEnd(other, retrieved);
  // The other node has not noticed yet that the first one is dead.
  const row = await cluster.records.findRow(retrieved.requestId);
  expect(row?.chargedNano).toBe(await cluster.price(retrieved));
  for (const begun of [retrieved, left]) await expectCharged(begun);
  expect(await cluster.status(other, left)).toBe("completed");
  await cluster.stop(other);
});

test("a response is charged exactly although its node is killed while other requests wait for a locked wallet", async () => {
  const [killed, other] = [await startNode(), await startNode()];
  const beginning = cluster.begin(killed, "late");
  await eventually(() => cluster.records.holds(), { equals: 1 });
  const sql = new SQL(postgres.url);
  const unlocked = Promise.withResolvers<void>();
  const locked = Promise.withResolvers<void>();
  const locking = sql.begin(async (tx) => {
    await tx`SELECT 1 FROM wallet FOR UPDATE`;
    locked.resolve();
    await unlocked.promise;
  });
  await locked.promise;
  const waiting = cluster.begin(killed).catch(() => {});
  const begun = await beginning;
  const [hold] = await sql`SELECT response_id FROM hold WHERE request_id = ${begun.requestId}`;
  expect(hold.response_id).toBe(begun.id);
  await cluster.kill(killed);
  unlocked.resolve();
  await Promise.all([locking, waiting]);
  await sql.close();
  await expectCharged(begun);
  expect(await cluster.status(other, begun)).toBe("completed");
  await cluster.stop(other);
});

test("a node that is stopped hands its responses over and leaves the list of nodes", async () => {
  const [stopped, other] = [await startNode(), await startNode()];
  const begun = await cluster.begin(stopped);
  await cluster.stop(stopped);
  expect(await cluster.records.findRow(begun.requestId)).toBeNull();
  expect(await cluster.records.holds()).toBe(1);
  expect(await cluster.db.sql`SELECT id FROM process`).toHaveLength(1);
  await expectCharged(begun);
  await cluster.stop(other);
});

/** Clients that create responses at one node and retrieve them from any. */
class BackgroundLoad {
  readonly begun: BegunResponse[] = [];
  /** Requests in flight, by node. */
  readonly #inFlight = new Map<GatewayProcess, number>();
  readonly failures: string[] = [];
  readonly #pickNode: () => GatewayProcess;
  readonly #clients: Promise<void>[];
  #isStopped = false;

  constructor(pickNode: () => GatewayProcess) {
    this.#pickNode = pickNode;
    this.#clients = Array.from({ length: CLIENTS }, () => this.#run());
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#clients);
  }

  /** Waits until the clients have created this many responses more. */
  async waitForMore(count: number): Promise<void> {
    const before = this.begun.length;
    await eventually(() => this.begun.length >= before + count);
  }

  /** Waits until no request is in flight at a node that is not chosen any more. */
  async waitUntilIdle(node: GatewayProcess): Promise<void> {
    await eventually(() => this.#inFlight.get(node) ?? 0, { equals: 0 });
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      const begun = await this.#attempt(() => this.#useNode((node) => cluster.begin(node)));
      if (begun === null) continue;
      this.begun.push(begun);
      // Every second response is retrieved; the others are left to the nodes.
      if (this.begun.length % 2 === 0)
        await this.#attempt(() => eventually(async () => this.#isCompleted(begun)));
      await Bun.sleep(100);
    }
  }

  async #isCompleted(begun: BegunResponse): Promise<boolean> {
    await Bun.sleep(200);
    const status = await this.#useNode((node) => cluster.status(node, begun));
    if (!["queued", "in_progress", "completed"].includes(status)) throw new Error(status);
    return status === "completed";
  }

  async #useNode<T>(work: (node: GatewayProcess) => Promise<T>): Promise<T> {
    const node = this.#pickNode();
    const change = (by: number) => this.#inFlight.set(node, (this.#inFlight.get(node) ?? 0) + by);
    change(1);
    try {
      return await work(node);
    } finally {
      change(-1);
    }
  }

  async #attempt<T>(work: () => Promise<T>): Promise<T | null> {
    try {
      return await work();
    } catch (error) {
      this.failures.push(String(error));
      return null;
    }
  }
}

test("nodes are replaced one by one while clients create and retrieve responses", async () => {
  let nodes = [await startNode(), await startNode()];
  const before = await countRows();
  const load = new BackgroundLoad(() => {
    const node = nodes[Math.floor(Math.random() * nodes.length)];
    if (node === undefined) throw new Error("no node runs");
    return node;
  });
  for (const replaced of [...nodes]) {
    await load.waitForMore(MORE_RESPONSES);
    nodes = [...nodes.filter((node) => node !== replaced), await startNode()];
    await load.waitUntilIdle(replaced);
    await cluster.stop(replaced);
  }
  await load.waitForMore(MORE_RESPONSES);
  const [killed, ...rest] = nodes;
  nodes = rest;
  if (killed !== undefined) {
    await load.waitUntilIdle(killed);
    await cluster.kill(killed);
  }
  await load.waitForMore(MORE_RESPONSES);
  await load.stop();
  expect(load.failures).toEqual([]);
  expect(load.begun.length).toBeGreaterThan(20);
  for (const begun of load.begun) await expectCharged(begun);
  expect(await countRows()).toBe(before + load.begun.length);
  expect(await cluster.records.holds()).toBe(0);
});
