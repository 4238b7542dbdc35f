import { expect, test } from "bun:test";
import { type GroupDocument, groupDocument, groupValues } from "./group-values.ts";

const GROUP: GroupDocument = {
  name: "team",
  access: "members",
  interfaces: ["chat", "images"],
  models: ["fast", "slow"],
  accounts: ["b", "a"],
  billing: {
    charge: "subscription",
    plans: ["pro"],
    multiplier: "1.5",
    model_multipliers: { slow: "2" },
    model_prices: { fast: { input: "1", output: "2" } },
  },
  limits: { rpm: 60, windows: [{ per: "1d", usd: "5.00" }] },
  group_limits: { concurrency: 8 },
  queue: { max_waiting: 10, timeout: "30s" },
  on_disconnect: "drain",
  websocket: false,
  fallback: [
    { group: "standard", when: ["busy", "failing"], max_price: "2.5", leave_after: "3s", stay: "10m" },
    { group: "standard", when: ["subscription_used"], pay: "balance" },
  ],
};

test("a group survives the round trip through its form", () => {
  expect(groupDocument(groupValues(GROUP))).toEqual(GROUP);
});

test("a group without on_disconnect keeps it unset", () => {
  const { on_disconnect: _, ...unsaid } = GROUP;
  expect(groupDocument(groupValues(unsaid))).toEqual(unsaid);
});

test("the settings of a model are removed with the model", () => {
  const { billing } = groupDocument({ ...groupValues(GROUP), models: [] });
  expect(billing).toEqual({ charge: "subscription", plans: ["pro"], multiplier: "1.5" });
});

test("plans are sent only for groups that charge subscriptions", () => {
  const { billing } = groupDocument({ ...groupValues(GROUP), charge: "balance" });
  expect(billing?.plans).toBeUndefined();
});
