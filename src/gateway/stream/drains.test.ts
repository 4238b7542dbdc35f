import { describe, expect, test } from "bun:test";
import { openInFlightRequests } from "../request/in-flight-requests.ts";
import { lingeringClient, openDrains } from "./drains.ts";

describe("drains", () => {
  test("have room for so many at a time, and for another when one has left", () => {
    const drains = openDrains(2, 2);
    expect([drains.enter("u1"), drains.enter("u1"), drains.enter("u1")]).toEqual([true, true, false]);
    drains.leave("u1");
    expect([drains.enter("u1"), drains.enter("u1")]).toEqual([true, false]);
  });

  test("have room for so many of one user, whatever others leave free", () => {
    const drains = openDrains(3, 1);
    expect([drains.enter("u1"), drains.enter("u1"), drains.enter("u2")]).toEqual([true, false, true]);
    drains.leave("u1");
    expect([drains.enter("u1"), drains.enter("u3"), drains.enter("u4")]).toEqual([true, true, false]);
  });

  test("are off where there is room for none", () => {
    expect(openDrains(0, 1).enter("u1")).toBe(false);
  });
});

describe("a client that left", () => {
  const LONG_MS = 60_000;

  function setUp(lingerMs: number, max = 1) {
    const drains = openDrains(max, max);
    const left = new AbortController();
    const underWay = openInFlightRequests();
    const client = lingeringClient({ signal: left.signal }, "u1", drains, lingerMs, underWay);
    return { drains, left, client, underWay };
  }

  test("counts as present until its answer is there, and then makes room", () => {
    const { drains, left, client } = setUp(LONG_MS);
    const { signal } = client;
    left.abort();
    expect([signal.aborted, drains.enter("u1")]).toEqual([false, false]);
    client.stopLingering();
    client.stopLingering();
    expect([signal.aborted, drains.enter("u1"), drains.enter("u1")]).toEqual([false, true, false]);
  });

  test("counts as gone after a while, and makes room when its upstream is cut", async () => {
    const { drains, left, client } = setUp(1);
    const { signal } = client;
    const gone = new Promise((resolve) => signal.addEventListener("abort", resolve));
    left.abort();
    await gone;
    client.stopLingering();
    expect(drains.enter("u1")).toBe(true);
  });

  test("counts as gone at once where there is no room", () => {
    const { drains, left, client } = setUp(LONG_MS);
    drains.enter("u1");
    const { signal } = client;
    left.abort();
    expect(signal.aborted).toBe(true);
    client.stopLingering();
    expect(drains.enter("u1")).toBe(false);
  });

  test("before anybody looked lingers all the same", () => {
    const { drains, left, client } = setUp(LONG_MS);
    left.abort();
    expect([client.signal.aborted, drains.enter("u1")]).toEqual([false, false]);
    client.stopLingering();
  });

  test("counts as gone when the process ends, which waits until its answer is given up", async () => {
    const { left, client, underWay } = setUp(LONG_MS);
    const { signal } = client;
    left.abort();
    signal.addEventListener("abort", () => setTimeout(client.stopLingering, 1));
    expect(await underWay.close(LONG_MS)).toBe(0);
    expect(signal.aborted).toBe(true);
  });

  test("after its answer takes no room", () => {
    const { drains, left, client } = setUp(LONG_MS);
    const { signal } = client;
    client.stopLingering();
    left.abort();
    expect([signal.aborted, drains.enter("u1")]).toEqual([false, true]);
  });
});
