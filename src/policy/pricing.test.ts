import { expect, test } from "bun:test";
import { BUNDLED_PRICES } from "../money/price-list.ts";
import type { AccountRecord } from "../records/account.ts";
import { type GroupBilling, type GroupRecord, NO_BILLING } from "../records/group.ts";
import { NO_LIMITS } from "../records/limits.ts";
import type { ModelRecord } from "../records/model.ts";
import type { PolicyRecords } from "../records/policy.ts";
import { accountRecord, groupRecord, modelRecord } from "../records/records.test-support.ts";
import { openPricing } from "./pricing.ts";
import { compileSnapshot } from "./snapshot.ts";

const model = (change: Partial<ModelRecord> = {}) => modelRecord("fast", change);
const account = (id: string, change: Partial<AccountRecord> = {}) =>
  accountRecord(id, { name: id, models: { fast: "gpt-4o-mini" }, ...change });
const group = (billing: Partial<GroupBilling> = {}, change: Partial<GroupRecord> = {}) =>
  groupRecord("g1", {
    models: ["fast"],
    accounts: ["a1", "a2"],
    billing: { ...NO_BILLING, ...billing },
    ...change,
  });

function terms(of: Partial<PolicyRecords>, asked = model(), inGroup = group()) {
  return openPricing({ accounts: [account("a1"), account("a2")], ...of })(inGroup)(asked);
}
const source = (...args: Parameters<typeof terms>) => terms(...args).price?.source ?? null;

const updated = {
  date: "2026-11-01",
  models: { "gpt-4o-mini": { price: { input: "7" }, contextTokens: 5, outputTokensMax: 4 } },
};

test("price precedence is group, model, updated price list, bundled price list", () => {
  const own = model({ price: { input: "1" } });
  const special = group({ modelPrices: { fast: { input: "2" } } });
  expect(source({ priceList: updated }, own, special)).toBe("group");
  expect(source({ priceList: updated }, own)).toBe("model");
  expect(source({ priceList: updated })).toBe("updated list");
  expect(source({})).toBe("bundled list");
});

test("a price list is searched for the public name before the upstream name", () => {
  const named = model({ id: "gpt-4o" });
  const accounts = [account("a1", { models: { "gpt-4o": "gpt-4o-mini" } })];
  expect(terms({ accounts }, named).price?.listed?.name).toBe("gpt-4o");
  expect(terms({}).price?.listed).toEqual({ name: "gpt-4o-mini", date: BUNDLED_PRICES.date });
});

test("the upstream name is used only if all accounts that can serve the model agree on it", () => {
  const other = account("a2", { models: { fast: "my-deployment" } });
  expect(source({ accounts: [account("a1"), other] })).toBeNull();
  expect(source({ accounts: [account("a1"), { ...other, enabled: false }] })).toBeNull();
  expect(source({ accounts: [account("a1"), { ...other, interfaces: ["embeddings"] }] })).toBe(
    "bundled list",
  );
  expect(source({ accounts: [account("a1"), { ...other, models: {} }] })).toBe("bundled list");
});

test("the context size comes from the model record, otherwise from a price list", () => {
  expect(terms({})).toMatchObject({ contextTokens: 128_000, outputTokensMax: 16_384 });
  expect(terms({ priceList: updated })).toMatchObject({ contextTokens: 5, outputTokensMax: 4 });
  const configured = model({ contextTokens: 9, price: { input: "1" } });
  expect(terms({}, configured)).toMatchObject({ contextTokens: 9, outputTokensMax: 16_384 });
});

test("multipliers of the group and of the model are both in the tariff", () => {
  const dear = group({ multiplier: "1.5", modelMultipliers: { fast: "2" } });
  expect(terms({}, model(), dear).tariff?.multiplierTrillionths).toBe(3_000_000_000_000n);
});

function published(inGroup: GroupRecord, accounts = [account("a1", { models: { "*": "*" } })]) {
  const records = { models: [model()], accounts, groups: [inGroup] };
  const snapshot = compileSnapshot(records, { simulatorUrl: null, unseal: () => null });
  return [...(snapshot.groups.get("g1")?.models.values() ?? [])];
}

test("a model without a price is published only in groups that do not charge", () => {
  expect(published(group())).toMatchObject([{ id: "fast", tariff: null }]);
  expect(published(group({ charge: "balance" }))).toEqual([]);
  expect(published(group({ charge: "subscription" }))).toEqual([]);
  const windows = [{ perMs: 3_600_000, requests: null, tokens: null, nano: 5 }];
  expect(published(group({}, { limits: { ...NO_LIMITS, windows } }))).toEqual([]);
  const priced = group({ charge: "balance", modelPrices: { fast: { request: "0.01" } } });
  expect(published(priced)).toMatchObject([{ id: "fast", tariff: { multiplierTrillionths: 10n ** 12n } }]);
});
