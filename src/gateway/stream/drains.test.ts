import { describe, expect, test } from "bun:test";
import { openInFlightRequests } from "../request/in-flight-requests.ts";
import { lingeringClient, openDrains } from "./drains.ts";

describe("drains", () => {
  test("are limited in total, and a finished drain frees its place", () => {
    const drains = openDrains(2, 2);
    expect([drains.tryAcquire("u1"), drains.tryAcquire("u1"), drains.tryAcquire("u1")]).toEqual([
      true,
      true,
      false,
    ]);
    drains.release("u1");
    expect([drains.tryAcquire("u1"), drains.tryAcquire("u1")]).toEqual([true, false]);
  });

  test("are limited per user, independent of other users", () => {
    const drains = openDrains(3, 1);
    expect([drains.tryAcquire("u1"), drains.tryAcquire("u1"), drains.tryAcquire("u2")]).toEqual([
      true,
      false,
      true,
    ]);
    drains.release("u1");
    expect([drains.tryAcquire("u1"), drains.tryAcquire("u3"), drains.tryAcquire("u4")]).toEqual([
      true,
      true,
      false,
    ]);
  });

  test("are disabled with a limit of zero", () => {
    expect(openDrains(0, 1).tryAcquire("u1")).toBe(false);
  });
});

describe("a lingering client", () => {
  const LONG_MS = 60_000;

  function setUp(lingerMs: number, max = 1) {
    const drains = openDrains(max, max);
    const left = new AbortController();
    const inFlight = openInFlightRequests();
    const client = lingeringClient({ signal: left.signal }, "u1", drains, lingerMs, inFlight);
    return { drains, left, client, inFlight };
  }

  test("counts as connected until its response has arrived, then ends its drain", () => {
    const { drains, left, client } = setUp(LONG_MS);
    const { signal } = client;
    left.abort();
    expect([signal.aborted, drains.tryAcquire("u1")]).toEqual([false, false]);
    client.stopLingering();
    client.stopLingering();
    expect([signal.aborted, drains.tryAcquire("u1"), drains.tryAcquire("u1")]).toEqual([false, true, false]);
  });

  test("counts as disconnected after the timeout, and ends its drain", async () => {
    const { drains, left, client } = setUp(1);
    const { signal } = client;
    const gone = new Promise((resolve) => signal.addEventListener("abort", resolve));
    left.abort();
    await gone;
    client.stopLingering();
    expect(drains.tryAcquire("u1")).toBe(true);
  });

  test("counts as disconnected at once if the drain limit is reached", () => {
    const { drains, left, client } = setUp(LONG_MS);
    drains.tryAcquire("u1");
    const { signal } = client;
    left.abort();
    expect(signal.aborted).toBe(true);
    client.stopLingering();
    expect(drains.tryAcquire("u1")).toBe(false);
  });

  test("is drained even if it disconnected before the signal was read", () => {
    const { drains, left, client } = setUp(LONG_MS);
    left.abort();
    expect([client.signal.aborted, drains.tryAcquire("u1")]).toEqual([false, false]);
    client.stopLingering();
  });

  test("counts as disconnected at shutdown, which waits for its upstream call to end", async () => {
    const { left, client, inFlight } = setUp(LONG_MS);
    const { signal } = client;
    left.abort();
    signal.addEventListener("abort", () => setTimeout(client.stopLingering, 1));
    expect(await inFlight.close(LONG_MS)).toBe(0);
    expect(signal.aborted).toBe(true);
  });

  test("starts no drain after its response", () => {
    const { drains, left, client } = setUp(LONG_MS);
    const { signal } = client;
    client.stopLingering();
    left.abort();
    expect([signal.aborted, drains.tryAcquire("u1")]).toEqual([false, true]);
  });
});
