import { describe, expect, test } from "bun:test";
import { accountRecord, groupRecord, keyRecord, modelRecord } from "../records.test-support.ts";
import { type AccountRecord, type KeyRecord, NO_BILLING, type PolicyRecords } from "../records.ts";
import { type Explanation, explainAccess } from "./explain.ts";

const NOW_MS = 1_000_000;

const MODEL = modelRecord("fast", { interfaces: ["chat", "responses"] });
const account = (name: string, change: Partial<AccountRecord> = {}) =>
  accountRecord(`id of ${name}`, { name, weight: 2, models: { fast: "gpt-6" }, ...change });
const GROUP = groupRecord("g1", {
  name: "team",
  interfaces: ["chat", "responses"],
  models: ["fast"],
  accounts: ["id of first"],
});
const KEY = keyRecord("k1");

function explain(
  change: Partial<PolicyRecords> = {},
  key: Partial<KeyRecord> = {},
  model = "fast",
): Explanation {
  const records = { models: [MODEL], accounts: [account("first")], groups: [GROUP], ...change };
  return explainAccess(records, { ...KEY, ...key }, model, "chat", NOW_MS);
}

const refusedBy = ({ steps }: Explanation) => steps.find(({ ok }) => !ok)?.text ?? null;

describe("why a key may call a model", () => {
  test("each step that a request passes is told", () => {
    const { allowed, steps, accounts } = explain();
    expect(allowed).toBe(true);
    expect(steps).toEqual([
      { ok: true, reason: "key_active", text: "the key is active" },
      { ok: true, reason: "group_found", text: "its group is team" },
      { ok: true, reason: "interface_included", text: "the group includes chat" },
      { ok: true, reason: "model_published", text: "the group publishes fast" },
      { ok: true, reason: "model_serves_interface", text: "the model serves chat" },
      { ok: true, reason: "account_serves", text: "1 of 1 accounts in the pool can serve it" },
    ]);
    expect(accounts).toEqual([
      { name: "first", upstreamModel: "gpt-6", reason: null, priority: 1, weight: 2 },
    ]);
  });

  test("a key that has not expired yet is active", () => {
    expect(explain({}, { expiresAtMs: NOW_MS + 1 }).allowed).toBe(true);
  });

  test("a model of a wildcard is sent under its own name", () => {
    const accounts = [account("first", { models: { "fa*": "upstream-*" } })];
    expect(explain({ accounts }).accounts[0]?.upstreamModel).toBe("upstream-st");
  });
});

describe("why a key may not call a model", () => {
  test.each<[string, Partial<PolicyRecords>, Partial<KeyRecord>, string]>([
    ["the key was revoked", {}, { status: "revoked" }, "fast"],
    ["the key has expired", {}, { expiresAtMs: NOW_MS }, "fast"],
    ["its group no longer exists", { groups: [] }, {}, "fast"],
    ["the group does not include chat", { groups: [{ ...GROUP, interfaces: ["images"] }] }, {}, "fast"],
    ["the group does not publish fast", { groups: [{ ...GROUP, models: [] }] }, {}, "fast"],
    ["there is no model nonsense", {}, {}, "nonsense"],
    ["the model does not serve chat", { models: [{ ...MODEL, interfaces: ["images"] }] }, {}, "fast"],
    [
      "nobody has said a price for fast, which the group needs to charge it",
      { groups: [{ ...GROUP, billing: { ...NO_BILLING, charge: "balance" } }] },
      {},
      "fast",
    ],
    ["no account in the pool maps the model and speaks the interface", { accounts: [] }, {}, "fast"],
  ])("%s", (told, change, key, model) => {
    const explanation = explain(change, key, model);
    expect(explanation.allowed).toBe(false);
    expect(refusedBy(explanation)).toBe(told);
  });

  test("each account of the pool says what it lacks", () => {
    const names = ["off", "mute", "other", "outside"];
    const { accounts, allowed } = explain({
      accounts: [
        account("off", { enabled: false }),
        account("mute", { interfaces: ["images"] }),
        account("other", { models: { slow: "gpt-5" } }),
        account("outside"),
      ],
      groups: [{ ...GROUP, accounts: names.slice(0, 3).map((name) => `id of ${name}`) }],
    });
    expect(allowed).toBe(false);
    expect(accounts.map(({ name, reason }) => [name, reason])).toEqual([
      ["off", "disabled"],
      ["mute", "no_interface"],
      ["other", "no_model"],
    ]);
  });
});
