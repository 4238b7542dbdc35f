import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { readPolicy } from "../../store/policy/policy.ts";
import { writePriceList } from "../../store/policy/price-list.ts";
import { exportFile } from "../export/export.ts";
import { type FreshInstallation, freshInstallation } from "../installation/installation.test-support.ts";
import type { Installation } from "../installation/installation.ts";
import { applyChanges, planChanges } from "../plan/apply.ts";

setDefaultTimeout(60_000);

let gateway: Installation;
let remove: FreshInstallation["remove"];

beforeEach(async () => {
  ({ gateway, remove } = await freshInstallation());
});

afterEach(() => remove());

async function plan(text: string) {
  return planChanges(gateway, { text, fileName: "gateway.yaml", environment: {} }, { prune: false });
}

async function rejections(text: string): Promise<string[]> {
  const result = await plan(text);
  return result.ok ? [] : result.problems.map(({ line, field, message }) => `${line} ${field}: ${message}`);
}

async function apply(text: string): Promise<void> {
  const result = await plan(text);
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  await applyChanges(gateway, result.plan);
}

const file = (billing: string, price = "", key = "") => `
models:
  - { id: fast, interfaces: [chat]${price} }
accounts:
  - { name: sim, kind: simulator }
groups:
  - name: team
    models: [fast]
    accounts: [sim]
    ${billing}
users:
  - email: dev@example.com
${key}`;

test("a charging group rejects a price that would make every request for the model free", async () => {
  const charging = "billing: { charge: balance }";
  for (const price of ['{ image: "1" }', "{ images: {} }"]) {
    const [only = "", ...more] = await rejections(file(charging, `, price: ${price}`));
    expect(only).toStartWith(
      "8 groups[0].models[0]: is a model whose price has no unit for its interfaces (chat), and the group",
    );
    expect(more).toEqual([]);
  }
  const painter = (price: string) =>
    file(charging, `, price: ${price}`).replace("interfaces: [chat]", "interfaces: [images]");
  expect(await rejections(painter('{ input: "1" }'))).toHaveLength(1);
  for (const price of ['{ image: "1" }', '{ output: "1" }', '{ request: "0" }', '{ images: { 1x1: "1" } }']) {
    expect(await rejections(painter(price))).toEqual([]);
  }
});

test("a charging group rejects a model without a price, with its position and a remedy", async () => {
  for (const charge of ["balance", "subscription"]) {
    const [only, ...more] = await rejections(file(`billing: { charge: ${charge} }`));
    expect(more).toEqual([]);
    expect(only).toStartWith("8 groups[0].models[0]: is a model without a price");
    expect(only).toContain("billing.model_prices");
    expect(only).toContain("charge: none");
  }
  expect(await rejections(file("billing: { charge: none }"))).toEqual([]);
});

test("a window in USD needs prices like charging does", async () => {
  const windows = (field: string) => `${field}: { windows: [{ per: 1d, usd: "5.00" }] }`;
  for (const field of ["limits", "group_limits"]) {
    expect(await rejections(file(windows(field)))).toEqual([
      expect.stringContaining(
        "8 groups[0].models[0]: is a model without a price, and the group has a window",
      ),
    ]);
  }
});

test("accepts a price of the model, the group, a price list or the upstream model", async () => {
  const charging = "billing: { charge: balance }";
  expect(await rejections(file(charging, ', price: { input: "1" }'))).toEqual([]);
  expect(
    await rejections(file('billing: { charge: balance, model_prices: { fast: { request: "0.01" } } }')),
  ).toEqual([]);
  expect(await rejections(file(charging).replaceAll("fast", "gpt-4o"))).toEqual([]);
  const mapped = file(charging).replace("kind: simulator", "kind: simulator, models: { fast: gpt-4o }");
  expect(await rejections(mapped)).toEqual([]);
  await writePriceList(gateway.db, {
    date: "2026-11-01",
    models: { fast: { price: { input: "1" }, contextTokens: null, outputTokensMax: null } },
  });
  expect(await rejections(file(charging))).toEqual([]);
});

test("a model published by a stored charging group cannot lose its price", async () => {
  await apply(file("billing: { charge: balance }", ', price: { input: "1" }'));
  const [only] = await rejections("models:\n  - { id: fast, interfaces: [chat] }");
  expect(only).toStartWith('2 models[0].price: is missing, and the group "team"');
  expect(await rejections("models:\n  - { id: other, interfaces: [chat] }")).toEqual([]);
});

test("a key of a charging group needs a user", async () => {
  const charging = "billing: { charge: balance }";
  const price = ', price: { input: "1" }';
  const nobodys = "keys:\n  - { name: ci, group: team }";
  const [only] = await rejections(file(charging, price, nobodys));
  expect(only).toStartWith("14 keys[0].user: is missing: a key of a charging group needs a user to charge.");
  expect(
    await rejections(file(charging, price, nobodys.replace("ci,", "ci, user: dev@example.com,"))),
  ).toEqual([]);

  await apply(file("billing: { charge: none }", price, nobodys));
  const [stored] = await rejections(file(charging, price));
  expect(stored).toStartWith('10 groups[0].billing.charge: the group has the key "ci" without a user');
});

test("plans are allowed for subscriptions only, and prices for the group's models only", async () => {
  const price = ', price: { input: "1" }';
  expect(await rejections(file("billing: { charge: balance, plans: [pro] }", price))).toContainEqual(
    expect.stringContaining("groups[0].billing.plans: is allowed only with charge: subscription"),
  );
  expect(await rejections(file('billing: { model_prices: { other: { input: "1" } } }', price))).toEqual([
    "10 groups[0].billing.model_prices.other: is not among the group's models.",
  ]);
});

test("every part of a price survives storage, export and apply", async () => {
  const price = `, context_tokens: 200, max_output_tokens: 100, price: { input: "1", cached_input: "0.1",
    cache_write: "1.25", output: "4.0", reasoning: "5", image_input: "2", audio_input: "3", audio_output: "6",
    image: "0.05", images: { 1024x1024: "0.04", 1024x1024/hd: "0.08" }, request: "0.01",
    long_context: { above: 200000, input: "2", cached_input: "0.2", cache_write: "2.5", output: "8", reasoning: "9" } }`;
  const billing = `billing: { charge: balance, multiplier: "1.5", model_multipliers: { fast: "2" },
      model_prices: { fast: { input: "7", images: { 9x9: "1" } } } }`;
  await apply(file(billing, price));
  const { models, groups } = await readPolicy(gateway.db);
  expect(models[0]).toMatchObject({ contextTokens: 200, outputTokensMax: 100 });
  expect(models[0]?.price).toEqual({
    input: "1",
    cached_input: "0.1",
    cache_write: "1.25",
    output: "4.0",
    reasoning: "5",
    image_input: "2",
    audio_input: "3",
    audio_output: "6",
    image: "0.05",
    images: { "1024x1024": "0.04", "1024x1024/hd": "0.08" },
    request: "0.01",
    long_context: {
      above: 200_000,
      input: "2",
      cached_input: "0.2",
      cache_write: "2.5",
      output: "8",
      reasoning: "9",
    },
  });
  expect(groups[0]?.billing).toEqual({
    charge: "balance",
    plans: null,
    multiplier: "1.5",
    modelMultipliers: { fast: "2" },
    modelPrices: { fast: { input: "7", images: { "9x9": "1" } } },
  });
  const again = await plan(await exportFile(gateway.db));
  expect(again.ok && again.plan.changes).toEqual([]);
});

test("a difference shows the changed part of billing", async () => {
  await apply(file("billing: { charge: balance }", ', price: { input: "1" }'));
  const result = await plan(
    file('billing: { charge: none, model_prices: { fast: { input: "2" } } }', ', price: { input: "1" }'),
  );
  expect(result.ok && result.plan.changes.map(({ fields }) => fields)).toEqual([
    [
      { field: "billing.charge", from: "balance", to: "none" },
      { field: "on_disconnect", from: "drain (default)", to: "cancel (default)" },
      { field: "billing.model_prices.fast", from: null, to: "{input: 2}" },
    ],
  ]);
});
