import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import type { KeyRecord } from "../../records/key.ts";
import { type CallerLimits, NO_LIMITS } from "../../records/limits.ts";
import { groupRecord, keyRecord } from "../../records/records.test-support.ts";
import type { UserRecord } from "../../records/user.ts";
import { type Db, transaction } from "../engine/db.ts";
import { readRevisions } from "../engine/revisions.ts";
import { putUser } from "../identity/users.ts";
import { deleteGroup, putGroup } from "./groups.ts";
import {
  changeKey,
  findKey,
  findKeyByPublicId,
  insertKey,
  isKeyNameTaken,
  listChangedKeys,
  listFormerSecrets,
  listKeys,
  NO_CEILING,
  readFormerDigests,
  readKeyCeiling,
  readKeys,
  revokeKey,
  revokeUserKeys,
  rotateKey,
} from "./keys.ts";

const key = (id: string): KeyRecord =>
  keyRecord(id, {
    name: "ci",
    digest: `digest-${id}`,
    last4: "abcd",
    expiresAtMs: 1_900_000_000_000,
    limits: { ...NO_LIMITS, rpm: 60 },
    createdAtMs: 1_794_000_000_000,
  });

async function withGroups(db: Db): Promise<Db> {
  for (const id of ["g1", "g2"]) {
    await putGroup(db, groupRecord(id, { interfaces: [] }));
  }
  return db;
}

async function readChanges(db: Db, afterRevision: number, nowMs: number) {
  const { ids, revision } = await listChangedKeys(db, afterRevision);
  return { keys: await readKeys(db, ids, nowMs), revision };
}

const listIds = (keys: readonly KeyRecord[]) => keys.map(({ id }) => id).sort();

eachEngine(({ open }) => {
  test("a key is read back as inserted, by list, by revision and by public id", async () => {
    const db = await withGroups(await open());
    await insertKey(db, key("k1"));
    expect(await listKeys(db)).toEqual([key("k1")]);
    expect((await readChanges(db, 0, 0)).keys).toEqual([
      { ...key("k1"), userLimits: NO_LIMITS, capture: null, formerSecrets: [] },
    ]);
    expect(await findKeyByPublicId(db, "pub-k1")).toEqual(key("k1"));
    expect(await findKeyByPublicId(db, "pub-k2")).toBeNull();
  });

  test("reading after a revision returns only the keys changed since", async () => {
    const db = await withGroups(await open());
    for (const id of ["k1", "k2", "k3"]) await insertKey(db, key(id));
    const { keys, revision } = await readChanges(db, 0, 0);
    expect(listIds(keys)).toEqual(["k1", "k2", "k3"]);
    expect((await readRevisions(db)).keys).toBe(revision);
    expect(await readChanges(db, revision, 0)).toEqual({ keys: [], revision });
    await insertKey(db, key("k4"));
    await changeKey(db, "k2", { name: "ci", groupId: "g2", expiresAtMs: null, limits: NO_LIMITS });
    await revokeKey(db, "k1", 9);
    const later = await readChanges(db, revision, 0);
    expect(listIds(later.keys)).toEqual(["k1", "k2", "k4"]);
    expect(later.revision).toBe(revision + 3);
  });

  test("keys of one user are revoked by name or all at once, and no others are", async () => {
    const db = await withGroups(await open());
    for (const id of ["u1", "u2"]) {
      const user = { role: "user", status: "active", passwordHash: null, limits: NO_LIMITS } as const;
      await putUser(db, { ...user, id, email: `${id}@example.com`, groups: [], createdAtMs: 1 });
    }
    for (const id of ["k1", "k2", "k3"]) await insertKey(db, { ...key(id), name: id, userId: "u1" });
    await insertKey(db, { ...key("k4"), name: "k4", userId: "u2" });
    const { revision } = await readChanges(db, 0, 0);
    expect(await revokeUserKeys(db, "u1", { ids: [], sinceMs: null }, 5)).toEqual([]);
    const named = { ids: ["k1", "k4", "none"], sinceMs: null };
    expect(await revokeUserKeys(db, "u1", named, 5)).toEqual([{ id: "k1", name: "k1" }]);
    expect(listIds((await readChanges(db, revision, 0)).keys)).toEqual(["k1"]);
    const rest = await revokeUserKeys(db, "u1", "all", 6);
    expect(rest.map(({ id }) => id).sort()).toEqual(["k2", "k3"]);
    expect(await findKey(db, "k1")).toMatchObject({ status: "revoked", revokedAtMs: 5 });
    expect(await findKey(db, "k4")).toMatchObject({ status: "active" });
    expect(await revokeUserKeys(db, "u1", "all", 7)).toEqual([]);
  });

  test("a revoked key is still returned, with its revocation time", async () => {
    const db = await withGroups(await open());
    await insertKey(db, key("k1"));
    const { revision } = await readChanges(db, 0, 0);
    expect(await revokeKey(db, "k1", 1_794_000_000_999)).toBe(true);
    const { keys } = await readChanges(db, revision, 0);
    expect(keys).toMatchObject([{ ...key("k1"), status: "revoked", revokedAtMs: 1_794_000_000_999 }]);
  });

  test("revoking a revoked or unknown key returns false and changes nothing", async () => {
    const db = await withGroups(await open());
    await insertKey(db, key("k1"));
    await revokeKey(db, "k1", 5);
    const { keys: revision } = await readRevisions(db);
    expect(await revokeKey(db, "k1", 6)).toBe(false);
    expect(await revokeKey(db, "nobody", 6)).toBe(false);
    expect((await findKeyByPublicId(db, "pub-k1"))?.revokedAtMs).toBe(5);
    expect((await readRevisions(db)).keys).toBe(revision);
  });

  test("a key can move to another existing group only", async () => {
    const db = await withGroups(await open());
    await insertKey(db, key("k1"));
    expect(
      await changeKey(db, "k1", { name: "ci", groupId: "g2", expiresAtMs: null, limits: NO_LIMITS }),
    ).toBe(true);
    expect((await findKeyByPublicId(db, "pub-k1"))?.groupId).toBe("g2");
    const error = await changeKey(db, "k1", {
      name: "ci",
      groupId: "nowhere",
      expiresAtMs: null,
      limits: NO_LIMITS,
    }).catch((reason: unknown) => reason);
    expect(String(error)).toContain('"nowhere" does not exist');
    expect(
      await changeKey(db, "nobody", { name: "ci", groupId: "g1", expiresAtMs: null, limits: NO_LIMITS }),
    ).toBe(false);
  });

  test("limits are read back as written, for any combination", async () => {
    const db = await withGroups(await open());
    const window = { perMs: 18_000_000, requests: 7, tokens: null, nano: null };
    const all: CallerLimits[] = [
      NO_LIMITS,
      { ...NO_LIMITS, tpm: Number.MAX_SAFE_INTEGER },
      { ...NO_LIMITS, windows: [window] },
      {
        ...NO_LIMITS,
        concurrency: 1,
        rpm: 2,
        tpm: 3,
        windows: [window, { perMs: 86_400_000, requests: null, tokens: 9, nano: null }],
      },
    ];
    await insertKey(db, key("k1"));
    for (const limits of all) {
      await changeKey(db, "k1", { name: "ci", groupId: "g1", expiresAtMs: null, limits });
      expect((await findKeyByPublicId(db, "pub-k1"))?.limits).toEqual(limits);
    }
  });

  test("a key is returned with its user's limits, and again when these change", async () => {
    const db = await withGroups(await open());
    const user: UserRecord = {
      id: "u1",
      email: "ops@example.com",
      role: "user",
      status: "active",
      passwordHash: null,
      groups: [],
      limits: { ...NO_LIMITS, concurrency: 4 },
      createdAtMs: 1,
    };
    await putUser(db, user);
    await insertKey(db, { ...key("k1"), userId: "u1" });
    await insertKey(db, key("k2"));
    const first = await readChanges(db, 0, 0);
    expect(first.keys.find(({ id }) => id === "k1")?.userLimits).toEqual(user.limits);
    expect(first.keys.find(({ id }) => id === "k2")?.userLimits).toEqual(NO_LIMITS);
    await putUser(db, { ...user, role: "admin" });
    const second = await readChanges(db, first.revision, 0);
    expect(second.keys).toEqual([]);
    await putUser(db, { ...user, limits: { ...NO_LIMITS, concurrency: 9 } });
    const third = await readChanges(db, second.revision, 0);
    expect(third.keys.map(({ id, userLimits }) => [id, userLimits.concurrency])).toEqual([["k1", 9]]);
  });

  test("a rotated key keeps its id and is returned with its former secrets that still work", async () => {
    const db = await withGroups(await open());
    await insertKey(db, key("k1"));
    const { revision } = await readChanges(db, 0, 0);
    const turn = { atMs: 1_000, worksUntilMs: 5_000, formerMax: 5 };
    expect(await rotateKey(db, "k1", { digest: "second", last4: "2222" }, turn)).toBe(true);
    const [stored] = (await readChanges(db, revision, 3_000)).keys;
    expect(stored).toMatchObject({ id: "k1", digest: "second", last4: "2222", publicId: "pub-k1" });
    expect(stored?.formerSecrets).toEqual([{ digest: "digest-k1", worksUntilMs: 5_000 }]);
    expect(await listFormerSecrets(db, "k1", 3_000)).toEqual([
      { digest: "digest-k1", last4: "abcd", worksUntilMs: 5_000 },
    ]);
    expect(await listFormerSecrets(db, "k1", 5_000)).toEqual([]);
    expect(await readFormerDigests(db)).toEqual(new Set(["digest-k1"]));
  });

  test("no former secret works longer than the one that replaced it", async () => {
    const db = await withGroups(await open());
    await insertKey(db, key("k1"));
    const turn = async (digest: string, atMs: number, worksUntilMs: number) => {
      await rotateKey(db, "k1", { digest, last4: "" }, { atMs, worksUntilMs, formerMax: 5 });
      const working = await listFormerSecrets(db, "k1", atMs);
      return working.map((one) => [one.digest, one.worksUntilMs]).sort();
    };
    expect(await turn("second", 1_000, 5_000)).toEqual([["digest-k1", 5_000]]);
    expect(await turn("third", 2_000, 9_000)).toEqual([
      ["digest-k1", 5_000],
      ["second", 9_000],
    ]);
    expect(await turn("fourth", 3_000, 6_000)).toEqual([
      ["digest-k1", 5_000],
      ["second", 6_000],
      ["third", 6_000],
    ]);
    expect(await turn("fifth", 4_000, 4_000)).toEqual([]);
    expect((await readChanges(db, 0, 4_000)).keys[0]?.formerSecrets).toEqual([]);
  });

  test("the number of working former secrets is limited; the oldest ends first", async () => {
    const db = await withGroups(await open());
    await insertKey(db, key("k1"));
    await insertKey(db, key("k2"));
    for (const [id, atMs] of [
      ["k2", 1],
      ["k1", 1],
      ["k1", 2],
      ["k1", 3],
    ] as const) {
      const secret = { digest: `${id} from ${atMs}`, last4: "" };
      await rotateKey(db, id, secret, { atMs, worksUntilMs: 9, formerMax: 2 });
    }
    const working = async (id: string) => (await listFormerSecrets(db, id, 3)).map(({ digest }) => digest);
    expect((await working("k1")).sort()).toEqual(["k1 from 1", "k1 from 2"]);
    expect(await working("k2")).toEqual(["digest-k2"]);
    expect((await readFormerDigests(db)).has("digest-k1")).toBe(true);
  });

  test("the limits set by an operator are kept as a ceiling when the owner sets lower ones", async () => {
    const db = await withGroups(await open());
    const given = { expiresAtMs: 9_000, limits: { ...NO_LIMITS, rpm: 60 } };
    await insertKey(db, { ...key("k1"), ...given });
    expect(await readKeyCeiling(db, "k1")).toEqual(given);
    const less = { ...key("k1"), expiresAtMs: 5_000, limits: { ...NO_LIMITS, rpm: 1 } };
    await changeKey(db, "k1", less, given);
    expect(await findKey(db, "k1")).toMatchObject({ expiresAtMs: 5_000, limits: { rpm: 1 } });
    expect(await readKeyCeiling(db, "k1")).toEqual(given);
    await changeKey(db, "k1", less);
    expect(await readKeyCeiling(db, "k1")).toMatchObject({ expiresAtMs: 5_000, limits: { rpm: 1 } });
    await insertKey(db, { ...key("k2"), ...given }, NO_CEILING);
    expect(await readKeyCeiling(db, "k2")).toEqual(NO_CEILING);
  });

  test("a former secret cannot be reused", async () => {
    const db = await withGroups(await open());
    await insertKey(db, key("k1"));
    await rotateKey(
      db,
      "k1",
      { digest: "second", last4: "2222" },
      { atMs: 1, worksUntilMs: 1, formerMax: 5 },
    );
    const error = await insertKey(db, { ...key("k2"), digest: "digest-k1" }).catch(
      (reason: unknown) => reason,
    );
    expect(error).toMatchObject({ name: "StoreConflict", reason: "duplicate" });
  });

  test("a revoked key cannot be rotated", async () => {
    const db = await withGroups(await open());
    await insertKey(db, key("k1"));
    await revokeKey(db, "k1", 1);
    expect(
      await rotateKey(db, "k1", { digest: "second", last4: "" }, { atMs: 1, worksUntilMs: 9, formerMax: 5 }),
    ).toBe(false);
    expect((await findKey(db, "k1"))?.digest).toBe("digest-k1");
  });

  test("a key name is unique among the active keys of a user, and among those without a user", async () => {
    const db = await withGroups(await open());
    await insertKey(db, key("k1"));
    const taken = (userId: string | null, otherThan = "k2") =>
      isKeyNameTaken(db, { userId, name: "ci", otherThan });
    expect(await taken(null)).toBe(true);
    expect(await taken(null, "k1")).toBe(false);
    expect(await taken("u1")).toBe(false);
    await revokeKey(db, "k1", 1);
    expect(await taken(null)).toBe(false);
  });

  test("a key needs an existing group and user", async () => {
    const db = await withGroups(await open());
    const lost = [
      { ...key("k1"), groupId: "nowhere" },
      { ...key("k1"), userId: "nobody" },
    ];
    for (const record of lost) {
      const error = await insertKey(db, record).catch((reason: unknown) => reason);
      expect(error).toMatchObject({ name: "StoreConflict", reason: "missing" });
    }
    expect(await listKeys(db)).toEqual([]);
  });

  test("a secret or public id of another key is a conflict", async () => {
    const db = await withGroups(await open());
    await insertKey(db, key("k1"));
    for (const twin of [
      { ...key("k2"), digest: "digest-k1" },
      { ...key("k2"), publicId: "pub-k1" },
    ]) {
      const error = await insertKey(db, twin).catch((reason: unknown) => reason);
      expect(error).toMatchObject({ name: "StoreConflict", reason: "duplicate" });
    }
  });

  test("concurrent writers get distinct revisions, and a follower sees every change", async () => {
    const db = await withGroups(await open());
    const seen = new Set<string>();
    let revision = 0;
    let writing = true;
    const follow = async () => {
      while (writing) await catchUp();
    };
    const catchUp = async () => {
      const news = await readChanges(db, revision, 0);
      for (const { id } of news.keys) seen.add(id);
      revision = news.revision;
      await Bun.sleep(0);
    };
    const following = follow();
    await Promise.all(Array.from({ length: 40 }, (_, index) => insertKey(db, key(`k${index}`))));
    writing = false;
    await following;
    await catchUp();
    expect(seen.size).toBe(40);
    const stamps = await db.sql`SELECT COUNT(DISTINCT revision) AS many FROM api_key`;
    expect(stamps).toEqual([{ many: 40 }]);
  });

  test("of a concurrent group deletion and key creation, one is rejected", async () => {
    const db = await withGroups(await open());
    const results = await Promise.allSettled([insertKey(db, key("k1")), deleteGroup(db, "g1")]);
    expect(results.filter(({ status }) => status === "rejected")).toHaveLength(1);
  });

  test("many keys in one transaction are all inserted, or none", async () => {
    const db = await withGroups(await open());
    const failing = transaction(db, async (tx) => {
      await insertKey(tx, key("k1"));
      await insertKey(tx, { ...key("k2"), groupId: "nowhere" });
    });
    await failing.catch(() => {});
    expect(await listKeys(db)).toEqual([]);
  });
});
