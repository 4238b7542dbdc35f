import { describe, expect, test } from "bun:test";
import { wholeBytesPart } from "../../base/parts.ts";
import {
  BillingUnavailable,
  type HoldRequest,
  type HoldResult,
} from "../../billing/engine/direct-billing.ts";
import { ApiError, errorObject } from "../../errors.ts";
import type { Nano } from "../../money/nano.ts";
import { makeTariff } from "../../money/tariff.ts";
import type { PublishedModel } from "../../policy/snapshot.ts";
import type { EndpointName } from "../../protocols/shared/endpoint.ts";
import { readJsonRequest } from "../../protocols/shared/json-request.ts";
import { INPUT_COUNTER } from "../metering/input-counter.test-support.ts";
import { createInputEstimates } from "../metering/input-estimate.ts";
import { holdMoney } from "./charge.ts";
import { lookUpEndpoint, MODEL, makeCaller, makeRequest, ROUTE, TARIFF } from "./charging.test-support.ts";

const INPUT_TOKENS = 40;
const INPUT_NANO = 80n;
const outputNano = (tokens: number) => 4n * BigInt(tokens);
/** One token per byte plus the overhead: the upper bound of any input. */
const mostNano = (name: EndpointName, fields: Record<string, unknown> = {}) =>
  2n * BigInt(makeRequest(name, fields).inputSize().textBytes + 16);

/** All inputs have the same length, and the payer has this available amount. */
function purse(hasNano: Nano | Extract<HoldResult, { kind: "short" }>) {
  const asked: HoldRequest[] = [];
  const billingEngine = {
    async hold(wanted: HoldRequest): Promise<HoldResult> {
      asked.push(wanted);
      if (typeof hasNano !== "bigint") return hasNano;
      if (hasNano < wanted.leastNano) return { kind: "short", availableNano: hasNano, resetsAtMs: null };
      const amountNano = hasNano < wanted.wantedNano ? hasNano : wanted.wantedNano;
      return { kind: "held", amountNano, subscriptionId: null };
    },
  };
  const estimates = { ...createInputEstimates(), estimate: () => INPUT_TOKENS };
  const gateway = { billingEngine, estimates, inputCounter: INPUT_COUNTER };
  const hold = async (
    name: EndpointName,
    fields: Record<string, unknown> = {},
    {
      caller = makeCaller("balance"),
      model = {} as Partial<PublishedModel>,
      kept = null as number | null,
      windowCap = null as number | null,
      windowSearches = null as number | null,
    } = {},
  ) => {
    const request = makeRequest(name, fields);
    const endpoint = lookUpEndpoint(name);
    const published = { ...MODEL, ...model };
    const chargeable = { call: CALL, caller, endpoint, request, model: published, windowCap, windowSearches };
    return holdMoney(gateway, chargeable, kept);
  };
  return { asked, gateway, hold };
}

const RICH = 1_000_000_000n;
const CALL = { requestId: "req_1" };
const CHAT = {
  call: CALL,
  caller: makeCaller("balance"),
  endpoint: lookUpEndpoint("chat.completions"),
  request: makeRequest("chat.completions"),
  model: MODEL,
  windowCap: null,
  windowSearches: null,
};

async function rejection(work: Promise<unknown>): Promise<ApiError> {
  const thrown = await work.then(
    () => new Error("money was held"),
    (error: unknown) => error,
  );
  if (thrown instanceof ApiError) return thrown;
  throw thrown;
}

describe("the amount of a hold", () => {
  test("covers the longest possible input and the longest output of the model", async () => {
    const { asked, hold } = purse(RICH);
    const wantedNano = mostNano("chat.completions", { stream: true }) + outputNano(1_000);
    expect(await hold("chat.completions", { stream: true })).toEqual({
      tariff: TARIFF,
      payer: "balance",
      heldNano: wantedNano,
      inputTokens: INPUT_TOKENS,
      outputTokens: 1_000,
      paidOutputTokens: Number((wantedNano - INPUT_NANO) / 4n),
      searchesMax: null,
      isCapped: false,
      outputCap: null,
    });
    expect(asked).toEqual([
      {
        requestId: "req_1",
        userId: "u1",
        charge: "balance",
        plans: null,
        tariff: TARIFF,
        wantedNano,
        leastNano: INPUT_NANO + outputNano(16),
        firmNano: INPUT_NANO + outputNano(16),
        inputTokens: INPUT_TOKENS,
        keyId: "k1",
        groupId: "g1",
        interface: "chat",
        endpoint: "chat.completions",
        publicModel: "fast",
        stream: true,
        isLasting: false,
      },
    ]);
  });

  test.each([
    ["chat.completions", { max_tokens: 50 }],
    ["chat.completions", { max_completion_tokens: 50 }],
    ["responses", { max_output_tokens: 50 }],
  ] as const)("covers at most the output that %s requests with %j", async (name, fields) => {
    const { hold } = purse(RICH);
    const heldNano = mostNano(name, fields) + 200n;
    expect(await hold(name, fields)).toMatchObject({ outputTokens: 50, outputCap: null, heldNano });
  });

  test.each([
    ["chat.completions", { max_output_tokens: 1 }, 1_000],
    ["responses", { max_tokens: 1, max_completion_tokens: 1 }, 1_000],
    ["chat.completions", { max_completion_tokens: 1, max_tokens: 500 }, 500],
    ["chat.completions", { max_completion_tokens: 1, max_tokens: -1 }, 1_000],
  ] as const)(
    "is not reduced by an output limit that the upstream may ignore: %s with %j",
    async (name, fields, tokens) => {
      const { hold } = purse(RICH);
      expect((await hold(name, fields))?.outputTokens).toBe(tokens);
    },
  );

  test("covers every requested choice", async () => {
    const { asked, hold } = purse(RICH);
    expect(await hold("chat.completions", { n: 3, max_tokens: 50 })).toMatchObject({ outputTokens: 150 });
    expect(asked[0]).toMatchObject({ leastNano: INPUT_NANO + outputNano(3 * 16) });
  });

  test.each([
    [{}, null, 1, 16_384],
    [{ n: 2 }, null, 2, 16_384],
    [{}, 10_000, 1, 10_000 - INPUT_TOKENS],
  ])(
    "assumes and sets a default output cap, with %j and a context of %p tokens",
    async (fields, contextTokens, choices, tokens) => {
      const { hold } = purse(RICH);
      const model = { outputTokensMax: null, contextTokens };
      expect(await hold("chat.completions", fields, { model })).toMatchObject({
        outputTokens: tokens * choices,
        outputCap: tokens,
        isCapped: false,
      });
    },
  );

  test("covers all requested output if the model has no known output maximum", async () => {
    const { hold } = purse(RICH);
    const model = { outputTokensMax: null };
    const charge = await hold("responses", { max_output_tokens: 50_000 }, { model });
    expect(charge).toMatchObject({ outputTokens: 50_000, outputCap: null });
  });

  test("has a minimum of a short output, or of a shorter output if the client requests it", async () => {
    const { asked, hold } = purse(RICH);
    await hold("chat.completions", { max_tokens: 5 });
    expect(asked[0]).toMatchObject({ leastNano: INPUT_NANO + outputNano(5) });
  });

  const file = (part: object) => ({ input: [{ role: "user", content: [part] }] });
  test.each([
    { previous_response_id: "resp_1" },
    { conversation: "conv_1" },
    { prompt: { id: "pmpt_1" } },
    { input: [{ type: "item_reference", id: "msg_1" }] },
    file({ type: "input_file", file_url: "https://example.com/a.pdf" }),
    file({ type: "input_file", file_id: "file-1" }),
  ])("covers a full context if the upstream reads input that is not in the body: %j", async (fields) => {
    const { asked, hold } = purse(RICH);
    const body = { max_output_tokens: 16, ...fields };
    await hold("responses", body, { model: { contextTokens: 5_000 } });
    await hold("responses", body);
    const least = INPUT_NANO + outputNano(16);
    expect(asked.map(({ leastNano, wantedNano }) => [leastNano, wantedNano])).toEqual([
      [least + 2n * 5_000n, least + 2n * 5_000n],
      [least + 2n * 8_192n, mostNano("responses", body) + outputNano(16) + 2n * 128_000n],
    ]);
  });

  test("covers a stored conversation by its recorded count, doubled for another tokenizer", async () => {
    const { asked, hold } = purse(RICH);
    const body = { max_output_tokens: 16, previous_response_id: "resp_1" };
    expect(await hold("responses", body, { kept: 20_000 })).toMatchObject({
      inputTokens: INPUT_TOKENS + 20_000,
    });
    expect(asked[0]).toMatchObject({
      leastNano: INPUT_NANO + 2n * 20_000n + outputNano(16),
      wantedNano: mostNano("responses", body) + 2n * 40_000n + outputNano(16),
    });
  });

  test("covers another context for built-in tools, but does not require it", async () => {
    const { asked, hold } = purse(RICH);
    const body = { max_output_tokens: 16, tools: [{ type: "web_search" }] };
    await hold("responses", body, { model: { contextTokens: 5_000 } });
    expect(asked[0]).toMatchObject({
      leastNano: INPUT_NANO + outputNano(16),
      wantedNano: mostNano("responses", body) + 2n * 5_000n + outputNano(16),
    });
  });

  describe("for web searches", () => {
    /** 1,000 nano-USD for a search, 100 for an output token. */
    const tariff = makeTariff({ input: "0", output: "0.1", per_call: { web_search: "0.000001" } });
    const model = { tariff, outputTokensMax: 100 };
    const OUTPUT_NANO = 10_000n;
    const SEARCH_TOOL = { type: "web_search_20250305", name: "web_search" };
    const SEARCHING = [
      ["responses", { tools: [{ type: "web_search" }] }],
      ["messages", { tools: [SEARCH_TOOL], max_tokens: 100 }],
      ["chat.completions", { web_search_options: {} }],
      ["gemini.generate_content", { tools: [{ googleSearch: {} }] }],
    ] as const;

    test.each(SEARCHING)("of %s covers the bound of the group", async (name, fields) => {
      const { asked, hold } = purse(RICH);
      const charge = await hold(name, fields, { model });
      expect(asked[0]).toMatchObject({ wantedNano: OUTPUT_NANO + 10_000n, leastNano: 1_600n + 1_000n });
      expect(charge).toMatchObject({ searchesMax: 10, isCapped: false });
    });

    test.each([
      ["responses", { tools: [{ type: "web_search" }], max_tool_calls: 25 }],
      ["messages", { tools: [{ ...SEARCH_TOOL, max_uses: 25 }], max_tokens: 100 }],
    ] as const)("of %s covers the client's own limit", async (name, fields) => {
      const { asked, hold } = purse(RICH);
      expect(await hold(name, fields, { model })).toMatchObject({ searchesMax: 25 });
      expect(asked[0]?.wantedNano).toBe(OUTPUT_NANO + 25_000n);
    });

    test("covers no more than a USD window affords", async () => {
      const { asked, hold } = purse(RICH);
      const fields = { tools: [{ type: "web_search" }] };
      expect(await hold("responses", fields, { model, windowSearches: 4 })).toMatchObject({ searchesMax: 4 });
      expect(asked[0]?.wantedNano).toBe(OUTPUT_NANO + 4_000n);
    });

    test("covers at most as many as a report may count", async () => {
      const { hold } = purse(RICH);
      const fields = { tools: [{ type: "web_search" }], max_tool_calls: 1_000_000 };
      expect(await hold("responses", fields, { model })).toMatchObject({ searchesMax: 1_000 });
    });

    test.each(SEARCHING)(
      "of %s: a payer who has less gets fewer, in the same part as output",
      async (name, fields) => {
        // The least is 2,600 nano-USD, the most 20,000.
        const { hold } = purse(11_300n);
        const charge = await hold(name, fields, { model });
        expect(charge).toMatchObject({ heldNano: 11_300n, searchesMax: 5, outputTokens: 63, isCapped: true });
      },
    );

    test.each(SEARCHING)("of %s: a payer who can afford none is rejected", async (name, fields) => {
      const { hold } = purse(2_500n);
      const error = await rejection(hold(name, fields, { model }));
      expect(error.code).toBe("insufficient_quota");
    });

    test("a subscription that can afford none is rejected with the time of its reset", async () => {
      const { hold } = purse({ kind: "short", availableNano: 2_500n, resetsAtMs: 5_000 });
      const [name, fields] = SEARCHING[0];
      const error = await rejection(hold(name, fields, { model, caller: makeCaller("subscription") }));
      expect(error.code).toBe("usage_limit_reached");
    });

    test("holds nothing if the request offers none, and charges up to the bound of the group", async () => {
      const { asked, hold } = purse(RICH);
      expect(await hold("responses", {}, { model })).toMatchObject({ searchesMax: 10 });
      expect(asked[0]?.wantedNano).toBe(OUTPUT_NANO);
    });

    test("holds nothing if they cost nothing", async () => {
      const { asked, hold } = purse(RICH);
      const free = { ...model, tariff: makeTariff({ input: "0", output: "0.1" }) };
      expect(await hold("chat.completions", { web_search_options: {} }, { model: free })).toMatchObject({
        searchesMax: null,
      });
      expect(asked[0]?.wantedNano).toBe(OUTPUT_NANO);
    });

    test("holds one for a search model, which searches once for each response", async () => {
      const { asked, hold } = purse(RICH);
      const routes = new Map([["chat" as const, [{ ...ROUTE, upstreamModel: "gpt-5-search-api" }]]]);
      await hold("chat.completions", {}, { model: { ...model, routes } });
      expect(asked[0]?.wantedNano).toBe(OUTPUT_NANO + 1_000n);
    });

    test("leaves enough for the least output beside files that cannot be counted", async () => {
      const media = makeTariff({ input: "0.1", output: "0.1", per_call: { web_search: "0.000001" } });
      const picture = { type: "input_image", image_url: "https://a.example/b.png" };
      const fields = {
        input: [{ role: "user", content: [picture] }],
        tools: [{ type: "web_search" }],
        max_output_tokens: 100,
      };
      const asked = purse(RICH);
      await asked.hold("responses", fields, { model: { ...model, tariff: media } });
      const { leastNano = 0n, firmNano = 0n, wantedNano = 0n } = asked.asked[0] ?? {};
      for (const held of [leastNano, firmNano, firmNano + 5_000n, wantedNano - 1n, wantedNano]) {
        const charge = await purse(held).hold("responses", fields, { model: { ...model, tariff: media } });
        const { searchesMax, outputTokens } = charge ?? { searchesMax: null, outputTokens: 0 };
        expect(searchesMax).toBeGreaterThanOrEqual(1);
        expect(outputTokens).toBeGreaterThanOrEqual(16);
        expect(BigInt(1_000 * (searchesMax ?? 0) + 100 * outputTokens)).toBeLessThanOrEqual(held);
      }
    });
  });

  test("covers no more input than fits the model's context", async () => {
    const { asked, hold } = purse(RICH);
    const messages = [{ role: "user", content: "x".repeat(9_000) }];
    await hold("chat.completions", { max_tokens: 16, messages }, { model: { contextTokens: 5_000 } });
    await hold("embeddings", { input: "x".repeat(9_000) }, { model: { contextTokens: 5_000 } });
    expect(asked[0]?.wantedNano).toBe(2n * 5_000n + outputNano(16));
    expect(asked[1]?.wantedNano).toBeGreaterThan(2n * 9_000n);
  });

  test("has no more output than a USD window affords", async () => {
    const { asked, hold } = purse(RICH);
    const whole = await hold("chat.completions", { n: 2 });
    const within = await hold("chat.completions", { n: 2 }, { windowCap: 50 });
    expect(whole?.outputTokens).toBe(2_000);
    expect(within).toMatchObject({ outputTokens: 100, isCapped: false });
    const [first, second] = asked;
    expect((first?.wantedNano ?? 0n) - (second?.wantedNano ?? 0n)).toBe(outputNano(1_900));
  });

  test("does not depend on whitespace in the body", async () => {
    const { asked, gateway } = purse(RICH);
    const estimates = createInputEstimates();
    const embeddings = lookUpEndpoint("embeddings");
    for (const space of ["", " ".repeat(20_000)]) {
      const bytes = new TextEncoder().encode(`{"model":"fast",${space}"input":"hi"}`);
      const request = readJsonRequest(wholeBytesPart(bytes), embeddings, {
        depthMax: 16,
        modelNameCharsMax: 32,
      });
      const caller = makeCaller("balance");
      const chargeable = { ...CHAT, caller, endpoint: embeddings, request };
      await holdMoney({ ...gateway, estimates }, chargeable);
    }
    expect(asked).toEqual([asked[1], asked[1]].flatMap((one) => one ?? []));
  });

  test("uses the most expensive token kind that is possible", async () => {
    const { asked, hold } = purse(RICH);
    const tariff = makeTariff({
      input: "1",
      cache_write: "2",
      audio_input: "5",
      output: "1",
      audio_output: "9",
    });
    const sound = { role: "user", content: [{ input_audio: { format: "wav", data: "AAAA" } }] };
    const model = { tariff, contextTokens: 1_000 };
    await hold("chat.completions", { max_tokens: 10, messages: [sound] }, { model });
    expect(asked[0]?.wantedNano).toBe(1_000n * 5_000n + 10n * 9_000n);
    await hold("embeddings", {}, { model });
    expect(asked[1]?.wantedNano).toBe((mostNano("embeddings") / 2n) * 2_000n);
  });

  test("for an image is its exact price", async () => {
    const { asked, hold } = purse(RICH);
    const tariff = makeTariff({ image: "0.01", images: { "1024x1024/high": "0.04" } });
    const fields = { n: 2, size: "1024x1024", quality: "high" };
    expect(await hold("images.generations", fields, { model: { tariff } })).toMatchObject({
      heldNano: 80_000_000n,
      isCapped: false,
    });
    expect(asked[0]?.leastNano).toBe(asked[0]?.wantedNano ?? 0n);
  });

  test.each([
    [{ size: "1024x1024" }, 40_000_000n, 20_000_000n],
    [{ size: "1024x1024", quality: "auto" }, 40_000_000n, 20_000_000n],
    [{ quality: "high" }, 90_000_000n, 10_000_000n],
    [{}, 90_000_000n, 10_000_000n],
    [{ size: "2x2/low" }, 90_000_000n, 10_000_000n],
  ])(
    "for an image with %j covers the most expensive match, and requires the cheapest",
    async (fields, wantedNano, leastNano) => {
      const { asked, hold } = purse(RICH);
      const images = { "1024x1024": "0.02", "1024x1024/high": "0.04", "2x2/high": "0.09" };
      const tariff = makeTariff({ image: "0.01", images });
      await hold("images.generations", fields, { model: { tariff } });
      expect(asked[0]).toMatchObject({ wantedNano, leastNano });
    },
  );

  test("for an image uses the price per image if it exceeds the token price", async () => {
    const { asked, hold } = purse(RICH);
    await hold("images.generations", {}, { model: { tariff: makeTariff({ output: "1", image: "0.5" }) } });
    expect(asked[0]?.wantedNano).toBe(500_000_000n);
  });

  test("for embeddings covers the input only, and caps no output", async () => {
    const { asked, hold } = purse(INPUT_NANO);
    expect(await hold("embeddings")).toMatchObject({
      heldNano: INPUT_NANO,
      isCapped: false,
      outputCap: null,
    });
    expect(asked[0]).toMatchObject({ leastNano: INPUT_NANO, wantedNano: mostNano("embeddings") });
  });

  test("for a compaction covers the output of a summary, because it cannot be capped", async () => {
    const { asked, hold } = purse(RICH);
    const model = { outputTokensMax: 128_000 };
    expect(await hold("responses.compact", {}, { model })).toMatchObject({ isCapped: false });
    expect(asked[0]).toMatchObject({
      leastNano: INPUT_NANO + outputNano(16_384),
      wantedNano: mostNano("responses.compact") + outputNano(16_384),
    });
  });
});

describe("billing with a synchronous hold", () => {
  const holdBy = (result: HoldResult) => {
    const gateway = { ...purse(0n).gateway, billingEngine: { hold: () => result } };
    return holdMoney(gateway, CHAT);
  };

  test("returns the same charge without a promise", async () => {
    const amountNano = INPUT_NANO + outputNano(100);
    const later = await purse(amountNano).hold("chat.completions");
    expect(later).toMatchObject({ isCapped: true });
    expect(holdBy({ kind: "held", amountNano, subscriptionId: null })).toEqual(later);
  });

  test("throws synchronously if the balance is too low", () => {
    const short = { kind: "short", availableNano: 1n, resetsAtMs: null } as const;
    expect(() => holdBy(short)).toThrow(ApiError);
  });
});

describe("requests without a hold", () => {
  test("are those of unpaid groups, of models without a price, and of token counting", async () => {
    const { asked, hold } = purse(0n);
    expect(await hold("chat.completions", {}, { caller: makeCaller("none") })).toBeNull();
    expect(await hold("chat.completions", {}, { model: { tariff: null } })).toBeNull();
    expect(await hold("responses.input_tokens")).toBeNull();
    expect(asked).toEqual([]);
  });

  test("a key without a user is rejected", async () => {
    const { asked, hold } = purse(RICH);
    const caller = makeCaller("balance", { userId: null });
    const error = await rejection(hold("chat.completions", {}, { caller }));
    expect(error).toMatchObject({ code: "insufficient_quota", headers: { "x-should-retry": "false" } });
    expect(asked).toEqual([]);
  });

  test("are rejected with store_unavailable while the database is unavailable", async () => {
    const { gateway } = purse(RICH);
    const billingEngine = { hold: () => Promise.reject(new BillingUnavailable("away")) };
    const work = async () => holdMoney({ ...gateway, billingEngine }, CHAT);
    expect(await rejection(work())).toMatchObject({ status: 503, code: "store_unavailable" });
  });
});

describe("an insufficient balance", () => {
  test("caps the output to the affordable amount", async () => {
    const { hold } = purse(INPUT_NANO + outputNano(100) + 3n);
    expect(await hold("chat.completions")).toMatchObject({
      heldNano: INPUT_NANO + outputNano(100) + 3n,
      outputTokens: 100,
      paidOutputTokens: 100,
      isCapped: true,
      outputCap: 100,
    });
  });

  test("caps nothing if it covers the requested output, even without the conversation margin", async () => {
    const { hold } = purse(INPUT_NANO + 2n * 3_000n + outputNano(100));
    const fields = { max_output_tokens: 100, previous_response_id: "resp_1" };
    expect(await hold("responses", fields, { kept: 3_000 })).toMatchObject({
      outputTokens: 100,
      isCapped: false,
    });
  });

  test("that does not cover the stored conversation rejects the request", async () => {
    const { hold } = purse(INPUT_NANO + 2n * 3_000n);
    const fields = { max_output_tokens: 100, previous_response_id: "resp_1" };
    const error = await rejection(hold("responses", fields, { kept: 3_000 }));
    expect(error.code).toBe("insufficient_quota");
  });

  test("triggers an exact count of the input before the request is rejected", async () => {
    const { asked, hold } = purse(100n);
    const charge = await hold("chat.completions");
    expect(asked.map(({ inputTokens }) => inputTokens)).toEqual([INPUT_TOKENS, charge?.inputTokens ?? 0]);
    expect(charge?.inputTokens).toBeLessThan(INPUT_TOKENS / 2);
    expect(charge).toMatchObject({ heldNano: 100n, isCapped: true });
  });

  test("rejects the request if the exact count is also too expensive", async () => {
    const { asked, hold } = purse(40n);
    const { message } = await rejection(hold("chat.completions"));
    expect(message).toContain(
      `requires at least $0.0000000${asked[1]?.leastNano}, but your available balance is $0.00000004`,
    );
    expect(asked).toHaveLength(2);
  });

  test("skips the exact count if that cannot change the decision", async () => {
    const little = purse(30n);
    await rejection(little.hold("chat.completions"));
    expect(little.asked).toHaveLength(1);
    const less = purse(100n);
    const messages = [{ role: "user", content: "one two three four five ".repeat(20) }];
    await rejection(less.hold("chat.completions", { messages }));
    expect(less.asked).toHaveLength(1);
  });

  test("is reported with the missing amount and x-should-retry: false", async () => {
    const { hold } = purse(30n);
    const error = await rejection(hold("chat.completions"));
    expect(error).toMatchObject({
      status: 429,
      code: "insufficient_quota",
      headers: { "x-should-retry": "false" },
      resetsAtMs: null,
    });
    expect(error.message).toBe(
      "This request requires at least $0.000000144, but your available balance is $0.00000003. Top up the balance, or send a smaller request.",
    );
  });

  test("of a subscription is reported with the reset time", async () => {
    const resetsAtMs = Date.parse("2026-09-30T00:00:00Z") - 400;
    const { asked, hold } = purse({ kind: "short", availableNano: 7n, resetsAtMs });
    const caller = makeCaller("subscription", { plans: ["pro"] });
    const error = await rejection(hold("chat.completions", {}, { caller }));
    expect(asked[0]).toMatchObject({ charge: "subscription", plans: ["pro"] });
    expect(error).toMatchObject({
      status: 429,
      code: "usage_limit_reached",
      headers: { "x-should-retry": "false" },
    });
    expect(error.message).toEndWith(
      "your subscription has $0.000000007 left. The quota resets at 2026-09-30T00:00:00Z.",
    );
    expect(errorObject(error, "req_1").resets_at).toBe(Date.parse("2026-09-30T00:00:00Z") / 1_000);
  });

  test("of a subscription that never resets, or of none, is reported without a reset time", async () => {
    const { hold } = purse({ kind: "short", availableNano: 0n, resetsAtMs: null });
    const error = await rejection(hold("chat.completions", {}, { caller: makeCaller("subscription") }));
    expect(error).toMatchObject({ code: "insufficient_quota", headers: { "x-should-retry": "false" } });
    expect(errorObject(error, "req_1")).not.toHaveProperty("resets_at");
  });
});
