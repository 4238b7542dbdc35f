import { expect, test } from "bun:test";
import type { AccountRecord } from "../records/account.ts";
import { type GroupRecord, NO_BILLING } from "../records/group.ts";
import type { Interface } from "../records/interfaces.ts";
import { accountRecord, groupRecord, modelRecord } from "../records/records.test-support.ts";
import { isHidden, openPublicationChecks, type Shortcoming, unpricedPublications } from "./publication.ts";
import { compileSnapshot } from "./snapshot.ts";

const interfaces: Interface[] = ["chat", "images"];
const MODEL = modelRecord("fast", { interfaces });
const ACCOUNT = accountRecord("a", { interfaces });
const GROUP = groupRecord("g", { interfaces, models: ["fast"], accounts: ["a"] });

const CHARGING: Partial<GroupRecord> = { billing: { ...NO_BILLING, charge: "balance" } };

const CASES: [string, Partial<GroupRecord>, Partial<AccountRecord>, Shortcoming[]][] = [
  ["a complete publication has no shortcomings", {}, {}, []],
  ["the pool is empty", { accounts: [] }, {}, [{ kind: "no_account" }]],
  ["no account in the pool is enabled", {}, { enabled: false }, [{ kind: "no_account" }]],
  ["no account maps the model", {}, { models: { other: "x" } }, [{ kind: "unmapped" }]],
  [
    "group and model share no interface",
    { interfaces: ["responses"] },
    {},
    [{ kind: "no_shared_interface" }],
  ],
  [
    "one interface is supported by no account",
    {},
    { interfaces: ["chat"] },
    [{ kind: "unsupported_interface", interfaces: ["images"], all: false }],
  ],
  [
    "no interface is supported by any account",
    {},
    { interfaces: ["embeddings"] },
    [{ kind: "unsupported_interface", interfaces: ["chat", "images"], all: true }],
  ],
  ["one interface is supported by translation only", {}, { interfaces: ["responses", "images"] }, []],
  ["the group charges and there is no price", CHARGING, {}, [{ kind: "no_price" }]],
];

test.each(CASES)("%s", (_, groupChange, accountChange, expected) => {
  const group = { ...GROUP, ...groupChange };
  const records = { models: [MODEL], accounts: [{ ...ACCOUNT, ...accountChange }], groups: [group] };
  const [found] = openPublicationChecks(records)(group);
  expect(found?.shortcomings).toEqual(expected);
  // The models hidden by these shortcomings are those that the snapshot omits.
  const snapshot = compileSnapshot(records, { unseal: () => null, simulatorUrl: null });
  expect(snapshot.groups.get("g")?.models.has("fast")).toBe(!expected.some(isHidden));
});

test("lists publications without a price for groups that charge", () => {
  const groups = [GROUP, { ...GROUP, ...CHARGING, id: "h", name: "charging" }];
  expect(unpricedPublications({ models: [MODEL], accounts: [ACCOUNT], groups })).toEqual([
    { group: "charging", model: "fast" },
  ]);
});
