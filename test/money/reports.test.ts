/** Money in the client API: `GET /v1/usage` and `GET /v1/requests/{id}`. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { parseUsd, usdText } from "../../src/money/nano.ts";
import { bill, doneId, type PaidGateway, PRICE, startPaidGateway } from "../support/paid-gateway.ts";

setDefaultTimeout(60_000);

const FREE_SECRET = "free-key-0123456789-0123456789-0123456789";
let gateway: PaidGateway;

beforeAll(async () => {
  gateway = await startPaidGateway({
    balance: "10.00",
    billing: { multiplier: "1.5" },
    models: {
      plain: "sim-fast",
      thinker: { upstream: "sim-reason", price: { ...PRICE, reasoning: "12", request: "0.001" } },
      long: {
        upstream: "sim-fast",
        price: { ...PRICE, long_context: { above: 2, input: "5", output: "20" } },
      },
      painter: {
        upstream: "sim-image",
        price: { image: "0.04", images: { "1024x1024/high": "0.167", "1536x1024": "0.063" } },
      },
      liar: "fault/usage-negative",
      broken: "fault/500",
    },
    groups: [
      {
        name: "free",
        interfaces: ["chat"],
        models: ["plain"],
        accounts: ["sim"],
        billing: { charge: "none" },
      },
    ],
    keys: [{ name: "free", user: "payer@example.com", group: "free", secret: FREE_SECRET }],
  });
});
afterAll(() => gateway.stop());

const messages = [{ role: "user", content: "Hello" }];
const as = (secret?: string): RequestInit =>
  secret === undefined ? {} : { headers: { authorization: `Bearer ${secret}` } };

interface Line {
  unit: string;
  count: number;
  price: string;
  per: string;
  long_context: boolean;
  cost: string;
}
interface Money {
  currency: string;
  cost: string;
  charged: string;
  payer: string | null;
  flags: string[];
  calculation: { multiplier: string; lines: Line[] } | null;
}

async function readMoney(id: string, secret?: string): Promise<Money> {
  const response = await gateway.call(`/v1/requests/${id}`, undefined, as(secret));
  expect(response.status).toBe(200);
  return ((await response.json()) as { money: Money }).money;
}

const chat = async (model: string, more: object = {}) =>
  doneId(await gateway.call("/v1/chat/completions", { model, messages, ...more }));

describe("the report of a request", () => {
  test("shows its cost, its payer and the calculation line by line", async () => {
    const id = await doneId(await gateway.call("/v1/responses", { model: "thinker", input: "Hello" }));
    const { inputTokens, outputTokens, reasoningTokens, chargedNano } = await gateway.records.row(id);
    const money = await readMoney(id);
    const token = { per: "1M tokens", long_context: false };
    expect(money).toEqual({
      currency: "USD",
      cost: usdText(chargedNano),
      charged: usdText(chargedNano),
      payer: "balance",
      flags: [],
      calculation: {
        multiplier: "1.5",
        lines: [
          { ...token, unit: "input", count: inputTokens, price: "2.50", cost: expect.any(String) },
          {
            ...token,
            unit: "output",
            count: outputTokens - reasoningTokens,
            price: "10.000001",
            cost: expect.any(String),
          },
          { ...token, unit: "reasoning", count: reasoningTokens, price: "12.00", cost: expect.any(String) },
          { unit: "request", count: 1, price: "0.001", per: "request", long_context: false, cost: "0.0015" },
        ],
      },
    });
    const sum = money.calculation?.lines.reduce((total, { cost }) => total + parseUsd(cost), 0n);
    expect(sum).toBe(chargedNano);
  });

  test("marks the lines with long-context prices", async () => {
    const { calculation } = await readMoney(await chat("long"));
    expect(calculation?.lines).toMatchObject([
      { unit: "input", price: "5.00", long_context: true },
      { unit: "output", price: "20.00", long_context: true },
    ]);
  });

  test.each([
    ["1024x1024", "high", "0.167"],
    ["1536x1024", "low", "0.063"],
    ["512x512", "low", "0.04"],
  ])("shows the price of an image of %s in %s", async (size, quality, price) => {
    const body = { model: "painter", prompt: "A ledger", n: 2, size, quality };
    const { calculation } = await readMoney(await doneId(await gateway.call("/v1/images/generations", body)));
    // Its tokens are shown too, with a price of zero.
    expect(calculation?.lines.at(-1)).toMatchObject({ unit: "image", count: 2, price, per: "image" });
  });

  test("shows no calculation if the reported usage was implausible", async () => {
    const money = await readMoney(await chat("liar"));
    expect(money).toMatchObject({ flags: ["clamped"], calculation: null });
    expect(parseUsd(money.charged)).toBeGreaterThan(0n);
  });

  test("that no account served shows that nothing was charged", async () => {
    const response = await gateway.call("/v1/chat/completions", { model: "broken", messages });
    await response.text();
    const money = await readMoney(response.headers.get("x-request-id") ?? "");
    expect(money).toMatchObject({ cost: "0.00", charged: "0.00", payer: "balance" });
    expect(money.calculation?.lines).toEqual([]);
  });
});

describe("a group without charge", () => {
  test("records the cost of a request and charges nothing", async () => {
    const before = await gateway.records.wallet();
    const response = await gateway.call(
      "/v1/chat/completions",
      { model: "plain", messages },
      as(FREE_SECRET),
    );
    const id = await doneId(response);
    // Written later, because it is an unpaid request.
    await gateway.usageRows();
    const row = await gateway.records.row(id);
    expect(row).toMatchObject({ payer: null, chargedNano: 0n });
    expect(row.costNano).toBe(
      bill([
        [row.inputTokens, PRICE.input],
        [row.outputTokens, PRICE.output],
      ]),
    );
    expect(await gateway.records.charge(id)).toBeNull();
    expect(await gateway.records.wallet()).toEqual(before);
    expect(await readMoney(id, FREE_SECRET)).toMatchObject({ cost: usdText(row.costNano), charged: "0.00" });
  });

  test("reports no remaining amount, and cost without charge", async () => {
    const report = await (await gateway.call("/v1/usage", undefined, as(FREE_SECRET))).json();
    expect(report).toMatchObject({
      billing: { mode: "none", currency: "USD" },
      isValid: true,
      planName: "free",
      remaining: null,
      unit: "USD",
      usage: { total: { requests: 1, charged: "0.00" } },
    });
    expect(report).not.toMatchObject({ usage: { total: { cost: "0.00" } } });
  });
});

test("GET /v1/usage has the documented shape, and its sums match the ledger", async () => {
  const report = (await (await gateway.call("/v1/usage")).json()) as Record<string, unknown> & {
    billing: { balance: string };
    usage: { total: { charged: string }; range: { charged: string; by_model: { charged: string }[] } };
  };
  const text = await Bun.file(`${import.meta.dir}/../../docs/usage-api.md`).text();
  const documented = JSON.parse(/```json\n([\s\S]*?)```/.exec(text)?.[1] ?? "{}");
  const paths = (value: unknown, path = ""): string[] =>
    typeof value !== "object" || value === null || Array.isArray(value)
      ? [path]
      : Object.entries(value).flatMap(([name, of]) => paths(of, `${path}.${name}`));
  // Limits appear only if they are set; all other fields are always present.
  const always = (value: object) => paths(value).filter((path) => !path.startsWith(".limits."));
  expect(always(report)).toEqual(expect.arrayContaining(always(documented)));
  const { balanceNano } = await gateway.records.wallet();
  const spent = usdText(parseUsd("10.00") - balanceNano);
  expect(report.billing.balance).toBe(usdText(balanceNano));
  expect(report).toMatchObject({ isValid: true, planName: "paying", unit: "USD" });
  expect(report.remaining).toBe(Number(balanceNano) / 1e9);
  expect([report.usage.total.charged, report.usage.range.charged]).toEqual([spent, spent]);
  const byModel = report.usage.range.by_model.reduce((sum, { charged }) => sum + parseUsd(charged), 0n);
  expect(usdText(byModel)).toBe(spent);
});
