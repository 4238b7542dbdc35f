import { expect, test } from "bun:test";
import { isPaid, type Wallet } from "./paid.ts";

const EMPTY: Wallet = { available: "0.00", payers: [] };

test("a group without charge needs no balance", () => {
  expect(isPaid({ name: "free", charge: "none" }, EMPTY)).toBe(true);
});

test("a balance pays while an amount is available", () => {
  const group = { name: "paying", charge: "balance" } as const;
  expect(isPaid(group, EMPTY)).toBe(false);
  expect(isPaid(group, { ...EMPTY, available: "0.000001" })).toBe(true);
});

test("a subscription pays in groups that accept its plan", () => {
  const payers = [
    { group: "team", charge: "subscription", plans: ["pro"], keys: 0 },
    { group: "lab", charge: "subscription", plans: [], keys: 0 },
  ] as const satisfies Wallet["payers"];
  expect(isPaid({ name: "team", charge: "subscription" }, { ...EMPTY, payers: [...payers] })).toBe(true);
  expect(isPaid({ name: "lab", charge: "subscription" }, { ...EMPTY, payers: [...payers] })).toBe(false);
});
