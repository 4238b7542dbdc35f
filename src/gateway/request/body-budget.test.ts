import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Deadline } from "../../net/wire/deadlines.ts";
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
  const room = openBodyBudget({
    bytesMax: 100,
    ownerBytesMax: 60,
    waitingMax: 5,
    ownerWaitingMax: 4,
    patienceMs: 1_000,
    alarms: {
      set(afterMs, ring) {
        const alarm = { atMs: nowMs + afterMs, ring };
        pending.add(alarm);
        return alarm;
      },
      cancel: (alarm) => void pending.delete(alarm),
      stop() {},
    },
    monotonicMs: () => nowMs,
    ...changed,
  });
  return {
    room,
    pass(ms: number) {
      nowMs += ms;
      for (const alarm of [...pending]) if (alarm.atMs <= nowMs && pending.delete(alarm)) alarm.ring();
    },
    alarms: pending,
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
const told = () => Promise.resolve().then(() => {});

describe("room for bodies", () => {
  test("is given at once while there is some", () => {
    const { room } = open();
    expect(room.open(ANN, STAYING).growTo(50)).toBe("room");
    expect(room.open(BEN, STAYING).growTo(50)).toBe("room");
    expect(room.report()).toEqual({ heldBytes: 100, bytesMax: 100, waiting: 0, refused: 0 });
  });

  test("is waited for, and given to the oldest first: nobody smaller passes", async () => {
    const { room } = open();
    const held = room.open(ANN, STAYING);
    held.growNow(90);
    const large = watched(room.open(BEN, STAYING).growTo(50));
    const small = watched(room.open(CAT, STAYING).growTo(5));
    expect(room.isCrowded()).toBe(true);
    held.shrinkTo(60);
    await told();
    expect([large.found, small.found]).toEqual([null, null]);
    held.shrinkTo(50);
    await told();
    expect([large.found, small.found]).toEqual(["room", null]);
    held.release();
    await told();
    expect(small.found).toBe("room");
    expect(room.isCrowded()).toBe(false);
  });

  test("is refused to whoever waited too long, and those behind go on", async () => {
    const { room, pass } = open();
    room.open(ANN, STAYING).growNow(90);
    const large = watched(room.open(BEN, STAYING).growTo(50));
    pass(500);
    const small = watched(room.open(CAT, STAYING).growTo(5));
    pass(500);
    await told();
    expect([large.found, small.found]).toEqual(["full", "room"]);
    expect(room.report()).toMatchObject({ heldBytes: 95, waiting: 0, refused: 1 });
  });

  test("is not waited for by more than a few", async () => {
    const { room } = open({ waitingMax: 1 });
    room.open(ANN, STAYING).growNow(100);
    const first = watched(room.open(BEN, STAYING).growTo(1));
    expect(room.open(CAT, STAYING).growTo(1)).toBe("full");
    expect(first.found).toBeNull();
    expect(room.report()).toMatchObject({ waiting: 1, refused: 1 });
  });

  test("leaves others a place in line, however many of one owner wait", () => {
    const { room } = open({ ownerWaitingMax: 2 });
    room.open(ANN, STAYING).growNow(60);
    const waiting = Array.from({ length: 2 }, () => watched(room.open(ANN, STAYING).growTo(1)));
    expect(waiting.map(({ found }) => found)).toEqual([null, null]);
    expect(room.open(ANN, STAYING).growTo(1)).toBe("full");
    expect(room.isCrowded()).toBe(false);
    void room.open(BEN, STAYING).growTo(50);
    expect(room.isCrowded()).toBe(true);
    expect(room.report()).toMatchObject({ heldBytes: 60, waiting: 3, refused: 1 });
  });

  test("is not waited for by a client that has left", async () => {
    const { room, alarms } = open();
    const held = room.open(ANN, STAYING);
    held.growNow(100);
    const client = new AbortController();
    const waiting = watched(room.open(BEN, client).growTo(50));
    const behind = watched(room.open(CAT, STAYING).growTo(1));
    held.shrinkTo(99);
    client.abort();
    await told();
    expect([waiting.found, behind.found]).toEqual(["left", "room"]);
    expect(watched(room.open(BEN, client).growTo(50)).found).toBeNull();
    expect(room.report()).toMatchObject({ heldBytes: 100, waiting: 0, refused: 0 });
    expect(alarms.size).toBe(0);
  });

  test("is for one owner no more than a share, whichever of its keys is used, and others pass", async () => {
    const { room } = open();
    const first = room.open(ANN, STAYING);
    first.growNow(40);
    const second = watched(room.open({ ...ANN, id: "key_9" }, STAYING).growTo(30));
    expect(second.found).toBeNull();
    expect(room.open(BEN, STAYING).growTo(30)).toBe("room");
    first.release();
    await told();
    expect(second.found).toBe("room");
  });

  test("is all there is for a single body", () => {
    const { room } = open();
    expect(room.open(ANN, STAYING).growTo(100)).toBe("room");
  });

  test("goes first to a body that is there in part", async () => {
    const { room } = open();
    const [growing, other] = [room.open(ANN, STAYING), room.open(CAT, STAYING)];
    growing.growNow(40);
    other.growNow(40);
    const newcomer = watched(room.open(BEN, STAYING).growTo(30));
    const more = watched(growing.growTo(60));
    other.release();
    await told();
    expect([more.found, newcomer.found]).toEqual(["room", "room"]);
    expect(room.report().heldBytes).toBe(90);
  });

  test("may be asked for without waiting, and then nobody who waits is passed", () => {
    const { room } = open();
    room.open(ANN, STAYING).growNow(90);
    void room.open(BEN, STAYING).growTo(50);
    expect(room.open(CAT, STAYING).growNow(5)).toBe(false);
    expect(room.report()).toMatchObject({ heldBytes: 90, waiting: 1 });
  });

  test("is worth another try after about as long as bodies stay", () => {
    const { room, pass } = open();
    expect(room.retryAfterSeconds()).toBe(1);
    for (let i = 0; i < 40; i++) {
      const held = room.open(ANN, STAYING);
      held.growNow(10);
      pass(20_000);
      held.release();
    }
    expect(room.retryAfterSeconds()).toBe(20);
  });
});

/** The expected state of one body. */
interface Model {
  owner: number;
  held: BodyReservation;
  client: AbortController;
  waiting: { found: ReservationResult | null; to: number } | null;
}

test("whatever bodies do, no more is held than there is, and all of it is given back exactly once", async () => {
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
      const { room, pass, alarms } = open();
      let bodies: Model[] = [];

      function ask(body: Model, to: number): void {
        const waiting = { found: null as ReservationResult | null, to };
        body.waiting = waiting;
        const finding = body.held.growTo(to);
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
        if (found === "room") expect(body.held.bytes).toBe(waiting.to);
        // Like a reader that was rejected, or whose client disconnected.
        else drop(body);
      }

      function drop(body: Model): void {
        body.held.release();
        bodies = bodies.filter((other) => other !== body);
      }

      for (const now of steps) {
        const body = "at" in now ? bodies[now.at % Math.max(1, bodies.length)] : undefined;
        switch (now.kind) {
          case "open": {
            const client = new AbortController();
            const owner = owners[now.owner] ?? ANN;
            const opened = { owner: now.owner, held: room.open(owner, client), client, waiting: null };
            bodies.push(opened);
            ask(opened, now.to);
            break;
          }
          case "grow":
            if (body !== undefined && body.waiting === null) ask(body, body.held.bytes + now.by);
            break;
          case "shrink":
            if (body !== undefined && body.waiting === null) body.held.shrinkTo(now.to);
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
        await told();
        const report = room.report();
        const heldBytes = bodies.reduce((sum, { held }) => sum + held.bytes, 0);
        expect(report.heldBytes).toBe(heldBytes);
        expect(heldBytes).toBeLessThanOrEqual(100);
        expect(report.waiting).toBe(bodies.filter(({ waiting }) => waiting !== null).length);
        expect(report.waiting).toBeLessThanOrEqual(5);
        for (const owner of owners.keys()) {
          const own = bodies.filter((other) => other.owner === owner && other.held.bytes > 0);
          const ownBytes = own.reduce((sum, { held }) => sum + held.bytes, 0);
          if (own.length > 1) expect(ownBytes).toBeLessThanOrEqual(60);
          const inLine = bodies.filter((other) => other.owner === owner && other.waiting !== null);
          expect(inLine.length).toBeLessThanOrEqual(4);
        }
        // An empty budget has no waiting bodies.
        if (heldBytes === 0) expect(report.waiting).toBe(0);
      }
      for (let body = bodies[0]; body !== undefined; body = bodies[0]) {
        drop(body);
        await told();
      }
      expect(room.report()).toMatchObject({ heldBytes: 0, waiting: 0 });
      expect(alarms.size).toBe(0);
    }),
    { numRuns: 500 },
  );
});
