import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import { corpusText, createRandom, KINDS } from "./corpus.test-support.ts";
import { loadTokenizer, tokenizerIfLoaded } from "./tokenizer.ts";

const truth = (text: string) => countTokens(text, { disallowedSpecial: new Set() });

describe("the tokenizer", () => {
  test("is loaded once, on first use", async () => {
    const [first, second] = await Promise.all([loadTokenizer(), loadTokenizer()]);
    expect(second).toBe(first);
    expect(tokenizerIfLoaded()).toBe(first);
  });

  test("does not block the event loop while it loads", async () => {
    const { default: path } = await import("node:path");
    const script = `
      const { loadTokenizer } = await import(${JSON.stringify(path.join(import.meta.dir, "tokenizer.ts"))});
      let turns = 0;
      const timer = setInterval(() => turns++, 0);
      await loadTokenizer();
      clearInterval(timer);
      console.log(turns);`;
    const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe" });
    expect(Number(await new Response(child.stdout).text())).toBeGreaterThan(5);
  });

  test("returns the reference count for texts of every kind", async () => {
    const tokenizer = await loadTokenizer();
    for (const kind of KINDS) {
      const text = corpusText(kind, 20_000, createRandom(11));
      expect(tokenizer.count(text)).toBe(truth(text));
    }
  });

  test("returns the reference count for arbitrary characters", async () => {
    const tokenizer = await loadTokenizer();
    const pieces = fc.oneof(
      fc.string({ unit: "grapheme" }),
      fc.string({ unit: "binary" }),
      fc.constantFrom(" ", "\n", "\r\n", "\t", "  ", "'s", "'LL", "/", "<|endoftext|>", "\u3000", "é", "ﬁ"),
    );
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 20 }), (parts) => {
        const text = parts.join("").toWellFormed();
        expect(tokenizer.count(text)).toBe(truth(text));
      }),
      { numRuns: 500 },
    );
  });
});
