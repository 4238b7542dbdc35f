/** The contract of a coordinator of limits, in memory, on PostgreSQL and on Redis. */

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { FIRST_START_WITHIN_MS } from "../../test/support/postgres.ts";
import type { LimitCoordinator } from "../limits/coordinator/protocol.ts";
import {
  buildWindow,
  COORDINATORS,
  type CoordinatorUnderTest,
  ProtocolCluster,
  ProtocolNode,
  rates,
  wish,
} from "./limit-coordinators.test-support.ts";

const [SLOTS, REQUESTS, TOKENS] = [0, 1, 2] as const;
const GRANTED = { kind: "granted" } as const;

for (const [engine, open] of Object.entries(COORDINATORS)) {
  describe(engine, () => {
    let under: CoordinatorUnderTest;
    let cluster: ProtocolCluster;
    let coordinator: LimitCoordinator;

    beforeAll(async () => {
      under = await open();
    }, FIRST_START_WITHIN_MS);
    afterAll(() => under?.stop());
    beforeEach(async () => {
      await under.lose();
      cluster = new ProtocolCluster(under);
      coordinator = under.coordinator;
    });
    afterEach(() => cluster.stop());

    test("a limit is lent once, and what is used counts for a minute", async () => {
      const [a, b] = await startTwo(cluster);
      const key = rates("minute", { requests: 10 });
      expect(await a.ask(key, REQUESTS, { amount: 6 })).toEqual(GRANTED);
      expect(await b.ask(key, REQUESTS, { amount: 4 })).toEqual(GRANTED);
      expect(await b.read(key, REQUESTS)).toMatchObject({ lent: 4, free: 0, used: 0 });
      expect(await a.report(key, REQUESTS, { used: 5, returned: 1 })).toMatchObject({
        lent: 0,
        free: 1,
        used: 5,
      });
      // What the silent term of b held counts as used at the end of its term, 10 s later.
      await pass(cluster, 11_000, a);
      expect(await a.read(key, REQUESTS)).toMatchObject({ lent: 0, free: 1, used: 9 });
      await pass(cluster, 49_999, a);
      expect(await a.read(key, REQUESTS)).toMatchObject({ free: 1, used: 9 });
      await pass(cluster, 1, a);
      expect(await a.read(key, REQUESTS)).toMatchObject({ free: 6, used: 4, resetMs: 10_000 });
      await pass(cluster, 10_000, a);
      expect(await a.read(key, REQUESTS)).toMatchObject({ free: 10, used: 0, resetMs: 0 });
    });

    test("an ask gets all of its wants or none", async () => {
      const [a] = await startTwo(cluster);
      const key = rates("all", { slots: 2, requests: 1 });
      const asks = [
        {
          mode: "final" as const,
          key: "k",
          wants: [
            { record: 0, meter: SLOTS, least: 1, need: 1, most: 1 },
            { record: 0, meter: REQUESTS, least: 2, need: 2, most: 2 },
          ],
        },
      ];
      const { results, states } = await a.ok([key], { asks });
      expect(results).toEqual([{ kind: "refused", lacks: 1, freesInMs: null }]);
      expect(states[0]?.meters.map(({ lent }) => lent)).toEqual([0, 0, 0]);
    });

    test("a request gets what it needs; the rest is a slice for each node", async () => {
      const [a, b] = await startTwo(cluster);
      const key = rates("slice", { tokens: 1_000 });
      await a.ask(key, TOKENS, { amount: 100, most: 1_000 });
      expect(await a.read(key, TOKENS)).toMatchObject({ lent: 500 });
      await b.ask(key, TOKENS, { amount: 100, most: 1_000 });
      expect(await b.read(key, TOKENS)).toMatchObject({ lent: 125 });
      await b.ask(key, TOKENS, { amount: 300 });
      expect(await b.read(key, TOKENS)).toMatchObject({ lent: 425, free: 75 });
      await b.ask(key, TOKENS, { least: 50, need: 300, mode: "final" });
      expect(await b.read(key, TOKENS)).toMatchObject({ lent: 500, free: 0 });
    });

    test("a repeat and a late duplicate apply nothing", async () => {
      const [a] = await startTwo(cluster);
      const key = rates("repeat", { slots: 5, requests: 10 });
      const wanted = { asks: [wish(REQUESTS, { amount: 3 })] };
      const first = await a.ok([key], wanted);
      const again = await a.repeat();
      expect(again).toMatchObject({ kind: "ok", states: first.states, results: [{ kind: "repeated" }] });
      const used = await a.report(key, REQUESTS, { used: 2 });
      expect(used).toMatchObject({ lent: 1, used: 2 });
      await a.repeat();
      expect(await a.read(key, REQUESTS)).toMatchObject({ lent: 1, used: 2 });
      const late = { term: a.term, ...a.bounds, records: [key], items: [], ...wanted };
      expect(await coordinator.exchange({ ...late, seq: a.seq - 2 })).toEqual({ kind: "gone" });
      expect(await coordinator.exchange({ ...late, seq: a.seq + 2 })).toEqual({ kind: "gone" });
      expect(await a.read(key, REQUESTS)).toMatchObject({ lent: 1, used: 2 });
    });

    test("slots are recalled, and freed slots are lent in turns of keys", async () => {
      const [a, b] = await startTwo(cluster);
      await Promise.all([a.listen(), b.listen()]);
      const key = rates("slots", { slots: 1 });
      expect(await a.ask(key, SLOTS, { key: "one" })).toEqual(GRANTED);
      expect(await b.ask(key, SLOTS, { key: "two" })).toEqual({ kind: "waiting", lacks: 0 });
      expect(await a.nextNote()).toMatchObject({
        term: a.term,
        record: { scope: "key", id: "slots", perMs: null },
        meter: SLOTS,
        about: { kind: "recall", no: 1 },
      });
      expect(await a.ask(key, SLOTS, { key: "three" })).toMatchObject({ kind: "waiting" });
      expect(await a.report(key, SLOTS, { returned: 1 })).toMatchObject({ lent: 0, free: 0 });
      expect(await b.nextNote()).toMatchObject({ term: b.term, about: { kind: "grant", key: "two" } });
      expect(await b.read(key, SLOTS)).toMatchObject({ lent: 1, hasOthersWaiting: true });
      // A slot that others wait for is not lent out of turn, also if it is free.
      await b.report(key, SLOTS, { returned: 1 });
      expect(await a.nextNote()).toMatchObject({ about: { kind: "grant", key: "three" } });
      expect(await b.ask(key, SLOTS, { key: "two", mode: "refill" })).toMatchObject({ kind: "refused" });
    });

    test("a recall ends with a grant, or is final when all holders have confirmed", async () => {
      const [a, b] = await startTwo(cluster);
      await Promise.all([a.listen(), b.listen()]);
      const key = rates("recall", { tokens: 100 });
      await a.ask(key, TOKENS, { amount: 80 });
      expect(await b.ask(key, TOKENS, { amount: 50 })).toEqual({ kind: "waiting", lacks: 0 });
      const { about } = await a.nextNote();
      const confirms = about.kind === "recall" ? about.no : 0;
      await a.report(key, TOKENS, { returned: 30, confirms });
      expect(await b.nextNote()).toMatchObject({ about: { kind: "grant", key: "k" } });
      expect(await b.read(key, TOKENS)).toMatchObject({ lent: 50, free: 0 });
      expect(await b.ask(key, TOKENS, { amount: 20 })).toMatchObject({ kind: "waiting" });
      const second = await a.nextNote();
      await a.report(key, TOKENS, { confirms: second.about.kind === "recall" ? second.about.no : 0 });
      expect(await b.nextNote()).toMatchObject({ about: { kind: "final", key: "k" } });
      expect(await b.ask(key, TOKENS, { amount: 20, mode: "final" })).toMatchObject({ kind: "refused" });
    });

    test("nothing can be recalled if no other node holds anything", async () => {
      const [a] = await startTwo(cluster);
      const key = rates("alone", { requests: 3 });
      await a.ask(key, REQUESTS, { amount: 3 });
      await a.report(key, REQUESTS, { used: 3 });
      const freesInMs = 61_000 - (cluster.nowMs % 1_000);
      expect(await a.ask(key, REQUESTS)).toEqual({ kind: "refused", lacks: 0, freesInMs });
      expect(await a.read(key, REQUESTS)).toMatchObject({ resetMs: freesInMs });
    });

    test("a refund reduces the bucket of its booking", async () => {
      const [a] = await startTwo(cluster);
      const key = rates("refund", { tokens: 1_000 });
      await a.ask(key, TOKENS, { amount: 1_000 });
      const booked = await a.ok([key], {
        items: [{ record: 0, meter: TOKENS, used: 900, refunds: [], returned: 0, confirms: 0 }],
      });
      const bucketNo = booked.states[0]?.bucketNo ?? 0;
      await cluster.pass(3_000);
      expect(await a.report(key, TOKENS, { refunds: [[bucketNo, 700]] })).toMatchObject({
        used: 200,
        free: 700,
      });
      // Of a bucket that has expired, and of more than it has.
      expect(await a.report(key, TOKENS, { refunds: [[bucketNo - 70, 5]] })).toMatchObject({ used: 200 });
      expect(await a.report(key, TOKENS, { refunds: [[bucketNo, 999]] })).toMatchObject({ used: 0 });
    });

    test("a use beyond what is lent is debt: nothing is lent until it fits", async () => {
      const [a, b] = await startTwo(cluster);
      const key = rates("debt", { tokens: 100 });
      await a.ask(key, TOKENS, { amount: 50 });
      expect(await a.report(key, TOKENS, { used: 150 })).toMatchObject({ lent: 0, used: 150, free: -50 });
      expect(await b.ask(key, TOKENS, { mode: "refill" })).toMatchObject({ kind: "refused" });
    });

    test("the limits of the newest policy are in force", async () => {
      const [a, b] = await startTwo(cluster);
      const old = rates("policy", { requests: 10 });
      const lowered = { ...old, revision: 2, limits: [null, 4, null] as const };
      await a.ask(old, REQUESTS, { amount: 8 });
      expect(await b.read(lowered, REQUESTS)).toMatchObject({ free: -4 });
      expect(await a.read(old, REQUESTS)).toMatchObject({ lent: 8, free: -4 });
      const unlimited = { ...old, revision: 3, limits: [null, null, null] as const };
      expect(await b.ask(unlimited, REQUESTS, { amount: 1_000 })).toEqual(GRANTED);
    });

    test("slots of a silent process stay lent until it is buried", async () => {
      const [a, b] = await startTwo(cluster);
      const key = rates("dead", { slots: 1 });
      await a.ask(key, SLOTS);
      await cluster.pass(9_000);
      await keepAlive(b);
      await cluster.pass(9_000);
      expect(await b.ask(key, SLOTS)).toMatchObject({ kind: "waiting" });
      expect([...(await coordinator.listProcesses())].sort()).toEqual(["p1", "p2"]);
      await coordinator.bury("p1");
      expect(await coordinator.listProcesses()).toEqual(["p2"]);
      // Lent to the request that waited.
      expect(await b.read(key, SLOTS)).toMatchObject({ lent: 1, free: 0 });
      expect(await a.exchange([key])).toEqual({ kind: "gone" });
    });

    test("a process that was silent opens another term and declares what is in use", async () => {
      const [a, b] = await startTwo(cluster);
      const key = rates("thawed", { slots: 3, requests: 10 });
      await a.ok([key], { asks: [wish(SLOTS, { amount: 2 }), wish(REQUESTS, { amount: 6 })] });
      await pass(cluster, 11_000, b);
      expect(await a.exchange([key])).toEqual({ kind: "gone" });
      const { term: replaces, epoch } = a;
      await a.open();
      expect(a.epoch).toBe(epoch);
      expect(await a.exchange([key])).toEqual({ kind: "declare" });
      a.seq = 0;
      await a.declare([{ of: key, record: 0, meter: SLOTS, lent: 1, usedAgo: [] }], {
        replaces,
        registered: ["p1", "p2"],
      });
      const { states } = await a.ok([key]);
      // One of the two slots was idle. All requests that were lent count as used.
      expect(states[0]?.meters[SLOTS]).toMatchObject({ lent: 1, free: 2 });
      expect(states[0]?.meters[REQUESTS]).toMatchObject({ lent: 0, used: 6 });
      // A late duplicate of the first term changes nothing.
      const bounds = await a.readOpeningBounds();
      const opening = { term: replaces, process: "p1", folder: "p1", bounds };
      expect(await coordinator.openTerm(opening)).toMatchObject({ epoch: a.epoch });
      expect(await a.read(key, SLOTS)).toMatchObject({ lent: 1, free: 2 });
    });

    test("a process that starts in the folder of another ends its terms", async () => {
      const [a, b] = await startTwo(cluster);
      const key = rates("folder", { slots: 1, requests: 5 });
      await a.ok([key], { asks: [wish(SLOTS), wish(REQUESTS, { amount: 5 })] });
      await cluster.pass(1_000);
      const c = await cluster.start("p3", { folder: "p1", registered: ["p2", "p3"] });
      expect(await c.read(key, SLOTS)).toMatchObject({ free: 1 });
      expect(await c.read(key, REQUESTS)).toMatchObject({ free: 0, used: 5 });
      expect(await a.exchange([key])).toEqual({ kind: "gone" });
      await keepAlive(b);
    });

    test("a process that stops ends its term", async () => {
      const [a, b] = await startTwo(cluster);
      const key = rates("stopped", { slots: 1 });
      await a.ask(key, SLOTS);
      await coordinator.endTerm(a.term);
      expect(await b.ask(key, SLOTS)).toEqual(GRANTED);
    });

    test("after a loss of state nothing is lent until all registered processes have declared", async () => {
      const [a, b] = await startTwo(cluster);
      const key = rates("lost", { slots: 2, requests: 10 });
      await a.ok([key], { asks: [wish(SLOTS), wish(REQUESTS, { amount: 4 })] });
      await b.ok([key], { asks: [wish(SLOTS)] });
      await under.lose();
      const both = { registered: ["p1", "p2"] };
      expect(await a.exchange([key])).toEqual({ kind: "declare" });
      expect(await b.exchange([key])).toEqual({ kind: "gone" });
      const { epoch } = a;
      await a.open();
      expect(a.epoch).not.toBe(epoch);
      const held = [
        { of: key, record: 0, meter: SLOTS, lent: 1, usedAgo: [] },
        { of: key, record: 0, meter: REQUESTS, lent: 1, usedAgo: [[1_500, 3]] as const },
      ];
      expect(await a.declare(held, both)).toMatchObject({ kind: "ok", isOpen: false });
      const closed = await a.ok([key], { asks: [wish(REQUESTS)] });
      expect(closed).toMatchObject({ isOpen: false, results: [{ kind: "closed" }] });
      expect(closed.states[0]?.meters[REQUESTS]).toMatchObject({ lent: 1, used: 3, free: 6 });
      await b.open();
      const own = [{ of: key, record: 0, meter: SLOTS, lent: 1, usedAgo: [] }];
      expect(await b.declare(own, both)).toMatchObject({ kind: "ok", isOpen: true });
      expect(await b.ask(key, SLOTS)).toMatchObject({ kind: "waiting" });
      expect(await b.ask(key, REQUESTS)).toEqual(GRANTED);
    });

    test("an epoch opens without a process that is no longer registered", async () => {
      await startTwo(cluster);
      await under.lose();
      const a = new ProtocolNode(cluster, "p1", "p1");
      await a.open();
      const declared = await a.declare([], { registered: ["p1", "p2"] });
      expect(declared).toMatchObject({ isOpen: false });
      const call = { process: "p1", registered: ["p1"], hasUnknownUse: true };
      expect(await coordinator.openEpoch({ ...call, registered: ["p1", "p2"] })).toBe(false);
      expect(await coordinator.openEpoch(call)).toBe(true);
      const key = rates("ended", { slots: 1, requests: 1 });
      // The other process cannot declare its use of the last minute.
      expect(await a.ask(key, REQUESTS)).toEqual({ kind: "closed" });
      expect(await a.ask(key, SLOTS)).toEqual(GRANTED);
      for (let i = 0; i < 7; i += 1) {
        await cluster.pass(9_999);
        await keepAlive(a);
      }
      expect(await a.ask(key, REQUESTS)).toEqual({ kind: "closed" });
      await cluster.pass(7);
      expect(await a.ask(key, REQUESTS)).toEqual(GRANTED);
    });

    test("a survivor opens the epoch, because newcomers do not know which processes have ended", async () => {
      const survivor = new ProtocolNode(cluster, "p1", "p1");
      const newcomer = new ProtocolNode(cluster, "p3", "p3");
      const registered = ["p1", "p3"];
      await newcomer.open();
      await survivor.open();
      expect(await survivor.declare([], { registered, isSurvivor: true })).toMatchObject({ isOpen: false });
      expect(await newcomer.declare([], { registered })).toMatchObject({ isOpen: false });
      const opening = { process: "p1", registered, hasUnknownUse: false };
      expect(await coordinator.openEpoch(opening)).toBe(true);
      expect(await newcomer.ask(rates("known", { requests: 1 }), REQUESTS)).toEqual(GRANTED);
    });

    test("a newcomer opens the epoch if the survivors have ended; minutes stay closed", async () => {
      const survivor = new ProtocolNode(cluster, "p1", "p1");
      const newcomer = new ProtocolNode(cluster, "p3", "p3");
      await survivor.open();
      await survivor.declare([], { registered: ["p1", "p2"], isSurvivor: true });
      await newcomer.open();
      expect(await newcomer.declare([], { registered: ["p3"] })).toMatchObject({ isOpen: true });
      const key = rates("unknown", { slots: 1, requests: 1 });
      expect(await newcomer.ask(key, REQUESTS)).toEqual({ kind: "closed" });
      expect(await newcomer.ask(key, SLOTS)).toEqual(GRANTED);
    });

    for (const stepMs of [-600_000, 600_000, 2_500, 700])
      test(`time continues when the server's clock is set by ${stepMs / 1_000} s`, async () => {
        const [a, b] = await startTwo(cluster);
        const key = rates(`clock ${stepMs}`, { requests: 10 });
        await a.ask(key, REQUESTS, { amount: 5 });
        await a.report(key, REQUESTS, { used: 5 });
        cluster.nowMs += 1_000;
        await under.setTime(cluster.nowMs + stepMs);
        await coordinator.sweep();
        const { nowMs, states } = await a.ok([key]);
        expect(nowMs).toBe(cluster.nowMs);
        expect(states[0]?.meters[REQUESTS]).toMatchObject({ used: 5 });
        expect(await b.read(key, REQUESTS)).toMatchObject({ used: 5, free: 5 });
      });

    test("a process that was paused with its clock opens another term", async () => {
      const [a, b] = await startTwo(cluster);
      const key = rates("paused", { slots: 1 });
      await cluster.pass(1_000);
      await keepAlive(b);
      // By its own clock no time has passed.
      const behind = { lo: cluster.nowMs - 5_000, hi: cluster.nowMs - 4_999, aheadMs: null };
      const call = { term: a.term, seq: a.seq + 1, ...behind, records: [key], items: [], asks: [] };
      expect(await coordinator.exchange(call)).toEqual({ kind: "gone" });
      const bounds = { ...behind, epoch: a.epoch };
      const opening = { term: "p1-late", process: "p1", folder: "p1", bounds };
      const { nowMs, beat } = await coordinator.openTerm(opening);
      expect(nowMs).toBeGreaterThanOrEqual(cluster.nowMs);
      expect(beat).toBe(cluster.nowMs);
    });

    test("the time of a starting process is at least that of the last call of another one", async () => {
      const [a, b] = await startTwo(cluster);
      const { nowMs } = cluster;
      // The clock is set, and the process starts before a call has corrected that.
      await under.setTime(nowMs + 600_000);
      const opening = { process: "p3", folder: "p3", bounds: null };
      const early = await coordinator.openTerm({ ...opening, term: "p3-1" });
      expect(early.nowMs).toBeGreaterThanOrEqual(nowMs + 600_000);
      expect(early.beat).toBe(nowMs);
      const [key, minute] = [rates("start", { requests: 10 }), 60_000];
      await a.report(key, REQUESTS, { used: 10 });
      // Bounds of another epoch mean nothing.
      const bounds = { lo: nowMs + minute, hi: nowMs + minute, aheadMs: null };
      const other = await coordinator.openTerm({
        ...opening,
        term: "p3-2",
        bounds: { ...bounds, epoch: "x" },
      });
      expect(other.beat).toBe(nowMs);
      // What expires does so by the earliest time that a call can have.
      const loose = { lo: nowMs, hi: nowMs + 2 * minute, aheadMs: null };
      await under.setTime(nowMs + 2 * minute);
      const call = { term: b.term, seq: b.seq + 1, ...loose, records: [key], items: [], asks: [] };
      const reply = await coordinator.exchange(call);
      expect(reply.kind === "ok" && reply.states[0]?.meters[REQUESTS].used).toBe(10);
    });

    test("a clock that is ahead by less than the delay of a call is corrected when a reply has proven it", async () => {
      const [a] = await startTwo(cluster);
      await under.setTime(cluster.nowMs + 1_500);
      const { nowMs } = cluster;
      const exchange = async (aheadMs: number | null) => {
        a.seq += 1;
        const call = {
          term: a.term,
          seq: a.seq,
          lo: nowMs,
          hi: nowMs,
          aheadMs,
          records: [],
          items: [],
          asks: [],
        };
        const reply = await coordinator.exchange(call);
        return reply.kind === "ok" ? reply.nowMs - nowMs : Number.NaN;
      };
      expect(await exchange(null)).toBeGreaterThanOrEqual(1_500);
      expect(await exchange(1_400)).toBe(0);
    });

    test("waiting requests, and records without use, are forgotten", async () => {
      const [a, b] = await startTwo(cluster);
      const key = rates("forgotten", { slots: 1 });
      await a.ask(key, SLOTS);
      await b.ask(key, SLOTS);
      expect(await a.read(key, SLOTS)).toMatchObject({ hasOthersWaiting: true });
      await cluster.pass(2_001);
      expect(await a.report(key, SLOTS, { returned: 1 })).toMatchObject({ hasOthersWaiting: false, free: 1 });
      await coordinator.sweep();
      expect(await b.ask(key, SLOTS)).toEqual(GRANTED);
      await coordinator.sweep();
      expect(await b.read(key, SLOTS)).toMatchObject({ lent: 1, free: 0 });
    });

    test("a call that is too large is rejected before it is sent", async () => {
      const [a] = await startTwo(cluster);
      const records = Array.from({ length: 501 }, (_, i) => rates(`r${i}`, { slots: 1 }));
      await expect(a.exchange(records)).rejects.toThrow("501 records");
    });

    test("ids of any characters are kept", async () => {
      const [a, b] = await startTwo(cluster);
      await a.listen();
      const key = rates(`:{"ü'\\ ,}:1`, { slots: 1 });
      expect(await a.ask(key, SLOTS, { key: `"\\'` })).toEqual(GRANTED);
      expect(await b.ask(key, SLOTS, { key: `{"a",}` })).toMatchObject({ kind: "waiting" });
      expect(await a.nextNote()).toMatchObject({ record: { scope: "key", id: key.id, perMs: null } });
    });

    if (engine !== "redis")
      test("windows survive a loss of the other state", async () => {
        const [a] = await startTwo(cluster);
        const key = buildWindow("kept", { nano: 1_000 });
        await a.ask(key, 2, { amount: 700 });
        await under.lose();
        await a.exchange([key]);
        const { term: replaces } = a;
        await a.open();
        await a.declare([{ of: key, record: 0, meter: 2, lent: 300, usedAgo: [] }], { replaces });
        // The use that was reported is in the stored usage, which is empty here.
        expect(await a.read(key, 2)).toMatchObject({ lent: 300, free: 700, used: 0 });
      });
  });
}

async function startTwo(cluster: ProtocolCluster): Promise<[ProtocolNode, ProtocolNode]> {
  const [a, b] = await cluster.startAll("p1", "p2");
  if (a === undefined || b === undefined) throw new Error("no nodes");
  return [a, b];
}

async function keepAlive(...nodes: readonly ProtocolNode[]): Promise<void> {
  for (const node of nodes) await node.ok([]);
}

/** Lets time pass for the others, while these nodes stay in contact. */
async function pass(cluster: ProtocolCluster, ms: number, ...alive: readonly ProtocolNode[]): Promise<void> {
  for (let left = ms; left > 0; left -= 5_000) {
    await cluster.pass(Math.min(left, 5_000));
    await keepAlive(...alive);
  }
}
