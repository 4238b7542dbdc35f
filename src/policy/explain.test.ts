import { describe, expect, test } from "bun:test";
import type { AccountRecord } from "../records/account.ts";
import { NO_BILLING } from "../records/group.ts";
import type { KeyRecord } from "../records/key.ts";
import type { PolicyRecords } from "../records/policy.ts";
import { accountRecord, groupRecord, keyRecord, modelRecord } from "../records/records.test-support.ts";
import { type Explanation, explainAccess } from "./explain.ts";
import { explainFallback } from "./explain-fallback.ts";

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

const rejectedBy = ({ steps }: Explanation) => steps.find(({ ok }) => !ok)?.text ?? null;

test("explaining fallback lists a step that comes after the last one that requests take", () => {
  const step = {
    group: null,
    model: null,
    when: [],
    pay: null,
    maxPrice: null,
    leaveAfterMs: null,
    stayMs: null,
  };
  const records = {
    models: [modelRecord("fast", { fallback: [{ ...step, model: "slow" }] }), modelRecord("slow")],
    accounts: [],
    groups: [
      groupRecord("g1", { models: ["fast", "slow"], fallback: Array(4).fill({ ...step, group: "g1" }) }),
    ],
  };
  const steps = explainFallback(records, { ...KEY, groupId: "g1" }, "fast", "chat");
  expect(steps.map(({ number, obstacle }) => [number, obstacle])).toContainEqual([5, "too_many_steps"]);
  expect(steps.filter(({ obstacle }) => obstacle === "too_many_steps")).toHaveLength(1);
});

describe("explaining an allowed model", () => {
  test("lists each check that a request passes", () => {
    const { allowed, steps, accounts } = explain();
    expect(allowed).toBe(true);
    expect(steps).toEqual([
      { ok: true, reason: "key_active", text: "the key is active" },
      { ok: true, reason: "group_found", text: "the key belongs to group team" },
      { ok: true, reason: "interface_included", text: "the group includes chat" },
      { ok: true, reason: "model_published", text: "the group publishes fast" },
      { ok: true, reason: "model_serves_interface", text: "the model supports chat" },
      { ok: true, reason: "account_serves", text: "1 of 1 accounts of the group can serve the model" },
    ]);
    expect(accounts).toEqual([
      { name: "first", upstreamModel: "gpt-6", reason: null, translation: null, priority: 1, weight: 2 },
    ]);
  });

  test("a key that has not expired yet is active", () => {
    expect(explain({}, { expiresAtMs: NOW_MS + 1 }).allowed).toBe(true);
  });

  test("a model matched by a wildcard is sent under its own name", () => {
    const accounts = [account("first", { models: { "fa*": "upstream-*" } })];
    expect(explain({ accounts }).accounts[0]?.upstreamModel).toBe("upstream-st");
  });
});

describe("explaining a rejected model", () => {
  test.each<[string, Partial<PolicyRecords>, Partial<KeyRecord>, string]>([
    ["the key is revoked", {}, { status: "revoked" }, "fast"],
    ["the key has expired", {}, { expiresAtMs: NOW_MS }, "fast"],
    ["the group of the key no longer exists", { groups: [] }, {}, "fast"],
    ["the group does not include chat", { groups: [{ ...GROUP, interfaces: ["images"] }] }, {}, "fast"],
    ["the group does not publish fast", { groups: [{ ...GROUP, models: [] }] }, {}, "fast"],
    ["the model nonsense does not exist", {}, {}, "nonsense"],
    ["the model does not support chat", { models: [{ ...MODEL, interfaces: ["images"] }] }, {}, "fast"],
    [
      "fast has no price, and the group charges for requests",
      { groups: [{ ...GROUP, billing: { ...NO_BILLING, charge: "balance" } }] },
      {},
      "fast",
    ],
    ["no account of the group maps the model and supports the interface", { accounts: [] }, {}, "fast"],
  ])("%s", (expectedReason, change, key, model) => {
    const explanation = explain(change, key, model);
    expect(explanation.allowed).toBe(false);
    expect(rejectedBy(explanation)).toBe(expectedReason);
  });

  test("an account without the interface serves it by translation, which the explanation names", () => {
    const accounts = [account("first", { interfaces: ["responses"] })];
    expect(explain({ accounts })).toMatchObject({
      allowed: true,
      accounts: [{ name: "first", reason: null, translation: "responses" }],
    });
  });

  test("lists what each account of the pool lacks", () => {
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
