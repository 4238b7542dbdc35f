/** Random calls of several nodes: no loan exceeds a limit, and all coordinators reply the same. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import fc from "fast-check";
import { FIRST_START_WITHIN_MS } from "../../test/support/postgres.ts";
import type {
  ExchangeReply,
  MeterAsk,
  MeterNo,
  MeterReport,
  RecordRef,
} from "../limits/coordinator/protocol.ts";
import {
  buildWindow,
  type CoordinatorUnderTest,
  openMemory,
  openOnPostgres,
  openOnRedis,
  ProtocolCluster,
  type ProtocolNode,
  rates,
} from "./limit-coordinators.test-support.ts";

const PROCESSES = ["p1", "p2", "p3"];
const RATES: readonly RecordRef[] = [
  rates("first", { slots: 2, requests: 6, tokens: 100 }),
  { ...rates("second", { slots: 1, tokens: 50 }), scope: "user" },
];
const WITH_WINDOW = [...RATES, buildWindow("third", { requests: 5, nano: 1_000 })];

let memory: CoordinatorUnderTest;
let postgres: CoordinatorUnderTest;
let redis: CoordinatorUnderTest;

beforeAll(async () => {
  [memory, postgres, redis] = await Promise.all([openMemory(), openOnPostgres(), openOnRedis()]);
}, FIRST_START_WITHIN_MS);

afterAll(async () => {
  for (const under of [memory, postgres, redis]) await under?.stop();
});

interface Step {
  readonly node: number;
  readonly passMs: number;
  readonly kind: "call" | "repeat" | "restart" | "bury" | "lose" | "sweep";
  /** What the node reports of each meter that it holds, in hundredths. */
  readonly usedPart: number;
  readonly returnedPart: number;
  readonly refund: number;
  readonly asks: readonly {
    readonly record: number;
    readonly meter: MeterNo;
    readonly least: number;
    readonly more: number;
    readonly mode: MeterAsk["mode"];
    readonly key: string;
  }[];
}

const meter = fc.constantFrom<MeterNo>(0, 1, 2);
const step: fc.Arbitrary<Step> = fc.record({
  node: fc.nat({ max: PROCESSES.length - 1 }),
  passMs: fc.oneof(
    { weight: 4, arbitrary: fc.nat({ max: 600 }) },
    { weight: 1, arbitrary: fc.nat({ max: 12_000 }) },
  ),
  kind: fc.oneof(
    { weight: 20, arbitrary: fc.constant("call" as const) },
    { weight: 1, arbitrary: fc.constantFrom("repeat", "restart", "bury", "lose", "sweep") },
  ),
  usedPart: fc.constantFrom(0, 50, 100),
  returnedPart: fc.constantFrom(0, 0, 100),
  refund: fc.nat({ max: 3 }),
  asks: fc.array(
    fc.record({
      record: fc.nat({ max: 1 }),
      meter,
      least: fc.nat({ max: 4 }),
      more: fc.nat({ max: 60 }),
      mode: fc.constantFrom<MeterAsk["mode"]>("wait", "final", "refill"),
      key: fc.constantFrom("k1", "k2"),
    }),
    { maxLength: 3 },
  ),
});

/** What a node of this test knows: what is lent to it, the newest recall, and where it has booked. */
interface Memory {
  readonly lent: Map<string, number>;
  readonly bucketNos: Map<string, number>;
}

class Play {
  readonly #cluster: ProtocolCluster;
  readonly #records: readonly RecordRef[];
  readonly #nodes: ProtocolNode[] = [];
  readonly #known: Memory[] = PROCESSES.map(() => ({ lent: new Map(), bucketNos: new Map() }));

  constructor(under: CoordinatorUnderTest, records: readonly RecordRef[]) {
    this.#cluster = new ProtocolCluster(under);
    this.#records = records;
  }

  async start(): Promise<void> {
    await this.#cluster.under.clear();
    this.#nodes.push(...(await this.#cluster.startAll(...PROCESSES)));
  }

  /** Returns what the test compares. */
  async take(step: Step): Promise<unknown> {
    await this.#cluster.pass(step.passMs);
    const node = this.#nodes[step.node];
    const known = this.#known[step.node];
    if (node === undefined || known === undefined) throw new Error("no node");
    const { coordinator } = this.#cluster.under;
    if (step.kind === "sweep") return coordinator.sweep();
    if (step.kind === "lose") return this.#cluster.under.lose();
    if (step.kind === "bury") return coordinator.bury(node.process);
    if (step.kind === "restart") return this.#reopen(step.node);
    if (step.kind === "repeat" && node.seq > 1) return this.#learn(step.node, await node.repeat());
    const reply = await node.exchange(this.#records, this.#build(step, known));
    if (reply.kind !== "ok") await this.#reopen(step.node);
    return this.#learn(step.node, reply);
  }

  async #reopen(index: number): Promise<void> {
    const node = this.#nodes[index];
    if (node === undefined) return;
    const { term: replaces } = node;
    await node.open();
    await node.declare([], { replaces, registered: PROCESSES });
    this.#known[index] = { lent: new Map(), bucketNos: new Map() };
  }

  #learn(index: number, reply: ExchangeReply): unknown {
    const known = this.#known[index];
    if (reply.kind !== "ok" || known === undefined) return reply.kind;
    for (const [i, { bucketNo, meters }] of reply.states.entries()) {
      known.bucketNos.set(String(i), bucketNo);
      for (const [meterNo, { lent }] of meters.entries()) known.lent.set(`${i} ${meterNo}`, lent);
    }
    return reply;
  }

  #build({ usedPart, returnedPart, refund, asks }: Step, { lent, bucketNos }: Memory) {
    const items: MeterReport[] = [];
    for (const [i, { perMs }] of this.#records.entries())
      for (const meterNo of [0, 1, 2] as const) {
        const held = lent.get(`${i} ${meterNo}`) ?? 0;
        const isSlots = meterNo === 0 && perMs === null;
        const used = isSlots ? 0 : Math.floor((held * usedPart) / 100);
        const returned = Math.floor(((held - used) * returnedPart) / 100);
        const bucketNo = bucketNos.get(String(i));
        const refunds =
          isSlots || perMs !== null || bucketNo === undefined || refund === 0
            ? []
            : [[bucketNo, refund] as const];
        if (used + returned + refunds.length > 0)
          items.push({ record: i, meter: meterNo, used, refunds, returned, confirms: used % 3 });
      }
    return {
      items,
      asks: asks.map(({ record, meter: meterNo, least, more, mode, key }) => ({
        mode,
        key,
        wants: [
          { record, meter: meterNo, least, need: least, most: least + more },
          { record: this.#records.length - 1, meter: 0 as const, least: 1, need: 1, most: 1 },
        ],
      })),
    };
  }

  /** What is used and lent to all terms never exceeds a limit. */
  async check(): Promise<void> {
    const replies: ExchangeReply[] = [];
    for (const node of this.#nodes) replies.push(await node.exchange(this.#records));
    const last = replies.at(-1);
    if (last?.kind !== "ok") return;
    for (const [i, { limits }] of this.#records.entries())
      for (const meterNo of [0, 1, 2] as const) {
        const limit = limits[meterNo];
        const state = last.states[i]?.meters[meterNo];
        if (limit === null || state === undefined) continue;
        expect(state.free).toBeGreaterThanOrEqual(0);
        let lent = 0;
        for (const reply of replies)
          if (reply.kind === "ok") lent += reply.states[i]?.meters[meterNo].lent ?? 0;
        expect(state.used + lent).toBeLessThanOrEqual(limit);
      }
  }
}

test("no loan makes used and lent amounts exceed a limit", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 120 }), async (steps) => {
      const under = await openMemory();
      const play = new Play(under, WITH_WINDOW);
      await play.start();
      for (const one of steps) {
        await play.take(one);
        await play.check();
      }
    }),
    { numRuns: 200 },
  );
});

for (const [engine, records, open] of [
  ["PostgreSQL", WITH_WINDOW, () => postgres],
  ["Redis", RATES, () => redis],
] as const)
  test(`${engine} replies as memory does`, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 60 }), async (steps) => {
        const expected = new Play(await openMemory(), records);
        const actual = new Play(open(), records);
        await expected.start();
        await actual.start();
        for (const [i, one] of steps.entries())
          expect([i, one, await actual.take(one)]).toEqual([i, one, await expected.take(one)]);
      }),
      { numRuns: 25, endOnFailure: true },
    );
  }, 120_000);
