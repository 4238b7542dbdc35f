/** The work for a push grows no faster than its size. */

import { expect, test } from "bun:test";
import { limits } from "../../src/config/limits/product-limits.ts";
import { patchGroup } from "../../src/scim/group.ts";
import { readOperations } from "../../src/scim/patch.ts";
import { patchUser, readUser } from "../../src/scim/user.ts";
import { measureOwnWork } from "./own-work.ts";

const FACTOR = 8;
/** Of three doublings. Quadratic work grows by 64. */
const GROWTH_MAX = 2.6 ** 3;
const NOISE_MS = 1.5;
const RUNS = 7;
/** A name of a user or of an operation, about. */
const ENTRY_BYTES = 64;

interface Push {
  readonly name: string;
  readonly size: number;
  readonly work: (size: number) => unknown;
}

function growth({ name, size, work }: Push): number {
  const measure = (count: number) =>
    measureOwnWork(`${count} × ${name}`, { bytes: count * ENTRY_BYTES, runs: RUNS, run: () => work(count) });
  const small = Math.max(NOISE_MS, measure(size / FACTOR));
  return measure(size) / small;
}

const { operationsMax, membersMax, emailsMax } = limits.scim;
const members = (size: number) => new Set(Array.from({ length: size }, (_, i) => `user_${i}`));
const patch = (Operations: unknown[]) => readOperations({ Operations });

test("removing members one by one is linear in the operations, whatever the size of the group", () => {
  const group = { externalId: null, displayName: "g", members: members(membersMax) };
  const remove = (size: number) =>
    patchGroup(
      group,
      patch(
        Array.from({ length: size }, (_, i) => ({ op: "remove", path: `members[value eq "user_${i}"]` })),
      ),
    );
  expect(remove(operationsMax).members.size).toBe(membersMax - operationsMax);
  expect(growth({ name: "removing a member", size: operationsMax, work: remove })).toBeLessThan(GROWTH_MAX);
});

test("adding members is linear", () => {
  const group = { externalId: null, displayName: "g", members: new Set<string>() };
  const add = (size: number) =>
    patchGroup(
      group,
      patch([{ op: "add", path: "members", value: [...members(size)].map((value) => ({ value })) }]),
    );
  expect(add(membersMax).members.size).toBe(membersMax);
  expect(growth({ name: "adding a member", size: membersMax, work: add })).toBeLessThan(GROWTH_MAX);
});

test("changing addresses is linear in the operations", () => {
  const user = { ...readUser({ userName: "ada" }), isActive: true };
  const change = (size: number) =>
    patchUser(
      user,
      patch(
        Array.from({ length: size }, (_, i) => ({
          op: "replace",
          path: `emails[type eq "t${i % emailsMax}"].value`,
          value: `a${i}@example.com`,
        })),
      ),
    );
  expect(change(operationsMax).profile.emails).toHaveLength(emailsMax);
  expect(growth({ name: "changing an address", size: operationsMax, work: change })).toBeLessThan(GROWTH_MAX);
});

test("more addresses, operations or members than allowed are rejected while they are read", () => {
  const user = { ...readUser({ userName: "ada" }), isActive: true };
  const emails = Array.from({ length: operationsMax }, (_, i) => ({
    op: "add",
    path: "emails",
    value: [{ value: `a${i}@example.com` }],
  }));
  expect(() => patchUser(user, patch(emails))).toThrow("more than");
  const value = Object.fromEntries(Array.from({ length: operationsMax + 1 }, (_, i) => [`a${i}`, i]));
  expect(() => patch([{ op: "add", value }])).toThrow("more than");
  const group = { externalId: null, displayName: "g", members: members(membersMax) };
  expect(() => patchGroup(group, patch([{ op: "add", path: "members", value: [{ value: "x" }] }]))).toThrow(
    "more than",
  );
});
