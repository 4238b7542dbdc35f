import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { CALL_UNITS, LONG_CONTEXT_UNITS, type Price, SERVICE_TIERS, TOKEN_UNITS } from "../records/price.ts";
import { decimalText } from "./nano.ts";
import {
  affordableOutput,
  buildTariff,
  computeListCost,
  computeTariffCost,
  computeTariffCosts,
  costAtMost,
  costLines,
  dearerTier,
  type ForeseenInput,
  makeTariff,
  NOTHING_USED,
  type PricedUsage,
  type Tariff,
} from "./tariff.ts";

const decimal = (max: bigint) => fc.bigInt(0n, max).map((value) => decimalText(value, 6));
const usd = decimal(200_000_000n);
const someUnits = <Unit extends string>(units: readonly Unit[]) =>
  fc.record(Object.fromEntries(units.map((unit) => [unit, usd])) as Record<Unit, typeof usd>, {
    requiredKeys: [],
  });
const KINDS = ["1024x1024", "1024x1024/hd", "512x512/low"];
const price: fc.Arbitrary<Price> = fc
  .tuple(
    someUnits(TOKEN_UNITS),
    fc.record(
      {
        image: usd,
        request: usd,
        images: fc.dictionary(fc.constantFrom(...KINDS), usd),
        per_call: someUnits(CALL_UNITS),
        tier: someUnits(SERVICE_TIERS),
      },
      { requiredKeys: [] },
    ),
    fc.option(
      fc
        .tuple(fc.nat(300), usd, someUnits(LONG_CONTEXT_UNITS))
        .map(([above, input, rest]) => ({ ...rest, input, above })),
    ),
  )
  .map(([tokens, others, long]) => ({ ...tokens, ...others, ...(long ? { long_context: long } : {}) }));
const tariff: fc.Arbitrary<Tariff> = fc
  .tuple(price, decimal(5_000_000n), decimal(5_000_000n))
  .map(([terms, group, model]) => makeTariff(terms, { group, model }));
const count = fc.oneof(fc.nat(500), fc.nat(2_000_000), fc.constantFrom(-1, Number.NaN, 0.5, Infinity));
const used: fc.Arbitrary<PricedUsage> = fc.record<PricedUsage>({
  inputTokens: count,
  cachedTokens: count,
  cacheWriteTokens: count,
  cacheWrite1hTokens: count,
  outputTokens: count,
  reasoningTokens: count,
  imageInputTokens: count,
  audioInputTokens: count,
  audioOutputTokens: count,
  images: fc.nat(10),
  webSearches: fc.nat(10),
  imageKind: fc.option(fc.constantFrom(...KINDS, "1024x1024/low", "9x9")),
  tier: fc.option(fc.constantFrom(...SERVICE_TIERS, "standard" as const)),
});
/** Details that fit into their totals, without the parts that replace each other. */
const plain = used.map((some): PricedUsage => ({ ...some, images: 0 }));
const nano = fc.bigInt(0n, 10n ** 13n);

const scaled = (text: string) => {
  const [whole = "", rest = ""] = text.split(".");
  return BigInt(whole) * 1_000_000n + BigInt(rest.padEnd(6, "0"));
};
const metered = (change: Partial<PricedUsage>): PricedUsage => ({ ...NOTHING_USED, ...change });
const cost = (terms: Price, change: Partial<PricedUsage>) =>
  computeTariffCost(makeTariff(terms), metered(change));

describe("a price", () => {
  test("is per million tokens", () => {
    expect(cost({ input: "0.15", output: "0.60" }, { inputTokens: 1_000_000, outputTokens: 500_000 })).toBe(
      450_000_000n,
    );
  });

  test("is exact for sums beyond the safe integer range, and at its edge", () => {
    const amount = fc.oneof(fc.nat(2_000_000), fc.maxSafeInteger());
    fc.assert(
      fc.property(tariff, amount, amount, (some, inputTokens, outputTokens) => {
        const all = metered({ inputTokens, outputTokens });
        const lines = costLines(some, all);
        const pico = lines.reduce((sum, { count, picoEach }) => sum + BigInt(count) * picoEach, 0n);
        expect(computeListCost(some, all)).toBe((pico + 999n) / 1_000n);
        expect(computeTariffCosts(some, all, all)).toEqual({
          costNano: computeTariffCost(some, all),
          listNano: computeListCost(some, all),
        });
        expect(computeTariffCost(some, all)).toBe(lines.reduce((sum, { nano }) => sum + nano, 0n));
      }),
    );
  });

  test("counts every token once, whatever its details", () => {
    const terms = {
      input: "1",
      cached_input: "0.1",
      cache_write: "1.25",
      image_input: "2",
      audio_input: "3",
      output: "4",
      reasoning: "5",
      audio_output: "6",
    };
    const all = metered({
      inputTokens: 100,
      cachedTokens: 10,
      cacheWriteTokens: 20,
      imageInputTokens: 30,
      audioInputTokens: 15,
      outputTokens: 50,
      reasoningTokens: 20,
      audioOutputTokens: 5,
    });
    const lines = costLines(makeTariff(terms), all).map(({ unit, count }) => [unit, count]);
    expect(Object.fromEntries(lines)).toEqual({
      input: 25,
      cached_input: 10,
      cache_write: 20,
      image_input: 30,
      audio_input: 15,
      output: 25,
      reasoning: 20,
      audio_output: 5,
    });
    expect(computeTariffCost(makeTariff(terms), all)).toBe(
      1000n * 25n +
        100n * 10n +
        1250n * 20n +
        2000n * 30n +
        3000n * 15n +
        4000n * 25n +
        5000n * 20n +
        6000n * 5n,
    );
  });

  test("of a detail falls back to the price of its total", () => {
    const details = { cachedTokens: 1, cacheWriteTokens: 1, imageInputTokens: 1, audioInputTokens: 1 };
    expect(cost({ input: "2" }, { inputTokens: 5, ...details })).toBe(
      cost({ input: "2" }, { inputTokens: 5 }),
    );
    expect(cost({ output: "2" }, { outputTokens: 3, reasoningTokens: 1, audioOutputTokens: 1 })).toBe(6_000n);
  });

  test("applies to at most the total if a detail exceeds it", () => {
    const terms = { input: "2", cached_input: "1", output: "4", reasoning: "8" };
    expect(cost(terms, { inputTokens: 10, cachedTokens: 99, imageInputTokens: 99 })).toBe(10_000n);
    expect(cost(terms, { outputTokens: 10, reasoningTokens: 99 })).toBe(80_000n);
  });

  test("for an image depends on size and quality, then on size, then on the default", () => {
    const terms = { image: "0.05", images: { "1024x1024": "0.04", "1024x1024/hd": "0.08" } };
    const of = (imageKind: string | null) => cost(terms, { images: 2, imageKind });
    expect([of("1024x1024/hd"), of("1024x1024/standard"), of("1024x1024"), of("2x2/hd"), of(null)]).toEqual([
      160_000_000n,
      80_000_000n,
      80_000_000n,
      100_000_000n,
      100_000_000n,
    ]);
  });

  test("for tokens takes precedence over the image price if output tokens were reported", () => {
    const terms = { input: "5", output: "40", image: "0.25" };
    expect(cost(terms, { inputTokens: 10, outputTokens: 1_000, images: 1 })).toBe(40_050_000n);
    expect(cost(terms, { inputTokens: 10, images: 1 })).toBe(250_050_000n);
    expect(cost({ image: "0.25" }, { inputTokens: 10, outputTokens: 1_000, images: 1 })).toBe(250_000_000n);
  });

  test("for a request is charged once", () => {
    expect(cost({ request: "0.01" }, {})).toBe(10_000_000n);
    expect(cost({ request: "0.01" }, { inputTokens: 9, images: 3 })).toBe(10_000_000n);
  });

  test("for a long context applies to the whole request, above its threshold only", () => {
    const terms = {
      input: "1",
      cached_input: "0.1",
      output: "10",
      reasoning: "11",
      long_context: { above: 100, input: "2", output: "15" },
    };
    expect(cost(terms, { inputTokens: 100, cachedTokens: 50, outputTokens: 10 })).toBe(155_000n);
    // Without prices for cached input or reasoning, the long-context input and output prices apply.
    const long = { inputTokens: 101, cachedTokens: 50, outputTokens: 10, reasoningTokens: 5 };
    expect(cost(terms, long)).toBe(202_000n + 150_000n);
    expect(costLines(makeTariff(terms), metered(long)).every(({ longContext }) => longContext)).toBe(true);
  });

  test("keeps its output price if the long context has none", () => {
    const terms = { input: "1", output: "10", reasoning: "11", long_context: { above: 100, input: "2" } };
    expect(cost(terms, { inputTokens: 101, outputTokens: 10, reasoningTokens: 5 })).toBe(307_000n);
  });
});

describe("a multiplier", () => {
  test("of the group and of the model are multiplied exactly, and do not affect the upstream cost", () => {
    const made = makeTariff({ input: "1" }, { group: "1.000001", model: "1.000001" });
    expect(made.multiplierTrillionths).toBe(1_000_002_000_001n);
    const million = metered({ inputTokens: 1_000_000_000_000 });
    expect(computeTariffCost(made, million)).toBe(1_000_002_000_001_000n);
    expect(computeListCost(made, million)).toBe(1_000_000_000_000_000n);
  });

  test("of zero makes everything free", () => {
    const free = makeTariff({ input: "1", output: "1" }, { group: "0" });
    expect(computeTariffCost(free, metered({ inputTokens: 5, outputTokens: 5 }))).toBe(0n);
    expect(affordableOutput(free, NOTHING_USED, 0n)).toBe(Number.MAX_SAFE_INTEGER);
  });
});

describe("number and bigint arithmetic agree", () => {
  const EXACT_PER_NANO = 10n ** 15n;
  /** The exact calculation. */
  const charged = (pico: bigint, { multiplierTrillionths }: Tariff) =>
    (pico * multiplierTrillionths + EXACT_PER_NANO - 1n) / EXACT_PER_NANO;
  const affordable = (pico: bigint, first: bigint, nano: bigint, { multiplierTrillionths }: Tariff) => {
    const left = nano * EXACT_PER_NANO - first * multiplierTrillionths;
    return left < 0n ? 0n : left / (pico * multiplierTrillionths) + 1n;
  };
  const multiplier = fc.oneof(
    decimal(5_000_000n),
    fc.constantFrom("1", "0.5", "1.2", "3", "0.000001", "999999999.999999"),
  );
  /** Both sides of the point where a sum, or a sum times a multiplier, is no longer safe. */
  const edge = fc
    .tuple(fc.constantFrom(1n, 2n, 3n, 5n, 7n, 1_000n, 1_250_001n, 10n ** 12n), fc.bigInt(-3_000n, 3_000n))
    .map(([part, off]) => BigInt(Number.MAX_SAFE_INTEGER) / part + off);
  const amount = fc
    .oneof(edge, fc.bigInt(0n, 10n ** 7n), fc.bigInt(0n, BigInt(Number.MAX_SAFE_INTEGER)))
    .map((value) => (value < 0n ? 0n : value));
  const safe = amount.map((value) => Math.min(Number(value), Number.MAX_SAFE_INTEGER));

  test("on the cost of a number of tokens", () => {
    fc.assert(
      fc.property(decimal(10n ** 15n - 1n), multiplier, safe, (input, group, inputTokens) => {
        const some = makeTariff({ input }, { group });
        const pico = scaled(input) * BigInt(inputTokens);
        const what = metered({ inputTokens });
        expect(computeTariffCost(some, what)).toBe(charged(pico, some));
        expect(computeListCost(some, what)).toBe((pico + 999n) / 1_000n);
      }),
      { numRuns: 2_000 },
    );
  });

  test("at one pico-dollar per token, where a thousandth decides", () => {
    fc.assert(
      fc.property(multiplier, safe, (group, inputTokens) => {
        const some = makeTariff({ input: "0.000001" }, { group });
        expect(computeTariffCost(some, metered({ inputTokens }))).toBe(charged(BigInt(inputTokens), some));
      }),
      { numRuns: 2_000 },
    );
  });

  test("on the tokens that an amount pays for", () => {
    const usd = fc.bigInt(1n, 10n ** 9n).map((value) => decimalText(value, 6));
    fc.assert(
      fc.property(
        usd,
        usd,
        multiplier,
        fc.nat(1_000_000),
        amount,
        (input, output, group, inputTokens, nano) => {
          const some = makeTariff({ input, output }, { group });
          const each = scaled(output);
          const most = Number.MAX_SAFE_INTEGER;
          const found = affordableOutput(some, metered({ inputTokens }), nano);
          if (some.multiplierTrillionths === 0n) return expect(found).toBe(most);
          const exact = affordable(each, scaled(input) * BigInt(inputTokens) + each, nano, some);
          expect(BigInt(found)).toBe(exact < BigInt(most) ? exact : BigInt(most));
        },
      ),
      { numRuns: 2_000 },
    );
  });
});

test("a price per million tokens beyond the safe integer range is rejected", () => {
  expect(() => makeTariff({ input: "9007199254.740992" })).toThrow("exceeds the maximum");
});

/** The same calculation again, exactly, in pico-USD. */
function exactCost(terms: Price, what: PricedUsage): bigint {
  const whole = (value: number) => BigInt(Number.isSafeInteger(value) && value > 0 ? value : 0);
  const least = (a: bigint, b: bigint) => (a < b ? a : b);
  const long = terms.long_context;
  const isLong = long !== undefined && whole(what.inputTokens) > BigInt(long.above);
  const input = isLong ? long.input : (terms.input ?? "0");
  const output = (isLong ? long.output : undefined) ?? terms.output ?? "0";
  const reasoning = isLong
    ? (long.reasoning ?? long.output ?? terms.reasoning ?? output)
    : (terms.reasoning ?? output);
  const cached = (isLong ? long.cached_input : terms.cached_input) ?? input;
  const written = (isLong ? long.cache_write : terms.cache_write) ?? input;
  const writtenForHour = (isLong ? long.cache_write_1h : terms.cache_write_1h) ?? written;
  const tier = what.tier == null || what.tier === "standard" ? undefined : terms.tier?.[what.tier];
  // The rate of a tier is rounded up to a whole pico-USD per token.
  const rate = (usd: string) =>
    tier === undefined ? scaled(usd) : (scaled(usd) * scaled(tier) + 999_999n) / 1_000_000n;

  let left = whole(what.inputTokens);
  let tokens = 0n;
  const take = (reportedCount: number, usd: string) => {
    const some = least(left, whole(reportedCount));
    left -= some;
    tokens += some * rate(usd);
  };
  take(what.cachedTokens, cached);
  const all = least(left, whole(what.cacheWriteTokens));
  const hour = least(all, whole(what.cacheWrite1hTokens));
  take(Number(hour), writtenForHour);
  take(Number(all - hour), written);
  take(what.imageInputTokens, terms.image_input ?? input);
  take(what.audioInputTokens, terms.audio_input ?? input);
  take(what.inputTokens, input);
  left = whole(what.outputTokens);
  take(what.reasoningTokens, reasoning);
  take(what.audioOutputTokens, terms.audio_output ?? output);
  take(what.outputTokens, output);

  const kind = what.imageKind ?? "";
  const dearest = Object.values(terms.images ?? {}).reduce((a, b) => (scaled(b) > scaled(a) ? b : a), "0");
  const image = terms.images?.[kind] ?? terms.images?.[kind.split("/")[0] ?? ""] ?? terms.image ?? dearest;
  const byTokens = terms.output !== undefined && whole(what.outputTokens) > 0n;
  const images = byTokens ? 0n : whole(what.images) * scaled(image);
  const searches = whole(what.webSearches) * scaled(terms.per_call?.web_search ?? "0");
  return tokens + (images + searches + scaled(terms.request ?? "0")) * 1_000_000n;
}

describe("for any tariff and any use", () => {
  test("the cost is exact, rounded up by less than one nano-USD, and never negative", () => {
    fc.assert(
      fc.property(price, decimal(5_000_000n), decimal(5_000_000n), used, (terms, group, model, what) => {
        const over =
          computeTariffCost(makeTariff(terms, { group, model }), what) * 10n ** 15n -
          exactCost(terms, what) * scaled(group) * scaled(model);
        expect(over >= 0n && over < 10n ** 15n).toBe(true);
      }),
    );
  });

  test("the cost lines contain every token once and add up to the cost", () => {
    fc.assert(
      fc.property(tariff, used, (some, what) => {
        const lines = costLines(some, what);
        expect(lines.map(({ nano }) => nano).reduce((a, b) => a + b, 0n)).toBe(computeTariffCost(some, what));
        expect(lines.every(({ nano }) => nano >= 0n)).toBe(true);
        const tokens = (units: readonly string[]) =>
          lines.filter(({ unit }) => units.includes(unit)).reduce((sum, { count }) => sum + count, 0);
        const whole = (value: number) => (Number.isSafeInteger(value) && value > 0 ? value : 0);
        expect(
          tokens(["input", "cached_input", "cache_write", "cache_write_1h", "image_input", "audio_input"]),
        ).toBe(whole(what.inputTokens));
        expect(tokens(["output", "reasoning", "audio_output"])).toBe(whole(what.outputTokens));
      }),
    );
  });

  test("more output never costs less", () => {
    fc.assert(
      fc.property(tariff, plain, fc.nat(1_000), (some, what, more) => {
        const from = Number.isSafeInteger(what.outputTokens) ? Math.max(0, what.outputTokens) : 0;
        const after = computeTariffCost(some, { ...what, outputTokens: from + more });
        expect(after >= computeTariffCost(some, { ...what, outputTokens: from })).toBe(true);
      }),
    );
  });

  test("more input never costs less, unless a long context is cheaper", () => {
    fc.assert(
      fc.property(price, plain, fc.nat(1_000), ({ long_context: _, ...terms }, what, more) => {
        const from = Number.isSafeInteger(what.inputTokens) ? Math.max(0, what.inputTokens) : 0;
        const some = makeTariff(terms);
        const after = computeTariffCost(some, { ...what, inputTokens: from + more });
        expect(after >= computeTariffCost(some, { ...what, inputTokens: from })).toBe(true);
      }),
    );
  });

  test("the affordable output fits, and one token more does not", () => {
    fc.assert(
      fc.property(tariff, used, nano, (some, what, amount) => {
        const asked = { ...what, outputTokens: 0, reasoningTokens: 0, audioOutputTokens: 0 };
        const most = affordableOutput(some, asked, amount);
        const at = (outputTokens: number) => costAtMost(some, { ...asked, outputTokens });
        if (most > 0) expect(at(most) <= amount).toBe(true);
        if (most < Number.MAX_SAFE_INTEGER) expect(at(most + 1) > amount).toBe(true);
      }),
    );
  });

  test("the maximum cost is reached by some kind of tokens, and never exceeded", () => {
    const INPUTS = {
      plain: ["inputTokens"],
      text: ["inputTokens", "cachedTokens", "cacheWriteTokens", "cacheWrite1hTokens"],
      media: [
        "inputTokens",
        "cachedTokens",
        "cacheWriteTokens",
        "cacheWrite1hTokens",
        "imageInputTokens",
        "audioInputTokens",
      ],
    } as const;
    const OUTPUTS = ["outputTokens", "reasoningTokens", "audioOutputTokens"] as const;
    const foreseen = fc.constantFrom<ForeseenInput>("plain", "text", "media");
    fc.assert(
      fc.property(tariff, count, count, foreseen, (some, inputTokens, outputTokens, kind) => {
        const what = metered({ inputTokens, outputTokens });
        const short = Math.min(inputTokens, some.prices.longContext?.above ?? inputTokens);
        const costs = [inputTokens, kind === "plain" ? inputTokens : short].flatMap((read) =>
          INPUTS[kind].flatMap((input) =>
            OUTPUTS.map((output) =>
              computeTariffCost(some, {
                ...what,
                inputTokens: read,
                // A write for an hour is a write.
                ...(input === "cacheWrite1hTokens" ? { cacheWriteTokens: read } : {}),
                [input]: read,
                [output]: outputTokens,
              }),
            ),
          ),
        );
        const most = costs.reduce((a, b) => (a > b ? a : b));
        expect(costAtMost(some, what, kind)).toBe(most);
      }),
    );
  });

  test("the maximum cost of images is reached by some priced kind, and exceeded by none", () => {
    fc.assert(
      fc.property(price, fc.constantFrom(null, "1024x1024", "1024x1024/hd"), (terms, asked) => {
        const some = makeTariff(terms);
        const kinds = [asked, ...KINDS.filter((kind) => asked === null || kind.startsWith(asked))];
        const costs = kinds.map((imageKind) => computeTariffCost(some, metered({ images: 2, imageKind })));
        const what = metered({ images: 2, imageKind: asked });
        const most = costs.reduce((a, b) => (a > b ? a : b));
        const atMost = costAtMost(some, what, "text");
        expect(atMost >= most).toBe(true);
        // A unit without its own price has that of another unit, and so may have the highest price.
        if (asked === null || terms.images?.[asked] !== undefined) expect(atMost).toBe(most);
      }),
    );
  });

  test("rebuilding a tariff from its terms returns the same tariff", () => {
    fc.assert(fc.property(tariff, (some) => expect(buildTariff(some.terms)).toEqual(some)));
  });
});

test("equal prices in another notation are the same tariff", () => {
  const one = makeTariff({ output: "0.60", input: "0.150", images: { b: "1.0", a: "2" } }, { group: "1.50" });
  const other = makeTariff({ input: "0.15", output: "0.6", images: { a: "2.00", b: "1" } }, { group: "1.5" });
  expect(other).toEqual(one);
  expect(makeTariff({ input: "0.15" }).id).not.toBe(makeTariff({ input: "0.151" }).id);
});

test("a requested tier counts for a hold only if it is dearer than the standard one", () => {
  const tariff = makeTariff({ input: "1", output: "2", tier: { priority: "1.5", flex: "0.5", fast: "1" } });
  expect(dearerTier(tariff, "priority")).toBe("priority");
  expect(dearerTier(tariff, "flex")).toBeNull();
  expect(dearerTier(tariff, "fast")).toBeNull();
  expect(dearerTier(tariff, null)).toBeNull();
  expect(dearerTier(makeTariff({ input: "1", output: "2" }), "priority")).toBeNull();
});
