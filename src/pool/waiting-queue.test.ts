import { expect, test } from "bun:test";
import { systemClock } from "../base/clock.ts";
import { openWaitingQueue, type Ticket, type WaitingQueue } from "./waiting-queue.ts";

/** An account with some slots; the function returned with a slot releases it. */
function account(room: WaitingQueue, id: string, places: number) {
  let free = places;
  let peak = 0;
  const take = (): (() => void) | null => {
    if (free === 0) return null;
    free--;
    peak = Math.max(peak, places - free);
    return () => {
      free++;
      room.serveFreedSlot(id);
    };
  };
  return { take, peak: () => peak, free: () => free };
}

function ticket(
  keyId: string,
  take: () => (() => void) | null,
  change: Partial<Ticket<() => void>> = {},
): Ticket<() => void> {
  return {
    keyId,
    groupId: "group",
    accountIds: new Set(["a"]),
    maxWaiting: 10_000,
    timeoutMs: 5_000,
    freesInMs: null,
    attempt() {
      const taken = take();
      return taken === null ? { freesInMs: null } : { taken };
    },
    clientSignal: new AbortController().signal,
    ...change,
  };
}

test("a released slot goes to the first waiting request before any other", async () => {
  const room = openWaitingQueue(systemClock);
  const { take } = account(room, "a", 1);
  const release = take();
  const order: string[] = [];
  const first = room.wait(ticket("k", take)).then(() => order.push("first"));
  const second = room.wait(ticket("k", take, { timeoutMs: 20 })).then((end) => order.push(end.kind));
  release?.();
  expect(take()).toBeNull();
  await Promise.all([first, second]);
  expect(order).toEqual(["first", "timeout"]);
});

test("a key with a thousand waiting requests delays another key by one service at most", async () => {
  const room = openWaitingQueue(systemClock);
  const { take } = account(room, "a", 1);
  let release = take();
  let served: string | null = null;
  for (let i = 0; i < 1_000; i++) {
    void room.wait(ticket("many", take, { timeoutMs: 200 })).then((end) => {
      if (end.kind === "served") {
        served = "many";
        release = end.value;
      }
    });
  }
  void room.wait(ticket("one", take)).then((end) => {
    if (end.kind === "served") {
      served = "one";
      release = end.value;
    }
  });
  const order: (string | null)[] = [];
  for (let i = 0; i < 3; i++) {
    release?.();
    await Bun.sleep(0);
    order.push(served);
  }
  expect(order.slice(0, 2)).toContain("one");
});

test("no request waits while a slot is free, and no more are served than there are slots", async () => {
  const room = openWaitingQueue(systemClock);
  const { take, peak, free } = account(room, "a", 10);
  let done = 0;
  await Promise.all(
    Array.from({ length: 500 }, async (_, i) => {
      const end = take() ?? (await room.wait(ticket(`k${i % 7}`, take)));
      const release = typeof end === "function" ? end : end.kind === "served" ? end.value : null;
      await Bun.sleep(0);
      expect(release).not.toBeNull();
      done++;
      release?.();
    }),
  );
  expect({ done, peak: peak(), free: free(), waiting: room.countWaiting("group") }).toEqual({
    done: 500,
    peak: 10,
    free: 10,
    waiting: 0,
  });
});

test("a full queue rejects the next request at once", async () => {
  const room = openWaitingQueue(systemClock);
  const never = () => null;
  const inside = room.wait(ticket("k", never, { maxWaiting: 1, timeoutMs: 20 }));
  expect(await room.wait(ticket("k", never, { maxWaiting: 1 }))).toEqual({ kind: "full" });
  expect((await inside).kind).toBe("timeout");
  expect(room.countWaiting("group")).toBe(0);
});

test("a client that disconnects leaves the queue", async () => {
  const room = openWaitingQueue(systemClock);
  const client = new AbortController();
  const waiting = room.wait(ticket("k", () => null, { clientSignal: client.signal }));
  client.abort();
  expect((await waiting).kind).toBe("left");
  expect(room.countWaiting("group")).toBe(0);
});

test("a release on an account that no waiting request can use changes nothing", async () => {
  const room = openWaitingQueue(systemClock);
  let tries = 0;
  const waiting = room.wait(
    ticket("k", () => null, {
      timeoutMs: 20,
      attempt() {
        tries++;
        return { freesInMs: null };
      },
    }),
  );
  room.serveFreedSlot("another");
  expect(tries).toBe(0);
  expect((await waiting).kind).toBe("timeout");
});

test("the queue retries by itself when a limit frees by time", async () => {
  const room = openWaitingQueue(systemClock);
  let open = false;
  const attempt = () => (open ? { taken: () => {} } : { freesInMs: 5 });
  const waiting = [1, 2, 3].map(() => room.wait(ticket("k", () => null, { freesInMs: 5, attempt })));
  setTimeout(() => {
    open = true;
  }, 20);
  expect((await Promise.all(waiting)).map(({ kind }) => kind)).toEqual(["served", "served", "served"]);
});
