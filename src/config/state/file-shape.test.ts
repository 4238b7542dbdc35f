/** What holds for every declared field of models, accounts, groups and keys, also for fields that are added later. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { ACCOUNT_FIELDS } from "../../records/account.ts";
import type { FallbackStep } from "../../records/fallback.ts";
import type { Field, FieldMap } from "../../records/fields.ts";
import { DEFAULT_QUEUE, GROUP_FIELDS, NO_BILLING } from "../../records/group.ts";
import { KEY_FIELDS } from "../../records/key.ts";
import { NO_LIMITS, NO_RATE_LIMITS } from "../../records/limits.ts";
import { MODEL_FIELDS } from "../../records/model.ts";
import type { FieldTypes } from "../../records/policy.ts";
import {
  accountRecord,
  type groupRecord,
  modelRecord,
  userRecord,
} from "../../records/records.test-support.ts";
import { type Db, openDb } from "../../store/engine/db.ts";
import { migrate } from "../../store/engine/migrate.ts";
import { putUser } from "../../store/identity/users.ts";
import { listAccounts, putAccount } from "../../store/policy/accounts.ts";
import { listGroups, putGroup } from "../../store/policy/groups.ts";
import { insertKey, listKeys } from "../../store/policy/keys.ts";
import { listModels, putModel } from "../../store/policy/models.ts";
import { putRequestPolicy } from "../../store/policy/request-policies.ts";
import { gatewayFile } from "../schema/schema.ts";
import { changedFields } from "./difference.ts";
import { ACCOUNT_SHAPE, GROUP_SHAPE, KEY_SHAPE, MODEL_SHAPE } from "./file-shape.ts";

type Sample<Kind extends keyof FieldTypes> = (
  field: Field<FieldTypes[Kind]>,
) => [FieldTypes[Kind], FieldTypes[Kind]];

const STEP: FallbackStep = {
  group: null,
  model: null,
  when: ["busy"],
  pay: "balance",
  maxPrice: "2.5",
  leaveAfterMs: 3_000,
  stayMs: 600_000,
};

/** Two values of each kind. The first is the default, if there is one. */
const SAMPLES: { readonly [Kind in keyof FieldTypes]: Sample<Kind> } = {
  identity: () => ["same", "same"],
  text: () => ["one", "two"],
  address: () => ["", "https://two.example/v1"],
  optionalText: () => [null, "two"],
  integer: () => [1, 2],
  optionalInteger: () => [null, 2],
  optionalTime: () => [null, Date.parse("2030-01-31T12:00:00Z")],
  flag: ({ default: byDefault = false }) => [byDefault, !byDefault],
  choice: ({ values = [], default: byDefault }) => {
    const [first, second] = values;
    if (first === undefined || second === undefined) throw new Error("a choice has two values");
    return [byDefault ?? first, second];
  },
  optionalChoice: ({ values = [] }) => [null, values[0] ?? null],
  interfaces: () => [["chat"], ["chat", "images"]],
  members: () => [[], ["two"]],
  textMap: () => [{ a: "one" }, { a: "two" }],
  profile: () => [null, { pdf: true, system_role: "user" }],
  price: () => [null, { input: "0.15", output: "0.60" }],
  rateLimits: () => [NO_RATE_LIMITS, { ...NO_RATE_LIMITS, rpm: 60 }],
  callerLimits: () => [
    NO_LIMITS,
    {
      ...NO_LIMITS,
      tpm: 60,
      windows: [{ perMs: 18_000_000, requests: 9, tokens: null, nano: 5_000_000_000 }],
    },
  ],
  queue: () => [DEFAULT_QUEUE, { maxWaiting: 5, timeoutMs: 1_000 }],
  groupFallback: () => [[], [{ ...STEP, group: "two" }]],
  modelFallback: () => [[], [{ ...STEP, model: "two" }]],
  keyFallback: () => [null, "deny"],
  billing: () => [
    NO_BILLING,
    { ...NO_BILLING, charge: "balance", multiplier: "2", modelPrices: { two: { input: "1" } } },
  ],
};

/** Fields whose rule in the file allows only certain texts. */
const ALLOWED_TEXTS: Readonly<Record<string, string>> = {
  vendor: "deepseek",
  apiVersion: "2024-10-21",
  region: "us-east-1",
  project: "my-project",
  userId: "two@example.com",
};

function sample(name: string, field: Field<unknown>, which: 0 | 1): unknown {
  const build = SAMPLES[field.kind as keyof FieldTypes] as (field: Field<unknown>) => unknown[];
  return which === 1 && name in ALLOWED_TEXTS ? ALLOWED_TEXTS[name] : build(field)[which];
}

function buildRecord(fields: FieldMap, which: 0 | 1): never {
  return Object.fromEntries(
    Object.entries(fields).map(([name, field]) => [name, sample(name, field, which)]),
  ) as never;
}

const { models, accounts, groups, keys } = gatewayFile.shape;

describe.each([
  ["model", MODEL_FIELDS, MODEL_SHAPE, models.unwrap().element],
  ["account", ACCOUNT_FIELDS, ACCOUNT_SHAPE, accounts.unwrap().element],
  ["group", GROUP_FIELDS, GROUP_SHAPE, groups.unwrap().element],
  ["key", KEY_FIELDS, KEY_SHAPE, keys.unwrap().element],
] as const)("the fields of a %s", (_, fields: FieldMap, shape, schema) => {
  const inFile = Object.entries(fields).filter(([, { file }]) => file !== null);

  test.each([0, 1] as const)("are the same after a round trip through the file (%d)", (which) => {
    const record: Record<string, unknown> = buildRecord(fields, which);
    const written = shape.write(record as never);
    const parsed = shape.parse(schema.parse(written) as never);
    expect(parsed as object).toEqual(Object.fromEntries(inFile.map(([name]) => [name, record[name]])));
  });

  test("are left out of the file if they have their default", () => {
    const written = Object.keys(shape.write(buildRecord(fields, 0)));
    const withDefault = inFile.filter(([, field]) => field.default !== undefined);
    expect(written).toHaveLength(inFile.length - withDefault.length);
  });

  test.each(inFile.filter(([, { kind }]) => kind !== "identity"))("show a change of %s", (name, field) => {
    const before: Record<string, unknown> = buildRecord(fields, 0);
    const after = { ...before, [name]: sample(name, field, 1) };
    const changes = changedFields(shape.format(before as never), shape.format(after as never));
    expect(changes.length).toBeGreaterThan(0);
  });
});

describe("every field is the same after a round trip through the database", () => {
  let db: Db;
  beforeAll(async () => {
    db = await openDb("sqlite::memory:");
    await migrate(db);
  });
  afterAll(() => db.close());

  test("models, accounts, groups and keys", async () => {
    await putModel(db, { ...modelRecord("two"), createdAtMs: 1 });
    await putAccount(db, accountRecord("two"));
    await putUser(db, userRecord("two@example.com"));
    await putRequestPolicy(db, { name: "two", selfService: true, rules: {}, createdAtMs: 1 });
    const second = { id: "record", createdAtMs: 3 };

    const model = { ...(buildRecord(MODEL_FIELDS, 1) as ReturnType<typeof modelRecord>), ...second };
    await putModel(db, model);
    expect((await listModels(db)).at(-1)).toEqual(model);

    const account = { ...(buildRecord(ACCOUNT_FIELDS, 1) as ReturnType<typeof accountRecord>), ...second };
    await putAccount(db, account);
    expect((await listAccounts(db)).at(-1)).toEqual(account);

    const group = { ...(buildRecord(GROUP_FIELDS, 1) as ReturnType<typeof groupRecord>), id: "two" };
    await putGroup(db, group);
    expect(await listGroups(db)).toEqual([group]);

    const key = buildRecord(KEY_FIELDS, 1);
    await insertKey(db, key);
    expect(await listKeys(db)).toEqual([key]);
  });
});
