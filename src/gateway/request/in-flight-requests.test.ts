import { describe, expect, test } from "bun:test";
import { openInFlightRequests } from "./in-flight-requests.ts";

const LONG_MS = 60_000;

describe("shutdown with requests in flight", () => {
  test("returns at once if no request is in flight", async () => {
    const inFlight = openInFlightRequests();
    inFlight.begin();
    inFlight.end();
    expect(await inFlight.close(LONG_MS)).toBe(0);
  });

  test("cuts the requests that can be cut, and waits for all requests", async () => {
    const inFlight = openInFlightRequests();
    inFlight.begin();
    const order: string[] = [];
    const cutOver = inFlight.register(() => {
      order.push("cut");
      setTimeout(cutOver, 1);
    });
    const closing = inFlight.close(LONG_MS).then((left) => order.push(`left ${left}`));
    setTimeout(() => {
      order.push("over");
      inFlight.end();
    }, 5);
    await closing;
    expect(order).toEqual(["cut", "over", "left 0"]);
  });

  test("stops waiting after the timeout and returns the number of remaining requests", async () => {
    const inFlight = openInFlightRequests();
    inFlight.begin();
    expect(await inFlight.close(1)).toBe(1);
  });

  test("cuts requests that begin during shutdown at once", async () => {
    const inFlight = openInFlightRequests();
    const first = inFlight.register(() => {
      // The request continues as work in the background.
      const second = inFlight.register(() => second());
      first();
    });
    expect(await inFlight.close(LONG_MS)).toBe(0);
  });
});
