import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import type { AccountRecord } from "../../records/account.ts";
import { DEFAULT_QUEUE, type GroupRecord } from "../../records/group.ts";
import type { KeyRecord } from "../../records/key.ts";
import { NO_LIMITS, NO_RATE_LIMITS } from "../../records/limits.ts";
import type { ModelRecord } from "../../records/model.ts";
import { accountRecord, groupRecord } from "../../records/records.test-support.ts";
import type { UserRecord } from "../../records/user.ts";
import { StoreConflict, type StoreConflictReason } from "../engine/conflict.ts";
import { type Db, transaction } from "../engine/db.ts";
import { readRevisions } from "../engine/revisions.ts";
import { deleteUser, findUser, findUserByEmail, listUsers, putUser } from "../identity/users.ts";
import { deleteAccount, putAccount } from "./accounts.ts";
import { deleteGroup, putGroup } from "./groups.ts";
import { insertKey, revokeKey } from "./keys.ts";
import { deleteModel, putModel } from "./models.ts";
import { readPolicy } from "./policy.ts";

const model = (id: string): ModelRecord => ({
  id,
  interfaces: ["chat", "responses"],
  price: { input: "0.15", output: "0.60" },
  contextTokens: 400_000,
  outputTokensMax: null,
  fallback: [],
  createdAtMs: 1_794_000_000_000,
});
const account = (id: string): AccountRecord =>
  accountRecord(id, {
    kind: "azure",
    baseUrl: "https://example.com/v1",
    sealedCredential: "v1:k:abc",
    websocket: true,
    apiVersion: "2025-01-01",
    privateNetwork: true,
    weight: 3,
    models: { "gpt-*": "gpt-*", 'fast "chat"': "x" },
    limits: { ...NO_RATE_LIMITS, concurrency: 50, tpm: 200_000 },
    enabled: false,
    createdAtMs: 1_794_000_000_000,
  });
const group = (id: string, models: string[], accounts: string[]): GroupRecord =>
  groupRecord(id, {
    interfaces: ["chat", "images"],
    models,
    accounts,
    access: "members",
    onDisconnect: "drain",
    costHeaders: true,
    capture: "errors",
    websocket: false,
    limits: { ...NO_LIMITS, rpm: 60 },
    groupLimits: {
      ...NO_LIMITS,
      windows: [{ perMs: 18_000_000, requests: 9, tokens: 99, nano: 5_000_000_001 }],
    },
    queue: { maxWaiting: 0, timeoutMs: 5_000 },
    createdAtMs: 1_794_000_000_000,
  });
const user = (id: string, email: string): UserRecord => ({
  id,
  email,
  role: "admin",
  status: "active",
  passwordHash: null,
  groups: [],
  limits: { ...NO_LIMITS, concurrency: 2 },
  createdAtMs: 1_794_000_000_000,
});
const key = (id: string, groupId: string, userId: string | null): KeyRecord => ({
  id,
  name: `name of ${id}`,
  userId,
  groupId,
  digest: `digest of ${id}`,
  publicId: `pub-${id}`,
  last4: "last",
  status: "active",
  expiresAtMs: null,
  limits: NO_LIMITS,
  requestPolicy: null,
  fallback: null,
  createdAtMs: 1_794_000_000_000,
  revokedAtMs: null,
});

async function catchConflict(attempt: Promise<unknown>): Promise<[StoreConflictReason, string] | null> {
  try {
    await attempt;
    return null;
  } catch (error) {
    if (error instanceof StoreConflict) return [error.reason, error.message];
    throw error;
  }
}

async function seed(db: Db): Promise<void> {
  for (const id of ["m1", "m2", "m3"]) await putModel(db, model(id));
  for (const id of ["a1", "a2"]) await putAccount(db, account(id));
  await putGroup(db, group("g1", ["m3", "m1"], ["a2", "a1"]));
}

eachEngine(({ open }) => {
  test("records are read back as written, with members in the configured order", async () => {
    const db = await open();
    await seed(db);
    expect(await readPolicy(db)).toEqual({
      models: [model("m1"), model("m2"), model("m3")],
      accounts: [account("a1"), account("a2")],
      groups: [group("g1", ["m3", "m1"], ["a2", "a1"])],
      priceList: null,
      requestPolicies: [],
      toolSignIn: null,
    });
  });

  test("absent values are read back as null", async () => {
    const db = await open();
    const bare = {
      ...account("a1"),
      sealedCredential: null,
      apiVersion: null,
      baseUrl: "",
    };
    await putAccount(db, bare);
    await putModel(db, { ...model("m1"), price: null });
    const { models, accounts } = await readPolicy(db);
    expect(accounts).toEqual([bare]);
    expect(models[0]?.price).toBeNull();
  });

  test("writing again updates the record in place", async () => {
    const db = await open();
    await seed(db);
    await putModel(db, { ...model("m1"), interfaces: ["embeddings"], price: null });
    const renamed = { ...account("a1"), name: "renamed", enabled: true, weight: 9, limits: NO_RATE_LIMITS };
    await putAccount(db, renamed);
    const changed = {
      access: "everyone",
      onDisconnect: "cancel",
      costHeaders: true,
      capture: "errors",
      websocket: true,
      limits: NO_LIMITS,
      groupLimits: NO_LIMITS,
      queue: DEFAULT_QUEUE,
    } as const;
    await putGroup(db, { ...group("g1", ["m2"], []), ...changed });
    const { models, accounts, groups } = await readPolicy(db);
    expect(models[0]).toEqual({ ...model("m1"), interfaces: ["embeddings"], price: null });
    expect(accounts[0]).toEqual(renamed);
    expect(groups).toEqual([{ ...group("g1", ["m2"], []), ...changed }]);
  });

  test("a group can publish hundreds of models", async () => {
    const db = await open();
    const ids = Array.from({ length: 250 }, (_, index) => `m${index}`);
    await transaction(db, async (tx) => {
      for (const id of ids) await putModel(tx, model(id));
    });
    await putGroup(db, group("g1", ids.toReversed(), []));
    expect((await readPolicy(db)).groups[0]?.models).toEqual(ids.toReversed());
  });

  test("every policy write increases the policy revision, and not the key revision", async () => {
    const db = await open();
    const writes = [
      () => putModel(db, model("m1")),
      () => putAccount(db, account("a1")),
      () => putGroup(db, group("g1", ["m1"], ["a1"])),
      () => deleteGroup(db, "g1"),
      () => deleteAccount(db, "a1"),
      () => deleteModel(db, "m1"),
    ];
    for (const write of writes) {
      const before = await readRevisions(db);
      await write();
      expect(await readRevisions(db)).toEqual({ policy: before.policy + 1, keys: before.keys });
    }
  });

  test("a failed write does not increase the revision", async () => {
    const db = await open();
    await seed(db);
    const before = await readRevisions(db);
    await catchConflict(deleteModel(db, "m1"));
    expect(await readRevisions(db)).toEqual(before);
  });

  test("a published model cannot be deleted, and the error names the group", async () => {
    const db = await open();
    await seed(db);
    expect(await catchConflict(deleteModel(db, "m1"))).toEqual([
      "referenced",
      'The model "m1" is still published by group "name of g1".',
    ]);
    expect(await deleteModel(db, "m2")).toBe(true);
    expect(await deleteModel(db, "m2")).toBe(false);
  });

  test("an account in a pool cannot be deleted, and the error names the first groups", async () => {
    const db = await open();
    await seed(db);
    for (const id of ["g2", "g3", "g4", "g5"]) await putGroup(db, group(id, [], ["a1"]));
    const [reason, message] = (await catchConflict(deleteAccount(db, "a1"))) ?? [];
    expect(reason).toBe("referenced");
    expect(message).toContain('group "name of g1"');
    expect(message).toContain("and 2 more");
  });

  test("a group with a key cannot be deleted until the key is revoked", async () => {
    const db = await open();
    await seed(db);
    await insertKey(db, key("k1", "g1", null));
    const conflict = await catchConflict(deleteGroup(db, "g1"));
    expect(conflict).toEqual(["referenced", 'The group "g1" still has key "name of k1".']);
    await revokeKey(db, "k1", 5);
    expect(await deleteGroup(db, "g1")).toBe(true);
    expect(await deleteGroup(db, "g1")).toBe(false);
    expect(await deleteModel(db, "m1")).toBe(true);
  });

  test("a group cannot name unknown records, nor one record twice", async () => {
    const db = await open();
    await seed(db);
    const [reason, message] = (await catchConflict(putGroup(db, group("g2", ["m1", "nope"], [])))) ?? [];
    expect(reason).toBe("missing");
    expect(message).toContain('model "nope"');
    expect((await catchConflict(putGroup(db, group("g2", [], ["nope"]))))?.[0]).toBe("missing");
    expect((await catchConflict(putGroup(db, group("g2", ["m1", "m1"], []))))?.[0]).toBe("duplicate");
    expect((await readPolicy(db)).groups).toHaveLength(1);
  });

  test("names of accounts and groups are unique", async () => {
    const db = await open();
    await seed(db);
    const taken = await catchConflict(putAccount(db, { ...account("a3"), name: "name of a1" }));
    expect(taken).toEqual(["duplicate", 'Another account is already named "name of a1".']);
    expect((await catchConflict(putGroup(db, { ...group("g2", [], []), name: "name of g1" })))?.[0]).toBe(
      "duplicate",
    );
  });

  test("a conflict within a larger transaction does not undo the rest of it", async () => {
    const db = await open();
    await seed(db);
    await transaction(db, async (tx) => {
      await putModel(tx, model("m4"));
      await catchConflict(putAccount(tx, { ...account("a3"), name: "name of a1" }));
      await putModel(tx, model("m5"));
    });
    expect((await readPolicy(db)).models.map(({ id }) => id)).toEqual(["m1", "m2", "m3", "m4", "m5"]);
  });

  test("a column with an invalid value is rejected by name", async () => {
    const db = await open();
    await seed(db);
    await db.sql`UPDATE model SET interfaces = '["telepathy"]' WHERE id = 'm2'`;
    const error = await readPolicy(db).catch((reason: unknown) => reason);
    expect(String(error)).toContain("interfaces of row m2");
  });

  test("a user is found by e-mail address in any case, and the address is unique", async () => {
    const db = await open();
    await putUser(db, user("u1", "Ops@Example.com"));
    expect(await findUserByEmail(db, "ops@example.COM")).toEqual(user("u1", "Ops@Example.com"));
    expect(await findUserByEmail(db, "nobody@example.com")).toBeNull();
    expect((await catchConflict(putUser(db, user("u2", "OPS@example.com"))))?.[0]).toBe("duplicate");
    await putUser(db, { ...user("u1", "ops@example.org"), role: "user", passwordHash: "hash" });
    expect(await listUsers(db)).toEqual([
      { ...user("u1", "ops@example.org"), role: "user", passwordHash: "hash" },
    ]);
  });

  test("a user is a member of existing groups, in the written order", async () => {
    const db = await open();
    await seed(db);
    await putGroup(db, group("g2", [], []));
    const member = { ...user("u1", "a@example.com"), groups: ["g2", "g1"] };
    await putUser(db, member);
    expect(await findUser(db, "u1")).toEqual(member);
    expect(await findUserByEmail(db, "a@example.com")).toEqual(member);
    expect(await listUsers(db)).toEqual([member]);
    expect(await catchConflict(putUser(db, { ...member, groups: ["g3"] }))).toEqual([
      "missing",
      'The user "a@example.com" is a member of group "g3", which does not exist.',
    ]);
    expect((await catchConflict(putUser(db, { ...member, groups: ["g1", "g1"] })))?.[0]).toBe("duplicate");
    await deleteGroup(db, "g2");
    expect((await findUser(db, "u1"))?.groups).toEqual(["g1"]);
    expect(await deleteUser(db, "u1")).toBe(true);
    expect(await deleteGroup(db, "g1")).toBe(true);
  });

  test("a user with a key cannot be deleted until the key is revoked", async () => {
    const db = await open();
    await seed(db);
    await putUser(db, user("u1", "a@example.com"));
    await insertKey(db, key("k1", "g1", "u1"));
    expect(await catchConflict(deleteUser(db, "u1"))).toEqual([
      "referenced",
      'The user "u1" still has key "name of k1".',
    ]);
    await revokeKey(db, "k1", 5);
    expect(await deleteUser(db, "u1")).toBe(true);
    expect(await deleteUser(db, "u1")).toBe(false);
  });
});
