import { describe, expect, test } from "bun:test";
import type { FallbackStep } from "../records/fallback.ts";
import { NO_BILLING } from "../records/group.ts";
import type { PolicyRecords } from "../records/policy.ts";
import { accountRecord, groupRecord, modelRecord } from "../records/records.test-support.ts";
import { compileSnapshot, type PolicyGroup } from "./snapshot.ts";

const step = (change: Partial<FallbackStep>): FallbackStep => ({
  group: null,
  model: null,
  when: ["busy"],
  pay: null,
  maxPrice: null,
  leaveAfterMs: null,
  stayMs: null,
  ...change,
});

const PRICE = { input: "1", output: "2" };

function records(change: Partial<PolicyRecords> = {}): PolicyRecords {
  return {
    models: [
      modelRecord("fast", {
        price: PRICE,
        fallback: [step({ model: "slow", when: ["failing", "too_long"] })],
      }),
      modelRecord("slow", { price: PRICE, contextTokens: 9 }),
    ],
    accounts: [accountRecord("a1"), accountRecord("a2")],
    groups: [
      groupRecord("saver", {
        models: ["fast", "slow"],
        accounts: ["a1"],
        interfaces: ["chat", "responses"],
        queue: { maxWaiting: 1, timeoutMs: 5_000 },
        costHeaders: true,
        onDisconnect: null,
        fallback: [
          step({ group: "standard", maxPrice: "2.5", leaveAfterMs: 3_000, stayMs: 600_000 }),
          step({ group: "standard", pay: "balance", when: ["subscription_used"] }),
        ],
      }),
      groupRecord("standard", {
        models: ["fast", "slow"],
        accounts: ["a2"],
        onDisconnect: null,
        websocket: false,
        billing: { ...NO_BILLING, charge: "subscription", plans: ["pro"], multiplier: "3" },
        fallback: [step({ group: "last" })],
      }),
    ],
    ...change,
  };
}

function compile(change: Partial<PolicyRecords> = {}): PolicyGroup {
  const { groups } = compileSnapshot(records(change), { unseal: () => null, simulatorUrl: null });
  const group = groups.get("saver");
  if (group === undefined) throw new Error("the group is missing");
  return group;
}

const listChain = (group: PolicyGroup, model = "fast") => group.models.get(model)?.fallback ?? [];

test("the steps of the group come first, then those of the model in the same group", () => {
  const chain = listChain(compile());
  expect(chain.map(({ number, group, model }) => [number, group.id, model.id])).toEqual([
    [1, "standard", "fast"],
    [2, "standard", "fast"],
    [3, "saver", "slow"],
  ]);
  expect(chain.map(({ when }) => [...when])).toEqual([
    ["busy"],
    ["subscription_used"],
    ["failing", "too_long"],
  ]);
  expect(chain[0]).toMatchObject({ maxPriceMillionths: 2_500_000n, leaveAfterMs: 3_000, stayMs: 600_000 });
  expect(chain[2]?.model.contextTokens).toBe(9);
});

test("a step has accounts, price and payer of its group, and the rest of the key's group", () => {
  const [first, second, third] = listChain(compile());
  expect(first?.group).toMatchObject({
    id: "standard",
    billing: { charge: "subscription", plans: ["pro"] },
    queue: { maxWaiting: 1, timeoutMs: 5_000 },
    websocket: true,
    costHeaders: true,
    interfaces: new Set(["chat", "responses"]),
    onDisconnect: "drain",
  });
  expect(first?.model.routes.get("chat")?.map(({ account }) => account.id)).toEqual(["a2"]);
  expect(first?.model.tariff?.multiplierTrillionths).toBe(3_000_000_000_000n);
  expect(second?.group.billing.charge).toBe("balance");
  expect(third?.group.billing.charge).toBe("none");
  expect(third?.model.routes.get("chat")?.map(({ account }) => account.id)).toEqual(["a1"]);
});

test("a step is not followed further", () => {
  for (const { model } of listChain(compile())) expect(model.fallback).toEqual([]);
});

test("a request takes at most four steps", () => {
  const [saver, standard] = records().groups;
  if (saver === undefined || standard === undefined) throw new Error("the groups are missing");
  const four = Array.from({ length: 4 }, () => step({ group: "standard" }));
  expect(listChain(compile({ groups: [{ ...saver, fallback: four }, standard] }))).toHaveLength(4);
});

describe("a step is left out, and the others keep their numbers, if", () => {
  const numbers = (change: Partial<PolicyRecords>) => listChain(compile(change)).map(({ number }) => number);
  const change = (id: string, fields: Partial<PolicyRecords["groups"][number]>) =>
    records().groups.map((group) => (group.id === id ? { ...group, ...fields } : group));

  test("its group does not exist, or does not publish the model", () => {
    expect(numbers({ groups: change("standard", { id: "other" }) })).toEqual([3]);
    expect(numbers({ groups: change("standard", { models: ["slow"] }) })).toEqual([3]);
    expect(numbers({ groups: change("saver", { models: ["fast"] }) })).toEqual([1, 2]);
  });

  test("it charges and has no price", () => {
    const models = ["fast", "slow"].map((id) => modelRecord(id));
    expect(numbers({ models })).toEqual([]);
    const groups = change("standard", { billing: NO_BILLING });
    expect(numbers({ models, groups })).toEqual([1]);
  });

  test("the request policy of the key, or of its own group, excludes the model", () => {
    const policy = (name: string, models: string[]) => ({
      name,
      selfService: false,
      rules: { models },
      createdAtMs: 1,
    });
    const requestPolicies = [policy("fast only", ["fast"]), policy("slow only", ["slow"])];
    expect(numbers({ requestPolicies, groups: change("standard", { requestPolicy: "slow only" }) })).toEqual([
      3,
    ]);
    expect(
      listChain(compile({ requestPolicies }).tightenedBy("fast only")).map(({ number }) => number),
    ).toEqual([1, 2]);
    expect(numbers({ groups: change("standard", { requestPolicy: "gone" }) })).toEqual([3]);
  });
});

test("the request policy of a step is the intersection with that of the key", () => {
  const policy = (name: string, max: number) => ({
    name,
    selfService: false,
    rules: { output_tokens: { max } },
    createdAtMs: 1,
  });
  const groups = records().groups.map((group) =>
    group.id === "standard" ? { ...group, requestPolicy: "wide" } : group,
  );
  const group = compile({ groups, requestPolicies: [policy("wide", 900), policy("narrow", 100)] });
  expect(listChain(group)[0]?.group.requestPolicy?.body?.outputTokens?.max).toBe(900);
  const [first] = listChain(group.tightenedBy("narrow"));
  expect(first?.group.requestPolicy?.names).toEqual(["narrow", "wide"]);
  expect(first?.group.requestPolicy?.body?.outputTokens?.max).toBe(100);
});

test("groups and models without fallback share one empty list", () => {
  const plain = compile({
    models: [modelRecord("fast"), modelRecord("slow")],
    groups: [groupRecord("saver", { models: ["fast", "slow"], accounts: ["a1"] })],
  });
  expect(listChain(plain)).toBe(listChain(plain, "slow"));
});
