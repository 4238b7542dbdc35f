import { describe, expect, test } from "bun:test";
import { openInFlightRequests } from "./in-flight-requests.ts";

const LONG_MS = 60_000;

describe("the end of a process", () => {
  test("waits for nothing when nothing is under way", async () => {
    const underWay = openInFlightRequests();
    underWay.begin();
    underWay.end();
    expect(await underWay.close(LONG_MS)).toBe(0);
  });

  test("cuts what can be cut, and waits for that and for what cannot", async () => {
    const underWay = openInFlightRequests();
    underWay.begin();
    const told: string[] = [];
    const cutOver = underWay.enter(() => {
      told.push("cut");
      setTimeout(cutOver, 1);
    });
    const closing = underWay.close(LONG_MS).then((left) => told.push(`left ${left}`));
    setTimeout(() => {
      told.push("over");
      underWay.end();
    }, 5);
    await closing;
    expect(told).toEqual(["cut", "over", "left 0"]);
  });

  test("does not wait for ever, and tells how many are left", async () => {
    const underWay = openInFlightRequests();
    underWay.begin();
    expect(await underWay.close(1)).toBe(1);
  });

  test("cuts what begins later at once", async () => {
    const underWay = openInFlightRequests();
    const first = underWay.enter(() => {
      // Followed by work that continues in the background.
      const second = underWay.enter(() => second());
      first();
    });
    expect(await underWay.close(LONG_MS)).toBe(0);
  });
});
