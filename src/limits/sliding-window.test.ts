import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  advance,
  openWindow,
  resetMs,
  restore,
  type SlidingWindow,
  subtract,
  take,
  waitMs,
} from "./sliding-window.ts";

const entriesIn = (window: SlidingWindow) => window.mask + 1;

describe("the memory of a window", () => {
  test("a window that was never used has no entries", () => {
    expect(entriesIn(openWindow(60_000, 0))).toBe(0);
  });

  test("uses at the same time share one entry", () => {
    const window = openWindow(60_000, 0);
    for (let i = 0; i < 1_000; i++) take(window, 1, 5);
    expect([window.used, window.length]).toEqual([1_000, 1]);
  });

  test("an exact window has at most four times its used entries, even after cancellations", () => {
    const window = openWindow(60_000, 0);
    take(window, 1, 0);
    for (let atMs = 1; atMs < 50_000; atMs += 3) {
      for (const i of [0, 1, 2]) take(window, 1, atMs + i);
      for (const i of [1, 0]) subtract(window, 1, atMs + i);
      subtract(window, 1, atMs + 2);
      if (atMs % 100 === 1) take(window, 1, atMs + 2);
      expect(entriesIn(window)).toBeLessThanOrEqual(4 * Math.max(window.used, 4));
    }
  });

  test("holes in the middle are compacted before the ring grows", () => {
    const window = openWindow(60_000, 0);
    const isKept = (atMs: number) => atMs % 1_000 === 0;
    for (let atMs = 0; atMs < 40_000; atMs++) {
      take(window, 1, atMs);
      if (!isKept(atMs - 1)) subtract(window, atMs === 0 ? 0 : 1, atMs - 1);
    }
    expect(window.used).toBe(41);
    expect(entriesIn(window)).toBeLessThanOrEqual(4 * 41);
  });

  test("a large ring is released once it is empty", () => {
    const window = openWindow(60_000, 0);
    for (let atMs = 0; atMs < 10_000; atMs++) take(window, 1, atMs);
    advance(window, 70_000);
    expect([entriesIn(window), window.used]).toEqual([0, 0]);
  });

  test("a long window in steady use has about as many entries as grains", () => {
    const perMs = 30 * 86_400_000;
    const window = openWindow(perMs, perMs / 480);
    for (let atMs = 0; atMs < 2.5 * perMs; atMs += perMs / 7_777) {
      advance(window, atMs);
      take(window, 1, atMs);
      expect(window.length).toBeLessThanOrEqual(482);
    }
    expect(window.used).toBeGreaterThanOrEqual(7_777);
    expect(window.used).toBeLessThanOrEqual(7_777 * (1 + 1 / 480) + 1);
  });

  test("a restored window has the granularity of the window", () => {
    const window = openWindow(86_400_000, 180_000);
    restore(
      window,
      Array.from({ length: 86_400 }, (_, second) => ({ atMs: second * 1_000, amount: 1 })),
    );
    expect(window.used).toBe(86_400);
    expect(window.length).toBeLessThanOrEqual(482);
    expect(entriesIn(window)).toBeLessThanOrEqual(512);
  });
});

describe("a coarse window compared with exact usage", () => {
  const PER_MS = 1_000;
  const GRAIN_MS = 50;
  const anyUse = fc.record({
    kind: fc.constantFrom("take" as const, "take" as const, "give back" as const, "restore" as const),
    afterMs: fc.oneof(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 0, max: 300 })),
    amount: fc.integer({ min: 1, max: 9 }),
    which: fc.nat(),
  });

  test.each([0, GRAIN_MS])(
    "with a grain of %d drops nothing early and keeps nothing longer than the grain",
    (grainMs) => {
      fc.assert(
        fc.property(fc.array(anyUse, { maxLength: 150, size: "max" }), (script) => {
          const window = openWindow(PER_MS, grainMs);
          let truth: { atMs: number; amount: number }[] = [];
          const within = (spanMs: number) =>
            truth.reduce((sum, { atMs, amount }) => (atMs + spanMs > nowMs ? sum + amount : sum), 0);
          let nowMs = 0;
          for (const { kind, afterMs, amount, which } of script) {
            nowMs += afterMs;
            advance(window, nowMs);
            const held = truth.filter((use) => use.atMs + PER_MS > nowMs);
            const chosen = held[which % Math.max(1, held.length)];
            if (kind === "take") {
              take(window, amount, nowMs);
              truth.push({ atMs: nowMs, amount });
            } else if (kind === "restore") {
              const atMs = nowMs - (which % PER_MS);
              restore(window, [{ atMs, amount }]);
              truth.push({ atMs, amount });
            } else if (chosen) {
              subtract(window, chosen.amount, chosen.atMs);
              truth = truth.filter((use) => use !== chosen);
            }
            expect(window.used).toBeGreaterThanOrEqual(within(PER_MS));
            expect(window.used).toBeLessThanOrEqual(within(PER_MS + grainMs));
          }
          advance(window, nowMs + resetMs(window, nowMs));
          expect([window.used, window.length, window.holes]).toEqual([0, 0, 0]);
        }),
      );
    },
  );

  test("accepts an amount after the reported wait, and not earlier", () => {
    const amounts = fc.array(
      fc.record({ afterMs: fc.integer({ min: 0, max: 300 }), amount: fc.integer({ min: 1, max: 9 }) }),
      { minLength: 1, maxLength: 40, size: "max" },
    );
    fc.assert(
      fc.property(
        amounts,
        fc.integer({ min: 1, max: 30 }),
        fc.integer({ min: 1, max: 20 }),
        fc.constantFrom(0, GRAIN_MS),
        (script, amount, max, grainMs) => {
          const window = openWindow(PER_MS, grainMs);
          let nowMs = 0;
          for (const use of script) {
            nowMs += use.afterMs;
            advance(window, nowMs);
            take(window, use.amount, nowMs);
          }
          const wait = waitMs(window, amount, max, nowMs);
          if (wait > 0) {
            advance(window, nowMs + wait - 1);
            expect(waitMs(window, amount, max, nowMs + wait - 1)).toBe(1);
          }
          advance(window, nowMs + wait);
          expect(waitMs(window, amount, max, nowMs + wait)).toBe(0);
        },
      ),
    );
  });
});
