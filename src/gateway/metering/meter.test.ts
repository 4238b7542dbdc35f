import { describe, expect, test } from "bun:test";
import { makeTariff } from "../../money/tariff.ts";
import type { EndpointName } from "../../protocols/shared/endpoint.ts";
import type { Price } from "../../records/price.ts";
import {
  counterReturning,
  lookUpEndpoint,
  makeRequest,
  makeUsage,
} from "../charging/charging.test-support.ts";
import { openTrace } from "../request/trace.ts";
import { INPUT_COUNTER } from "./input-counter.test-support.ts";
import { asReported, type MeasuredUsage, measure, type UsageEvidence } from "./meter.ts";
import type { MeteredModel } from "./usage-bounds.ts";

const NO_BOUNDS: MeteredModel = { contextTokens: null, outputTokensMax: null, tariff: null };
/** "hi there" in one message. */
const INPUT_TOKENS = 9;
const REPORTED = makeUsage({
  prompt_tokens: 100,
  completion_tokens: 10,
  prompt_tokens_details: { cached_tokens: 40 },
  completion_tokens_details: { reasoning_tokens: 4 },
});

function measured(
  change: Partial<UsageEvidence> = {},
  bounds = NO_BOUNDS,
  name: EndpointName = "chat.completions",
  fields: Record<string, unknown> = {},
): MeasuredUsage | Promise<MeasuredUsage> {
  const countOutput = counterReturning(7, 3);
  const endpoint = lookUpEndpoint(name);
  const request = makeRequest(name, fields);
  const evidence = {
    usage: REPORTED,
    images: 0,
    imageKind: null,
    isWhole: true,
    countOutput,
    ...change,
  };
  const metered = {
    endpoint,
    request,
    model: bounds,
    trace: openTrace(0),
    charge: null,
    windowSearches: null,
  };
  return measure(metered, evidence, () =>
    INPUT_COUNTER.countRequest({ request, output: endpoint.output, owner: "a" }),
  );
}

describe("measured usage", () => {
  test("is the usage that the upstream reports, without counting", () => {
    const countOutput = () => Promise.reject(new Error("counted"));
    expect(measured({ countOutput })).toEqual({
      tokens: {
        inputTokens: 100,
        cachedTokens: 40,
        cacheWriteTokens: 0,
        cacheWrite1hTokens: 0,
        outputTokens: 10,
        reasoningTokens: 4,
        imageInputTokens: 0,
        audioInputTokens: 0,
        audioOutputTokens: 0,
        images: 0,
        webSearches: 0,
      },
      source: "upstream",
      flags: [],
      isImplausible: false,
    });
  });

  test("is the usage that the upstream reports, also for a broken response", () => {
    expect(measured({ isWhole: false })).toMatchObject({ source: "upstream", flags: [] });
  });

  test("is counted if the upstream reports none", async () => {
    const { tokens, source, flags } = await measured({ usage: null });
    expect(tokens).toMatchObject({ inputTokens: INPUT_TOKENS, outputTokens: 7, reasoningTokens: 3 });
    expect([source, flags]).toEqual(["estimated", ["estimated"]]);
  });

  test.each([
    [{ prompt_tokens: 100 }, { inputTokens: 100, outputTokens: 7, reasoningTokens: 3 }],
    [{ completion_tokens: 10 }, { inputTokens: INPUT_TOKENS, outputTokens: 10 }],
  ])("is counted for the part that %j does not report", async (fields, tokens) => {
    const found = await measured({ usage: makeUsage(fields) });
    expect(found).toMatchObject({ tokens, source: "estimated", flags: ["estimated"] });
  });

  test("is the delivered output of a broken response", async () => {
    const found = await measured({ usage: null, isWhole: false });
    expect(found).toMatchObject({ tokens: { outputTokens: 7 }, source: "partial", flags: ["partial"] });
  });

  const EARLY = { ...REPORTED, isEarly: true };
  const none = makeUsage({ prompt_tokens: 0, completion_tokens: 0 });
  test.each([
    [{ ...EARLY, outputTokens: 3 }, false, { inputTokens: 100, outputTokens: 7 }, "partial"],
    [{ ...none, isEarly: true }, false, { inputTokens: INPUT_TOKENS, outputTokens: 7 }, "partial"],
    [{ ...none, isEarly: true }, true, { inputTokens: INPUT_TOKENS, outputTokens: 7 }, "estimated"],
    [EARLY, false, { inputTokens: 100, outputTokens: 10 }, "upstream"],
  ] as const)(
    "is the counted output if the upstream reported too little too early: %#",
    async (usage, isWhole, tokens, source) => {
      const flags = source === "upstream" ? [] : [source];
      expect(await measured({ usage, isWhole })).toMatchObject({ tokens, source, flags });
    },
  );

  test.each([
    [true, "estimated"],
    [false, "partial"],
  ] as const)("is counted if the upstream reports zeros: %#", async (isWhole, source) => {
    const found = await measured({ usage: none, isWhole });
    const tokens = { inputTokens: INPUT_TOKENS, outputTokens: 7, reasoningTokens: 3 };
    expect(found).toMatchObject({ tokens, source, flags: [source] });
  });

  test("is zero if the upstream reports zero and the output is empty", async () => {
    const found = await measured({ usage: none, countOutput: counterReturning(0) });
    expect(found).toMatchObject({ tokens: { inputTokens: 0, outputTokens: 0 }, source: "upstream" });
  });

  test("of an embedding is its counted input if the upstream reports zeros", async () => {
    const usage = makeUsage({ prompt_tokens: 0, total_tokens: 0 });
    const found = await measured({ usage, countOutput: null }, NO_BOUNDS, "embeddings");
    expect(found).toMatchObject({ tokens: { outputTokens: 0 }, source: "estimated" });
    expect(found.tokens.inputTokens).toBeGreaterThan(0);
  });

  test("is the input alone if no countable response arrived", async () => {
    const found = await measured({ usage: null, isWhole: false, countOutput: null });
    expect(found).toMatchObject({
      tokens: { inputTokens: INPUT_TOKENS, outputTokens: 0 },
      source: "partial",
    });
  });
});

describe("images without reported tokens", () => {
  const drawn = (price: Price, change: Partial<UsageEvidence> = {}) =>
    measured(
      { usage: null, images: 2, imageKind: "1024x1024/low", countOutput: null, ...change },
      { ...NO_BOUNDS, tariff: makeTariff(price) },
      "images.generations",
      { n: 2 },
    );

  test.each([
    ["1024x1024/low", 544],
    ["1024x1536/medium", 3_168],
    ["auto/low", 544],
    [null, 8_320],
  ])("are estimated by size and quality (%s)", async (imageKind, outputTokens) => {
    expect(await drawn({ input: "5", output: "40" }, { imageKind })).toMatchObject({
      tokens: { inputTokens: 2, outputTokens, images: 2 },
      source: "estimated",
      flags: ["estimated"],
    });
  });

  test("are estimated even if one was not finished", async () => {
    const found = await drawn({ output: "40" }, { images: 1, isWhole: false });
    expect(found).toMatchObject({ tokens: { outputTokens: 272, images: 1 }, flags: ["partial"] });
  });

  test.each([
    ["an image", { input: "5", output: "40", image: "0.04" }],
    ["its size", { output: "40", images: { "1024x1024": "0.04" } }],
    ["only the input", { input: "5" }],
  ])("count as images, with the input, where %s has a price", async (_, price) => {
    for (const isWhole of [true, false]) {
      const found = await drawn(price, { isWhole });
      expect(found.tokens).toMatchObject({ inputTokens: 2, outputTokens: 0, images: 2 });
    }
  });

  test.each([
    [10, "upstream"],
    [0, "estimated"],
  ])(
    "are estimated if the upstream reports zero output tokens and %i input tokens",
    async (usageReport, source) => {
      const usage = makeUsage({ input_tokens: usageReport, output_tokens: 0 });
      const inputTokens = usageReport || 2;
      const byTokens = await drawn({ input: "5", output: "40" }, { usage });
      expect(byTokens).toMatchObject({ tokens: { inputTokens, outputTokens: 544 }, flags: ["estimated"] });
      const byPiece = await drawn({ input: "5", output: "40", image: "0.04" }, { usage });
      expect(byPiece).toMatchObject({ tokens: { inputTokens, outputTokens: 0, images: 2 }, source });
    },
  );

  test("count at least one image's tokens each if only the first reported its usage", async () => {
    const usageReport = makeUsage({ input_tokens: 10, output_tokens: 300 });
    const found = await drawn({ output: "40", image: "0.04" }, { usage: { ...usageReport, isEarly: true } });
    expect(found.tokens).toMatchObject({ inputTokens: 10, outputTokens: 544, images: 2 });
  });
});

describe("a reported count", () => {
  const BOUNDS = { contextTokens: 1_000, outputTokensMax: 100, tariff: null };
  const clamped = { source: "upstream", flags: ["clamped"], isImplausible: true };

  test.each([
    ["more input than the context", { input_tokens: 1_001, output_tokens: 1 }],
    ["more output than the model's maximum", { input_tokens: 1, output_tokens: 101 }],
    ["a negative number", { input_tokens: 1, output_tokens: -1 }],
    ["a fraction", { input_tokens: 1.5, output_tokens: 1 }],
  ])("of %s is discarded", (_, fields) => {
    const tokens = { inputTokens: 0, outputTokens: 0 };
    expect(measured({ usage: makeUsage(fields) }, BOUNDS)).toMatchObject({ ...clamped, tokens });
  });

  test("may be as large as all choices together", () => {
    const usage = makeUsage({ input_tokens: 1, output_tokens: 300 });
    expect(measured({ usage }, BOUNDS, "chat.completions", { n: 3 })).toMatchObject({ isImplausible: false });
    expect(measured({ usage }, BOUNDS, "chat.completions", { n: 2 })).toMatchObject(clamped);
  });

  test.each(["responses", "embeddings"] as const)("of the input of %s may exceed the context", (name) => {
    const usage = makeUsage({ input_tokens: 5_000, output_tokens: 1 });
    expect(measured({ usage }, BOUNDS, name)).toMatchObject({ isImplausible: false });
  });
});

test("unpaid requests are recorded as reported, without counting", () => {
  expect(asReported(null, 0)).toMatchObject({ tokens: { inputTokens: 0 }, source: "none" });
  expect(asReported(REPORTED, 0)).toMatchObject({ tokens: { inputTokens: 100 }, source: "upstream" });
});
