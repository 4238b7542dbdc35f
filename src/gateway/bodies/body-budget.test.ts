import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Deadline } from "../../base/deadlines.ts";
import {
  type BodyBudgetOptions,
  type BodyReservation,
  openBodyBudget,
  type ReservationResult,
} from "./body-budget.ts";

const STAYING = { signal: new AbortController().signal };
const ANN = { id: "key_1", userId: "usr_ann" };
const BEN = { id: "key_2", userId: "usr_ben" };
const CAT = { id: "key_3", userId: "usr_cat" };

function open(changed: Partial<BodyBudgetOptions> = {}) {
  const pending = new Set<Deadline>();
  let nowMs = 0;
  const budget = openBodyBudget({
    bytesMax: 100,
    ownerBytesMax: 60,
    waitingMax: 5,
    ownerWaitingMax: 4,
    waitTimeoutMs: 1_000,
    deadlines: {
      set(afterMs, expire) {
        const deadline = { atMs: nowMs + afterMs, expire };
        pending.add(deadline);
        return deadline;
      },
      cancel: (deadline) => void pending.delete(deadline),
      stop() {},
    },
    monotonicMs: () => nowMs,
    ...changed,
  });
  return {
    budget,
    pass(ms: number) {
      nowMs += ms;
      for (const deadline of [...pending])
        if (deadline.atMs <= nowMs && pending.delete(deadline)) deadline.expire();
    },
    deadlines: pending,
  };
}

/** The result so far. */
function watched(finding: ReservationResult | Promise<ReservationResult>): {
  found: ReservationResult | null;
} {
  const seen: { found: ReservationResult | null } = { found: null };
  if (finding instanceof Promise) void finding.then((found) => (seen.found = found));
  else seen.found = finding;
  return seen;
}

/** Lets resolved promises run their callbacks. */
const settled = () => Promise.resolve().then(() => {});

describe("the body budget", () => {
  test("grants bytes at once while enough are free", () => {
    const { budget } = open();
    expect(budget.open(ANN, STAYING).growTo(50)).toBe("room");
    expect(budget.open(BEN, STAYING).growTo(50)).toBe("room");
    expect(budget.report()).toEqual({ heldBytes: 100, bytesMax: 100, waiting: 0, refused: 0 });
  });

  test("queues reservations and grants the oldest first, never a smaller one before it", async () => {
    const { budget } = open();
    const reservation = budget.open(ANN, STAYING);
    reservation.growNow(90);
    const large = watched(budget.open(BEN, STAYING).growTo(50));
    const small = watched(budget.open(CAT, STAYING).growTo(5));
    expect(budget.isContended()).toBe(true);
    reservation.shrinkTo(60);
    await settled();
    expect([large.found, small.found]).toEqual([null, null]);
    reservation.shrinkTo(50);
    await settled();
    expect([large.found, small.found]).toEqual(["room", null]);
    reservation.release();
    await settled();
    expect(small.found).toBe("room");
    expect(budget.isContended()).toBe(false);
  });

  test("rejects a reservation that waited too long and continues with the next", async () => {
    const { budget, pass } = open();
    budget.open(ANN, STAYING).growNow(90);
    const large = watched(budget.open(BEN, STAYING).growTo(50));
    pass(500);
    const small = watched(budget.open(CAT, STAYING).growTo(5));
    pass(500);
    await settled();
    expect([large.found, small.found]).toEqual(["full", "room"]);
    expect(budget.report()).toMatchObject({ heldBytes: 95, waiting: 0, refused: 1 });
  });

  test("rejects a reservation when too many are waiting", async () => {
    const { budget } = open({ waitingMax: 1 });
    budget.open(ANN, STAYING).growNow(100);
    const first = watched(budget.open(BEN, STAYING).growTo(1));
    expect(budget.open(CAT, STAYING).growTo(1)).toBe("full");
    expect(first.found).toBeNull();
    expect(budget.report()).toMatchObject({ waiting: 1, refused: 1 });
  });

  test("limits the waiting reservations per owner", () => {
    const { budget } = open({ ownerWaitingMax: 2 });
    budget.open(ANN, STAYING).growNow(60);
    const waiting = Array.from({ length: 2 }, () => watched(budget.open(ANN, STAYING).growTo(1)));
    expect(waiting.map(({ found }) => found)).toEqual([null, null]);
    expect(budget.open(ANN, STAYING).growTo(1)).toBe("full");
    expect(budget.isContended()).toBe(false);
    void budget.open(BEN, STAYING).growTo(50);
    expect(budget.isContended()).toBe(true);
    expect(budget.report()).toMatchObject({ heldBytes: 60, waiting: 3, refused: 1 });
  });

  test("drops a waiting reservation when its client disconnects", async () => {
    const { budget, deadlines } = open();
    const reservation = budget.open(ANN, STAYING);
    reservation.growNow(100);
    const client = new AbortController();
    const waiting = watched(budget.open(BEN, client).growTo(50));
    const behind = watched(budget.open(CAT, STAYING).growTo(1));
    reservation.shrinkTo(99);
    client.abort();
    await settled();
    expect([waiting.found, behind.found]).toEqual(["left", "room"]);
    expect(watched(budget.open(BEN, client).growTo(50)).found).toBeNull();
    expect(budget.report()).toMatchObject({ heldBytes: 100, waiting: 0, refused: 0 });
    expect(deadlines.size).toBe(0);
  });

  test("limits one owner to a share across all its keys; other owners are not delayed", async () => {
    const { budget } = open();
    const first = budget.open(ANN, STAYING);
    first.growNow(40);
    const second = watched(budget.open({ ...ANN, id: "key_9" }, STAYING).growTo(30));
    expect(second.found).toBeNull();
    expect(budget.open(BEN, STAYING).growTo(30)).toBe("room");
    first.release();
    await settled();
    expect(second.found).toBe("room");
  });

  test("grants the whole budget to a single body", () => {
    const { budget } = open();
    expect(budget.open(ANN, STAYING).growTo(100)).toBe("room");
  });

  test("serves a partially read body first", async () => {
    const { budget } = open();
    const [growing, other] = [budget.open(ANN, STAYING), budget.open(CAT, STAYING)];
    growing.growNow(40);
    other.growNow(40);
    const newcomer = watched(budget.open(BEN, STAYING).growTo(30));
    const more = watched(growing.growTo(60));
    other.release();
    await settled();
    expect([more.found, newcomer.found]).toEqual(["room", "room"]);
    expect(budget.report().heldBytes).toBe(90);
  });

  test("can be reserved without waiting, which never overtakes a waiting reservation", () => {
    const { budget } = open();
    budget.open(ANN, STAYING).growNow(90);
    void budget.open(BEN, STAYING).growTo(50);
    expect(budget.open(CAT, STAYING).growNow(5)).toBe(false);
    expect(budget.report()).toMatchObject({ heldBytes: 90, waiting: 1 });
  });

  test("reports a Retry-After of about the time that bodies stay in memory", () => {
    const { budget, pass } = open();
    expect(budget.retryAfterSeconds()).toBe(1);
    for (let i = 0; i < 40; i++) {
      const reservation = budget.open(ANN, STAYING);
      reservation.growNow(10);
      pass(20_000);
      reservation.release();
    }
    expect(budget.retryAfterSeconds()).toBe(20);
  });
});

/** The expected state of one body. */
interface Model {
  owner: number;
  reservation: BodyReservation;
  client: AbortController;
  waiting: { found: ReservationResult | null; to: number } | null;
}

test("the budget is never exceeded, and every byte is released exactly once", async () => {
  const owners = [ANN, BEN, CAT];
  const step = fc.oneof(
    { weight: 6, arbitrary: fc.record({ kind: fc.constant("open" as const), owner: fc.nat(2), to: size() }) },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant("grow" as const), at: fc.nat(20), by: size() }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant("shrink" as const), at: fc.nat(20), to: size() }) },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant("release" as const), at: fc.nat(20) }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant("leave" as const), at: fc.nat(20) }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant("pass" as const), ms: fc.nat(1_200) }) },
  );
  function size() {
    return fc.oneof(fc.integer({ min: 1, max: 30 }), fc.integer({ min: 1, max: 100 }));
  }

  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const { budget, pass, deadlines } = open();
      let bodies: Model[] = [];

      function ask(body: Model, to: number): void {
        const waiting = { found: null as ReservationResult | null, to };
        body.waiting = waiting;
        const finding = body.reservation.growTo(to);
        if (finding instanceof Promise) void finding.then((found) => settle(body, waiting, found));
        else settle(body, waiting, finding);
      }

      function settle(
        body: Model,
        waiting: { found: ReservationResult | null; to: number },
        found: ReservationResult,
      ): void {
        expect(waiting.found).toBeNull();
        waiting.found = found;
        body.waiting = null;
        if (found === "room") expect(body.reservation.bytes).toBe(waiting.to);
        // Like a reader that was rejected, or whose client disconnected.
        else drop(body);
      }

      function drop(body: Model): void {
        body.reservation.release();
        bodies = bodies.filter((other) => other !== body);
      }

      for (const now of steps) {
        const body = "at" in now ? bodies[now.at % Math.max(1, bodies.length)] : undefined;
        switch (now.kind) {
          case "open": {
            const client = new AbortController();
            const owner = owners[now.owner] ?? ANN;
            const opened = {
              owner: now.owner,
              reservation: budget.open(owner, client),
              client,
              waiting: null,
            };
            bodies.push(opened);
            ask(opened, now.to);
            break;
          }
          case "grow":
            if (body !== undefined && body.waiting === null) ask(body, body.reservation.bytes + now.by);
            break;
          case "shrink":
            if (body !== undefined && body.waiting === null) body.reservation.shrinkTo(now.to);
            break;
          case "release":
            if (body !== undefined) drop(body);
            break;
          case "leave":
            body?.client.abort();
            break;
          case "pass":
            pass(now.ms);
        }
        await settled();
        const report = budget.report();
        const heldBytes = bodies.reduce((sum, { reservation }) => sum + reservation.bytes, 0);
        expect(report.heldBytes).toBe(heldBytes);
        expect(heldBytes).toBeLessThanOrEqual(100);
        expect(report.waiting).toBe(bodies.filter(({ waiting }) => waiting !== null).length);
        expect(report.waiting).toBeLessThanOrEqual(5);
        for (const owner of owners.keys()) {
          const own = bodies.filter((other) => other.owner === owner && other.reservation.bytes > 0);
          const ownBytes = own.reduce((sum, { reservation }) => sum + reservation.bytes, 0);
          if (own.length > 1) expect(ownBytes).toBeLessThanOrEqual(60);
          const inLine = bodies.filter((other) => other.owner === owner && other.waiting !== null);
          expect(inLine.length).toBeLessThanOrEqual(4);
        }
        // An empty budget has no waiting bodies.
        if (heldBytes === 0) expect(report.waiting).toBe(0);
      }
      for (let body = bodies[0]; body !== undefined; body = bodies[0]) {
        drop(body);
        await settled();
      }
      expect(budget.report()).toMatchObject({ heldBytes: 0, waiting: 0 });
      expect(deadlines.size).toBe(0);
    }),
    { numRuns: 500 },
  );
});
