import { expect, test } from "bun:test";
import fc from "fast-check";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import { corpusText, createRandom, KINDS } from "./corpus.test-support.ts";
import { safeCut } from "./safe-cut.ts";

test("a text split at a safe cut has the token count of its parts", () => {
  fc.assert(
    fc.property(
      fc.integer(),
      fc.constantFrom(...KINDS),
      fc.double({ min: 0.3, max: 0.95, noNaN: true }),
      (seed, kind, part) => {
        const text = corpusText(kind, 600, createRandom(seed));
        const cut = safeCut(text, 0, Math.floor(text.length * part));
        const parts = countTokens(text.slice(0, cut)) + countTokens(text.slice(cut));
        expect(parts).toBe(countTokens(text));
      },
    ),
    { numRuns: 300 },
  );
});

test("a cut is after the start, not after the end, and never inside a surrogate pair", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "grapheme", minLength: 3, maxLength: 60 }),
      fc.nat(),
      fc.nat(),
      (text, a, b) => {
        fc.pre(text.length > 2);
        const from = a % (text.length - 1);
        const to = from + 1 + (b % (text.length - from - 1 || 1));
        fc.pre(to < text.length);
        const cut = safeCut(text, from, to);
        expect(cut).toBeGreaterThan(from);
        expect(cut).toBeLessThanOrEqual(to);
        if (cut - from > 1)
          expect(text.slice(from, cut).isWellFormed() || !text.slice(from).isWellFormed()).toBe(true);
      },
    ),
  );
});
