import { describe, expect, test } from "bun:test";
import { makeTariff } from "../../money/tariff.ts";
import type { EndpointName } from "../../protocols/shared/request.ts";
import type { Price } from "../../records.ts";
import { counts, requestOf, usageOf } from "../charging/paying.test-support.ts";
import { asReported, type MeasuredUsage, type MeteredModel, measure, type UsageEvidence } from "./meter.ts";

const NO_BOUNDS: MeteredModel = { contextTokens: null, outputTokensMax: null, tariff: null };
/** "hi there" in one message. */
const INPUT_TOKENS = 9;
const TOLD = usageOf({
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
  const countOutput = counts(7, 3);
  const evidence = { usage: TOLD, images: 0, imageKind: null, isWhole: true, countOutput, ...change };
  return measure(evidence, name, requestOf(name, fields), bounds);
}

describe("what was used", () => {
  test("is what the upstream says, and then nothing is counted or waited for", () => {
    const countOutput = () => Promise.reject(new Error("counted"));
    expect(measured({ countOutput })).toEqual({
      tokens: {
        inputTokens: 100,
        cachedTokens: 40,
        cacheWriteTokens: 0,
        outputTokens: 10,
        reasoningTokens: 4,
        imageInputTokens: 0,
        audioInputTokens: 0,
        audioOutputTokens: 0,
        images: 0,
      },
      source: "upstream",
      flags: [],
      isAbsurd: false,
    });
  });

  test("is what the upstream says of an answer that broke off, too", () => {
    expect(measured({ isWhole: false })).toMatchObject({ source: "upstream", flags: [] });
  });

  test("is counted where the upstream says nothing", async () => {
    const { tokens, source, flags } = await measured({ usage: null });
    expect(tokens).toMatchObject({ inputTokens: INPUT_TOKENS, outputTokens: 7, reasoningTokens: 3 });
    expect([source, flags]).toEqual(["estimated", ["estimated"]]);
  });

  test.each([
    [{ prompt_tokens: 100 }, { inputTokens: 100, outputTokens: 7, reasoningTokens: 3 }],
    [{ completion_tokens: 10 }, { inputTokens: INPUT_TOKENS, outputTokens: 10 }],
  ])("is counted for the half that %j does not say", async (fields, tokens) => {
    const found = await measured({ usage: usageOf(fields) });
    expect(found).toMatchObject({ tokens, source: "estimated", flags: ["estimated"] });
  });

  test("is what came of an answer that broke off", async () => {
    const found = await measured({ usage: null, isWhole: false });
    expect(found).toMatchObject({ tokens: { outputTokens: 7 }, source: "partial", flags: ["partial"] });
  });

  const EARLY = { ...TOLD, isEarly: true };
  const none = usageOf({ prompt_tokens: 0, completion_tokens: 0 });
  test.each([
    [{ ...EARLY, outputTokens: 3 }, false, { inputTokens: 100, outputTokens: 7 }, "partial"],
    [{ ...none, isEarly: true }, false, { inputTokens: INPUT_TOKENS, outputTokens: 7 }, "partial"],
    [{ ...none, isEarly: true }, true, { inputTokens: INPUT_TOKENS, outputTokens: 7 }, "estimated"],
    [EARLY, false, { inputTokens: 100, outputTokens: 10 }, "upstream"],
  ] as const)(
    "is what was said, if the upstream told less too early: %#",
    async (usage, isWhole, tokens, source) => {
      const flags = source === "upstream" ? [] : [source];
      expect(await measured({ usage, isWhole })).toMatchObject({ tokens, source, flags });
    },
  );

  test.each([
    [true, "estimated"],
    [false, "partial"],
  ] as const)("is counted where the upstream fills in zeros: %#", async (isWhole, source) => {
    const found = await measured({ usage: none, isWhole });
    const tokens = { inputTokens: INPUT_TOKENS, outputTokens: 7, reasoningTokens: 3 };
    expect(found).toMatchObject({ tokens, source, flags: [source] });
  });

  test("is nothing where the upstream says so, and said nothing", async () => {
    const found = await measured({ usage: none, countOutput: counts(0) });
    expect(found).toMatchObject({ tokens: { inputTokens: 0, outputTokens: 0 }, source: "upstream" });
  });

  test("of an embedding is its input, where the upstream fills in zeros", async () => {
    const usage = usageOf({ prompt_tokens: 0, total_tokens: 0 });
    const found = await measured({ usage, countOutput: null }, NO_BOUNDS, "embeddings");
    expect(found).toMatchObject({ tokens: { outputTokens: 0 }, source: "estimated" });
    expect(found.tokens.inputTokens).toBeGreaterThan(0);
  });

  test("is the input alone where no answer came that could be counted", async () => {
    const found = await measured({ usage: null, isWhole: false, countOutput: null });
    expect(found).toMatchObject({
      tokens: { inputTokens: INPUT_TOKENS, outputTokens: 0 },
      source: "partial",
    });
  });

  test("of a form is counted from what of it is text", async () => {
    const inputText = { kind: "texts", texts: ["a cat"], formDigest: null } as const;
    const request = { ...requestOf("images.edits"), inputText };
    const evidence = { usage: null, images: 0, imageKind: null, isWhole: true, countOutput: null };
    const found = await measure(evidence, "images.edits", request, NO_BOUNDS);
    expect(found.tokens.inputTokens).toBe(2);
  });
});

describe("of pictures whose tokens are not told", () => {
  const drawn = (price: Price, change: Partial<UsageEvidence> = {}) =>
    measured(
      { usage: null, images: 2, imageKind: "1024x1024/low", countOutput: null, ...change },
      { ...NO_BOUNDS, tariff: makeTariff(price) },
      "images.generations",
    );

  test.each([
    ["1024x1024/low", 544],
    ["1024x1536/medium", 3_168],
    ["auto/low", 544],
    [null, 8_320],
  ])("it is about what it takes to draw them (%s)", async (imageKind, outputTokens) => {
    expect(await drawn({ input: "5", output: "40" }, { imageKind })).toMatchObject({
      tokens: { inputTokens: 2, outputTokens, images: 2 },
      source: "estimated",
      flags: ["estimated"],
    });
  });

  test("it is the same of one that was never finished", async () => {
    const found = await drawn({ output: "40" }, { images: 1, isWhole: false });
    expect(found).toMatchObject({ tokens: { outputTokens: 272, images: 1 }, flags: ["partial"] });
  });

  test.each([
    ["a picture", { input: "5", output: "40", image: "0.04" }],
    ["its size", { output: "40", images: { "1024x1024": "0.04" } }],
    ["nothing but the input", { input: "5" }],
  ])("it is the pictures themselves, and the input, where %s has a price", async (_, price) => {
    for (const isWhole of [true, false]) {
      const found = await drawn(price, { isWhole });
      expect(found.tokens).toMatchObject({ inputTokens: 2, outputTokens: 0, images: 2 });
    }
  });

  test.each([
    [10, "upstream"],
    [0, "estimated"],
  ])("it is the same where the upstream says that they took none, and %i to read", async (told, source) => {
    const usage = usageOf({ input_tokens: told, output_tokens: 0 });
    const inputTokens = told || 2;
    const byTokens = await drawn({ input: "5", output: "40" }, { usage });
    expect(byTokens).toMatchObject({ tokens: { inputTokens, outputTokens: 544 }, flags: ["estimated"] });
    const byPiece = await drawn({ input: "5", output: "40", image: "0.04" }, { usage });
    expect(byPiece).toMatchObject({ tokens: { inputTokens, outputTokens: 0, images: 2 }, source });
  });

  test("it is at least one picture's worth for each where only the first reported its own", async () => {
    const told = usageOf({ input_tokens: 10, output_tokens: 300 });
    const found = await drawn({ output: "40", image: "0.04" }, { usage: { ...told, isEarly: true } });
    expect(found.tokens).toMatchObject({ inputTokens: 10, outputTokens: 544, images: 2 });
  });
});

describe("a count", () => {
  const BOUNDS = { contextTokens: 1_000, outputTokensMax: 100, tariff: null };
  const clamped = { source: "upstream", flags: ["clamped"], isAbsurd: true };

  test.each([
    ["more input than fits the model", { input_tokens: 1_001, output_tokens: 1 }],
    ["more output than the model gives", { input_tokens: 1, output_tokens: 101 }],
    ["less than nothing", { input_tokens: 1, output_tokens: -1 }],
    ["no whole number", { input_tokens: 1.5, output_tokens: 1 }],
  ])("of %s is not believed, and nothing of it is written down", (_, fields) => {
    const tokens = { inputTokens: 0, outputTokens: 0 };
    expect(measured({ usage: usageOf(fields) }, BOUNDS)).toMatchObject({ ...clamped, tokens });
  });

  test("may be as large as all choices together", () => {
    const usage = usageOf({ input_tokens: 1, output_tokens: 300 });
    expect(measured({ usage }, BOUNDS, "chat.completions", { n: 3 })).toMatchObject({ isAbsurd: false });
    expect(measured({ usage }, BOUNDS, "chat.completions", { n: 2 })).toMatchObject(clamped);
  });

  test.each(["responses", "embeddings"] as const)("of the input of %s may add up several windows", (name) => {
    const usage = usageOf({ input_tokens: 5_000, output_tokens: 1 });
    expect(measured({ usage }, BOUNDS, name)).toMatchObject({ isAbsurd: false });
  });
});

test("where nobody pays nothing is counted", () => {
  expect(asReported(null, 0)).toMatchObject({ tokens: { inputTokens: 0 }, source: "none" });
  expect(asReported(TOLD, 0)).toMatchObject({ tokens: { inputTokens: 100 }, source: "upstream" });
});
