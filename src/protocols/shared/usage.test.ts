import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { readTier } from "./service-tier.ts";
import { isImpossibleUsage, readUsage, type TokenUsage, withTier } from "./usage.ts";

const counted = (change: Partial<TokenUsage>): TokenUsage => ({
  inputTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  cacheWrite1hTokens: 0,
  webSearches: 0,
  tier: null,
  outputTokens: 0,
  reasoningTokens: 0,
  imageInputTokens: 0,
  audioInputTokens: 0,
  audioOutputTokens: 0,
  missing: null,
  isEarly: false,
  hasImpossibleCount: false,
  ...change,
});

describe("usage", () => {
  test("of a response", () => {
    const usage = {
      input_tokens: 100,
      input_tokens_details: { cached_tokens: 40, cache_write_tokens: 10 },
      output_tokens: 50,
      output_tokens_details: { reasoning_tokens: 20 },
      total_tokens: 150,
    };
    expect(readUsage(usage)).toEqual(
      counted({
        inputTokens: 100,
        cachedTokens: 40,
        cacheWriteTokens: 10,
        outputTokens: 50,
        reasoningTokens: 20,
      }),
    );
  });

  test("of a chat completion", () => {
    const usage = {
      prompt_tokens: 100,
      prompt_tokens_details: { cached_tokens: 40, audio_tokens: 0 },
      completion_tokens: 50,
      completion_tokens_details: { reasoning_tokens: 20 },
      total_tokens: 150,
    };
    expect(readUsage(usage)).toEqual(
      counted({ inputTokens: 100, cachedTokens: 40, outputTokens: 50, reasoningTokens: 20 }),
    );
  });

  test("of an image edit", () => {
    const usage = {
      input_tokens: 100,
      input_tokens_details: { text_tokens: 20, image_tokens: 80 },
      output_tokens: 272,
      output_tokens_details: { text_tokens: 0, image_tokens: 272 },
      total_tokens: 372,
    };
    expect(readUsage(usage)).toEqual(counted({ inputTokens: 100, imageInputTokens: 80, outputTokens: 272 }));
  });

  test("of a chat with audio and image input and audio output", () => {
    const usage = {
      prompt_tokens: 100,
      prompt_tokens_details: { audio_tokens: 30, image_tokens: 20 },
      completion_tokens: 50,
      completion_tokens_details: { audio_tokens: 40 },
    };
    expect(readUsage(usage)).toEqual(
      counted({
        inputTokens: 100,
        audioInputTokens: 30,
        imageInputTokens: 20,
        outputTokens: 50,
        audioOutputTokens: 40,
      }),
    );
  });

  test("a missing count is computed from the total, or marked as missing", () => {
    expect(readUsage({ prompt_tokens: 8, total_tokens: 20 })).toEqual(
      counted({ inputTokens: 8, outputTokens: 12 }),
    );
    expect(readUsage({ completion_tokens: 5, total_tokens: 20 })).toEqual(
      counted({ inputTokens: 15, outputTokens: 5 }),
    );
    expect(readUsage({ prompt_tokens: 8 })).toEqual(counted({ inputTokens: 8, missing: "output" }));
    expect(readUsage({ prompt_tokens: null, output_tokens: 8 })).toEqual(
      counted({ outputTokens: 8, missing: "input" }),
    );
  });

  test("of an embedding, without output", () => {
    expect(readUsage({ prompt_tokens: 8, total_tokens: 8 })).toEqual(counted({ inputTokens: 8 }));
  });

  test("of an upstream that reports cache hits outside the details", () => {
    const usage = { prompt_tokens: 9, completion_tokens: 1, prompt_cache_hit_tokens: 4 };
    expect(readUsage(usage)).toEqual(counted({ inputTokens: 9, cachedTokens: 4, outputTokens: 1 }));
  });

  test("of Moonshot, whose cache hits are beside the input", () => {
    const usage = { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10, cached_tokens: 4 };
    expect(readUsage(usage)).toEqual(counted({ inputTokens: 9, cachedTokens: 4, outputTokens: 1 }));
    expect(readUsage({ ...usage, cached_tokens: -1 })?.hasImpossibleCount).toBe(true);
  });

  test("an explicit 0 is a value", () => {
    expect(readUsage({ prompt_tokens: 0, completion_tokens: 0 })).toEqual(counted({}));
    expect(readUsage({ input_tokens: 0, prompt_tokens: 9, output_tokens: 0 })).toEqual(counted({}));
  });

  test("null details are ignored", () => {
    const usage = {
      input_tokens: 5,
      output_tokens: 1,
      input_tokens_details: null,
      output_tokens_details: null,
    };
    expect(readUsage(usage)).toEqual(counted({ inputTokens: 5, outputTokens: 1 }));
  });

  test("is null without any count", () => {
    for (const json of [
      undefined,
      null,
      7,
      "5",
      [],
      {},
      { cost: 1 },
      { input_tokens_details: {} },
      { total_tokens: 9 },
    ]) {
      expect(readUsage(json)).toBeNull();
    }
  });

  test.each([-1, -0.5, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 1e18, 2 ** 53, "12", true, {}])(
    "%s tokens count as zero, and the usage as absurd",
    (bad) => {
      const usage = {
        input_tokens: bad,
        input_tokens_details: { cached_tokens: bad, cache_write_tokens: bad },
        output_tokens: bad,
        output_tokens_details: { reasoning_tokens: bad },
      };
      expect(readUsage(usage)).toEqual(counted({ hasImpossibleCount: true }));
      const oneBad = { input_tokens: 7, output_tokens: 3, output_tokens_details: { reasoning_tokens: bad } };
      expect(readUsage(oneBad)).toEqual(
        counted({ inputTokens: 7, outputTokens: 3, hasImpossibleCount: true }),
      );
    },
  );

  test("a count above the limits of the model is absurd", () => {
    const window = { contextTokens: 1_000, outputTokensMax: 100 };
    expect(isImpossibleUsage(counted({ inputTokens: 1_000, outputTokens: 100 }), window)).toBe(false);
    expect(isImpossibleUsage(counted({ inputTokens: 1_001 }), window)).toBe(true);
    expect(isImpossibleUsage(counted({ outputTokens: 101 }), window)).toBe(true);
    expect(isImpossibleUsage(counted({ outputTokens: 300 }), window, { choices: 3 })).toBe(false);
    expect(isImpossibleUsage(counted({ inputTokens: 4_000 }), window, { rounds: 4 })).toBe(false);
    expect(isImpossibleUsage(counted({ inputTokens: 4_001 }), window, { rounds: 4 })).toBe(true);
    expect(isImpossibleUsage(counted({ hasImpossibleCount: true }), window)).toBe(true);
  });

  test("a count above the limits of any model is absurd even without a known context size", () => {
    const window = { contextTokens: null, outputTokensMax: null };
    expect(isImpossibleUsage(counted({ inputTokens: 2_000_000, outputTokens: 500_000 }), window)).toBe(false);
    expect(isImpossibleUsage(counted({ inputTokens: 1e12 }), window)).toBe(true);
    expect(isImpossibleUsage(counted({ outputTokens: 1e12 }), window)).toBe(true);
  });

  test("of a vendor that counts reasoning beside the output", () => {
    const usage = { prompt_tokens: 12, completion_tokens: 1, total_tokens: 303 };
    const reasoning = { completion_tokens_details: { reasoning_tokens: 290 } };
    const whole = counted({ inputTokens: 12, outputTokens: 291, reasoningTokens: 290 });
    expect(readUsage({ ...usage, ...reasoning })).toEqual(whole);
    expect(readUsage({ ...usage, ...reasoning, total_tokens: null })).toEqual(whole);
    expect(readUsage(usage)).toEqual({ ...whole, reasoningTokens: 0 });
  });

  test("a part is never more than the total", () => {
    const usage = {
      input_tokens: 10,
      input_tokens_details: { cached_tokens: 11, cache_write_tokens: 12 },
      output_tokens: 5,
      output_tokens_details: { reasoning_tokens: 6 },
      total_tokens: 15,
    };
    expect(readUsage(usage)).toEqual(
      counted({
        inputTokens: 10,
        cachedTokens: 10,
        cacheWriteTokens: 10,
        outputTokens: 5,
        reasoningTokens: 5,
      }),
    );
  });

  test("for any upstream data, every count is a non-negative integer", () => {
    const anything = fc.oneof(fc.double(), fc.integer(), fc.anything());
    const details = fc.oneof(
      anything,
      fc.record({ cached_tokens: anything, cache_write_tokens: anything, reasoning_tokens: anything }),
    );
    const usage = fc.record(
      {
        input_tokens: anything,
        prompt_tokens: anything,
        output_tokens: anything,
        completion_tokens: anything,
        total_tokens: anything,
        input_tokens_details: details,
        prompt_tokens_details: details,
        output_tokens_details: details,
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(usage, (json) => {
        const read = readUsage(json);
        if (read === null) return;
        for (const count of Object.values(read)) {
          if (typeof count !== "number") continue;
          expect(Number.isSafeInteger(count) && count >= 0).toBe(true);
        }
        expect(read.cachedTokens).toBeLessThanOrEqual(read.inputTokens);
        expect(read.cacheWriteTokens).toBeLessThanOrEqual(read.inputTokens);
        expect(read.reasoningTokens).toBeLessThanOrEqual(read.outputTokens);
      }),
    );
  });
});

describe("the service tier", () => {
  test.each([
    [["priority"], "priority"],
    [["PRIORITY"], "priority"],
    [["standard", "priority"], "priority"],
    [["default"], "standard"],
    [["scale"], "standard"],
    [["auto"], null],
    [[undefined, null, 7], null],
  ] as const)("of %j is %p", (values, tier) => {
    expect(readTier(...values)).toBe(tier);
  });

  test("beside the usage counts only if the usage has none", () => {
    const usage = { input_tokens: 1, output_tokens: 1 };
    expect(withTier(readUsage(usage), "flex")?.tier).toBe("flex");
    expect(withTier(readUsage({ ...usage, service_tier: "priority" }), "flex")?.tier).toBe("priority");
    expect(withTier(null, "flex")).toBeNull();
  });
});
