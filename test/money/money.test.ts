/** The charge of a request: its tokens times its price, exact to the nano-USD, once, on both databases. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Nano } from "../../src/money/nano.ts";
import { eachEngine } from "../support/each-engine.ts";
import { eventually } from "../support/eventually.ts";
import { bill, doneId, type PaidGateway, PRICE, startPaidGateway } from "../support/paid-gateway.ts";

setDefaultTimeout(60_000);

const SETUP = {
  balance: "100.00",
  billing: { multiplier: "1.5", model_multipliers: { doubled: "2.000001" } },
  models: {
    plain: "sim-fast",
    thinker: { upstream: "sim-reason", price: { ...PRICE, reasoning: "12" } },
    doubled: "sim-fast",
    slow: "sim-fast@events=100,interval=30ms",
    fee: { upstream: "sim-fast", price: { input: "0", output: "0", request: "0.01" } },
    free: { upstream: "sim-fast", price: { input: "0", output: "0" } },
    long: {
      upstream: "sim-fast",
      price: { ...PRICE, long_context: { above: 1_000, input: "5", output: "20" } },
    },
    embed: { upstream: "sim-embed", price: { input: "0.02" } },
    painter: {
      upstream: "sim-image",
      price: {
        image: "0.04",
        images: { "1024x1024/high": "0.167", "1536x1024": "0.063", "1536x1024/low": "0.016" },
      },
    },
    sketcher: { upstream: "sim-image", price: { input: "5", image_input: "10", output: "40" } },
  },
};

eachEngine((engine) => {
  let gateway: PaidGateway;

  beforeAll(async () => {
    gateway = await startPaidGateway(SETUP, {
      databaseUrl: await engine.emptyUrl(),
      limits: { policyPollMs: 50 },
    });
  });

  afterAll(() => gateway?.stop());

  /** Usage row, ledger entry and wallet agree. */
  async function expectCharged(work: () => Promise<string>, cost: (truth: Truth) => Nano): Promise<string> {
    const before = await gateway.records.wallet();
    const id = await work();
    // The simulator records the output after its last byte, which the client may receive before.
    await eventually(() => gateway.simulator.ledger.totals().inFlight, { equals: 0 });
    const truth = gateway.simulator.ledger.last();
    if (truth === null) throw new Error("nothing reached the upstream");
    const expected = cost(truth);
    const row = await gateway.records.row(id);
    expect(row).toMatchObject({
      costNano: expected,
      chargedNano: expected,
      payer: "balance",
      flags: [],
      usageSource: "upstream",
    });
    const charge = await gateway.records.charge(id);
    if (expected === 0n) expect(charge).toBeNull();
    else {
      const booked = { kind: "charge", amountNano: expected, credit: "revenue", userId: row.userId };
      expect(charge).toMatchObject({ ...booked, debit: `user:${row.userId}` });
    }
    expect(await gateway.records.wallet()).toEqual({
      balanceNano: before.balanceNano - expected,
      heldNano: 0n,
    });
    return id;
  }
  type Truth = NonNullable<ReturnType<PaidGateway["simulator"]["ledger"]["last"]>>;

  const ask = async (path: string, body: object) => doneId(await gateway.call(path, body));
  const messages = [{ role: "user", content: "What is a ledger, and who keeps it?" }];

  describe.each([false, true])("(stream: %p)", (stream) => {
    test("a chat completion costs its input and its output", async () => {
      await expectCharged(
        () => ask("/v1/chat/completions", { model: "plain", messages, stream }),
        ({ inputTokens, outputTokens }) =>
          bill(
            [
              [inputTokens, PRICE.input],
              [outputTokens, PRICE.output],
            ],
            "1.5",
          ),
      );
    });

    test("reasoning in responses has its own price", async () => {
      const id = await expectCharged(
        () => ask("/v1/responses", { model: "thinker", input: "Think", stream }),
        ({ inputTokens, outputTokens, reasoningTokens }) =>
          bill(
            [
              [inputTokens, PRICE.input],
              [outputTokens - reasoningTokens, PRICE.output],
              [reasoningTokens, "12"],
            ],
            "1.5",
          ),
      );
      expect((await gateway.records.row(id)).reasoningTokens).toBeGreaterThan(0);
    });

    test("cached input has its own price", async () => {
      const input = "The same long prompt, again and again. ".repeat(20);
      const cached = () =>
        ask("/v1/responses", { model: "plain", input, prompt_cache_key: `${engine}-${stream}`, stream });
      await cached();
      const id = await expectCharged(cached, ({ inputTokens, cachedTokens, outputTokens }) =>
        bill(
          [
            [inputTokens - cachedTokens, PRICE.input],
            [cachedTokens, PRICE.cached_input],
            [outputTokens, PRICE.output],
          ],
          "1.5",
        ),
      );
      expect((await gateway.records.row(id)).cachedTokens).toBeGreaterThan(0);
    });

    test("the multipliers of a group and of a model are one product, exact to twelve decimals", async () => {
      await expectCharged(
        () => ask("/v1/chat/completions", { model: "doubled", messages, stream }),
        ({ inputTokens, outputTokens }) => {
          const pico = BigInt(inputTokens) * 2_500_000n + BigInt(outputTokens) * 10_000_001n;
          const unit = 1_000_000_000_000_000n;
          return (pico * 1_500_000n * 2_000_001n + unit - 1n) / unit;
        },
      );
    });

    test("a long context costs its own prices for the whole request", async () => {
      const long = [{ role: "user", content: "One word after the other. ".repeat(300) }];
      await expectCharged(
        () => ask("/v1/chat/completions", { model: "long", messages: long, stream }),
        ({ inputTokens, outputTokens }) => {
          expect(inputTokens).toBeGreaterThan(1_000);
          return bill(
            [
              [inputTokens, "5"],
              [outputTokens, "20"],
            ],
            "1.5",
          );
        },
      );
      await expectCharged(
        () => ask("/v1/chat/completions", { model: "long", messages, stream }),
        ({ inputTokens, outputTokens }) =>
          bill(
            [
              [inputTokens, PRICE.input],
              [outputTokens, PRICE.output],
            ],
            "1.5",
          ),
      );
    });

    test("images with a token price are charged by tokens", async () => {
      await expectCharged(
        () => ask("/v1/images/generations", { model: "sketcher", prompt: "A ledger", n: 2, stream }),
        ({ inputTokens, outputTokens }) =>
          bill(
            [
              [inputTokens, "5"],
              [outputTokens, "40"],
            ],
            "1.5",
          ),
      );
    });
  });

  test("a request price is charged once, and a free model costs nothing", async () => {
    const ofModel = (model: string) => () => ask("/v1/chat/completions", { model, messages });
    await expectCharged(ofModel("fee"), () => 15_000_000n);
    await expectCharged(ofModel("free"), () => 0n);
  });

  test("embeddings cost their input", async () => {
    await expectCharged(
      () => ask("/v1/embeddings", { model: "embed", input: ["A ledger", "and another"] }),
      ({ inputTokens }) => bill([[inputTokens, "0.02"]], "1.5"),
    );
  });

  test.each([
    ["1024x1024", "high", "0.167"],
    ["1024x1024", "low", "0.04"],
    ["1536x1024", "high", "0.063"],
    ["1536x1024", "low", "0.016"],
    [undefined, undefined, "0.04"],
  ])("an image of size %p and quality %p costs $%s", async (size, quality, usd) => {
    const each = BigInt(Math.round(Number(usd) * 1.5 * 1e9));
    await expectCharged(
      () => ask("/v1/images/generations", { model: "painter", prompt: "A ledger", n: 2, size, quality }),
      () => 2n * each,
    );
  });

  test("an image edit by form is priced by its size and quality", async () => {
    const form = new FormData();
    for (const [name, value] of Object.entries({
      model: "painter",
      prompt: "More red",
      size: "1536x1024",
      quality: "low",
    })) {
      form.set(name, value);
    }
    form.set("image", new Blob(["picture"], { type: "image/png" }), "ledger.png");
    await expectCharged(
      async () => doneId(await gateway.call("/v1/images/edits", form)),
      () => 24_000_000n,
    );
  });

  test("a request repeated with its idempotency key is replayed without a charge", async () => {
    const send = () =>
      gateway.call(
        "/v1/chat/completions",
        { model: "plain", messages },
        { headers: { "idempotency-key": "one" } },
      );
    const before = gateway.simulator.ledger.totals().requests;
    const first = await send();
    const text = await first.text();
    expect(first.headers.get("idempotency-replayed")).toBeNull();
    const rows = await gateway.usageRows();
    await gateway.records.row(first.headers.get("x-request-id") ?? "");
    const paid = await gateway.records.wallet();
    const again = await send();
    expect(again.headers.get("idempotency-replayed")).toBe("true");
    expect(again.headers.get("x-request-id")).toBe(first.headers.get("x-request-id"));
    expect([again.status, again.headers.get("content-type"), await again.text()]).toEqual([
      200,
      "application/json",
      text,
    ]);
    expect(gateway.simulator.ledger.totals().requests).toBe(before + 1);
    expect(await gateway.usageRows()).toHaveLength(rows.length);
    expect(await gateway.records.wallet()).toEqual(paid);
  });

  test("counting input tokens is free", async () => {
    const before = await gateway.records.wallet();
    await ask("/v1/responses/input_tokens", { model: "plain", input: "Hello" });
    expect(await gateway.records.wallet()).toEqual(before);
  });

  test("a request keeps the price with which it was admitted", async () => {
    const slow = await gateway.call("/v1/chat/completions", { model: "slow", messages, stream: true });
    const dear = { input: "100", output: "100" };
    await gateway.apply(
      JSON.stringify({ models: [{ id: "slow", interfaces: ["chat", "responses"], price: dear }] }),
    );
    const costs = async (id: string, { input, output }: { input: string; output: string }) => {
      const { inputTokens, outputTokens, costNano } = await gateway.records.row(id);
      const lines = [[inputTokens, input] as const, [outputTokens, output] as const];
      return costNano === bill(lines, "1.5");
    };
    const quick = { model: "slow", messages, max_completion_tokens: 16 };
    await eventually(async () => costs(await ask("/v1/chat/completions", quick), dear));
    expect(gateway.simulator.ledger.totals().inFlight).toBe(1);
    expect(await costs(await doneId(slow), PRICE)).toBe(true);
  });

  test("the reconciliation has no findings after all of these", () => gateway.records.expectReconciled());
});
