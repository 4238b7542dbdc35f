import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { BYTES_PER_TOKEN, createInputEstimates, RATIO_MAX, RATIO_MIN } from "./input-estimate.ts";

const text = (textBytes: number) => ({ textBytes, media: 0 });

describe("the input estimate", () => {
  test("covers prose before it has learned anything", () => {
    // Five bytes per token.
    expect(createInputEstimates().estimate("m", text(5_000))).toBeGreaterThan(1_000);
  });

  test("converges to just above the observed token ratio of a model", () => {
    fc.assert(
      fc.property(fc.double({ min: RATIO_MIN, max: RATIO_MAX, noNaN: true }), (ratio) => {
        const estimates = createInputEstimates();
        const actual = (bytes: number) => Math.floor((bytes / BYTES_PER_TOKEN) * ratio);
        for (let i = 0; i < 200; i++) estimates.learn("m", text(9_000), actual(9_000));
        const estimate = estimates.estimate("m", text(30_000));
        expect(estimate).toBeGreaterThanOrEqual(actual(30_000) * 0.99);
        expect(estimate).toBeLessThanOrEqual(actual(30_000) * 1.02 + 20);
      }),
    );
  });

  test("is above nearly all requests of varying token ratios", () => {
    const estimates = createInputEstimates();
    let seed = 1;
    const random = (): number => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed / 2_147_483_647;
    };
    let short = 0;
    for (let i = 0; i < 2_000; i++) {
      const bytes = 2_000 + Math.floor(random() * 50_000);
      const tokens = Math.round((bytes / BYTES_PER_TOKEN) * (0.6 + 0.3 * random()));
      if (i >= 200 && estimates.estimate("m", text(bytes)) < tokens) short++;
      estimates.learn("m", text(bytes), tokens);
    }
    expect(short / 1_800).toBeLessThan(0.05);
  });

  test("is a whole number within bounds and grows with the text", () => {
    const lesson = fc.tuple(
      fc.integer({ min: -5, max: 1_000_000 }),
      fc.nat(3),
      fc.oneof(fc.integer(), fc.double()),
    );
    fc.assert(
      fc.property(
        fc.array(lesson),
        fc.nat(1_000_000),
        fc.nat(1_000_000),
        fc.nat(5),
        (lessons, a, b, media) => {
          const estimates = createInputEstimates();
          for (const [textBytes, pictures, tokens] of lessons) {
            estimates.learn("m", { textBytes, media: pictures }, tokens);
          }
          const [less, more] = a < b ? [a, b] : [b, a];
          const low = estimates.estimate("m", { textBytes: less, media });
          const high = estimates.estimate("m", { textBytes: more, media });
          expect(Number.isSafeInteger(low)).toBe(true);
          expect(low).toBeGreaterThanOrEqual((less / BYTES_PER_TOKEN) * RATIO_MIN);
          expect(high).toBeLessThanOrEqual((more / BYTES_PER_TOKEN) * RATIO_MAX + 1 + 1_000 * media + 16);
          expect(high).toBeGreaterThanOrEqual(low);
        },
      ),
    );
  });

  test("of one model does not affect another model", () => {
    const estimates = createInputEstimates();
    const before = estimates.estimate("other", text(9_000));
    for (let i = 0; i < 100; i++) estimates.learn("m", text(9_000), 6_000);
    expect(estimates.estimate("other", text(9_000))).toBe(before);
  });

  test("ignores counts that include a stored conversation", () => {
    const estimates = createInputEstimates();
    const before = estimates.estimate("m", text(300));
    for (let i = 0; i < 100; i++) estimates.learn("m", text(300), 90_000);
    expect(estimates.estimate("m", text(300))).toBe(before);
  });

  test("has a lower bound, even after much text with very few tokens", () => {
    const estimates = createInputEstimates();
    for (let i = 0; i < 500; i++) estimates.learn("m", text(20_000), 3);
    expect(estimates.estimate("m", text(30_000))).toBeGreaterThan(5_000);
  });

  test("is kept for a bounded number of models, the most recent", () => {
    const estimates = createInputEstimates();
    const first = estimates.estimate("0", text(9_000));
    for (let model = 0; model <= 2_000; model++) {
      for (let i = 0; i < 50; i++) estimates.learn(String(model), text(9_000), 1_500);
    }
    expect(estimates.estimate("0", text(9_000))).toBe(first);
    expect(estimates.estimate("2000", text(9_000))).toBeLessThan(first);
  });

  test("of a recently used model is evicted last", () => {
    const estimates = createInputEstimates();
    const first = estimates.estimate("0", text(9_000));
    const learn = (model: number) => estimates.learn(String(model), text(9_000), 1_500);
    for (let model = 0; model < 2_000; model++) learn(model);
    learn(0);
    learn(2_000);
    expect(estimates.estimate("0", text(9_000))).not.toBe(first);
    expect(estimates.estimate("1", text(9_000))).toBe(first);
  });
});
