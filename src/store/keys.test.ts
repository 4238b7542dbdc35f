import { expect, test } from "bun:test";
import { eachEngine } from "../../test/postgres.ts";
import {
  type CallerLimits,
  DEFAULT_QUEUE,
  type KeyRecord,
  NO_BILLING,
  NO_LIMITS,
  type UserRecord,
} from "../records.ts";
import { type Db, transaction } from "./db.ts";
import { deleteGroup, putGroup } from "./groups.ts";
import { changeKey, findKeyByPublicId, insertKey, listKeys, readKeys, revokeKey } from "./keys.ts";
import { readRevisions } from "./revisions.ts";
import { putUser } from "./users.ts";

const key = (id: string): KeyRecord => ({
  id,
  name: "ci",
  userId: null,
  groupId: "g1",
  digest: `digest-${id}`,
  publicId: `pub-${id}`,
  last4: "abcd",
  status: "active",
  expiresAtMs: 1_900_000_000_000,
  limits: { ...NO_LIMITS, rpm: 60 },
  createdAtMs: 1_794_000_000_000,
  revokedAtMs: null,
});

async function withGroups(db: Db): Promise<Db> {
  for (const id of ["g1", "g2"]) {
    await putGroup(db, {
      id,
      name: id,
      interfaces: [],
      models: [],
      accounts: [],
      billing: NO_BILLING,
      onDisconnect: "cancel",
      limits: NO_LIMITS,
      groupLimits: NO_LIMITS,
      queue: DEFAULT_QUEUE,
      createdAtMs: 1,
    });
  }
  return db;
}

const idsOf = (keys: readonly KeyRecord[]) => keys.map(({ id }) => id).sort();

eachEngine(({ open }) => {
  test("a key comes back as it was inserted, by list, by revision and by public id", async () => {
    const db = await withGroups(await open());
    await insertKey(db, key("k1"));
    expect(await listKeys(db)).toEqual([key("k1")]);
    expect((await readKeys(db, 0)).keys).toEqual([{ ...key("k1"), userLimits: NO_LIMITS }]);
    expect(await findKeyByPublicId(db, "pub-k1")).toEqual(key("k1"));
    expect(await findKeyByPublicId(db, "pub-k2")).toBeNull();
  });

  test("reading after a revision gives what has changed since, and nothing else", async () => {
    const db = await withGroups(await open());
    for (const id of ["k1", "k2", "k3"]) await insertKey(db, key(id));
    const { keys, revision } = await readKeys(db, 0);
    expect(idsOf(keys)).toEqual(["k1", "k2", "k3"]);
    expect((await readRevisions(db)).keys).toBe(revision);
    expect(await readKeys(db, revision)).toEqual({ keys: [], revision });
    await insertKey(db, key("k4"));
    await changeKey(db, "k2", { groupId: "g2", expiresAtMs: null, limits: NO_LIMITS });
    await revokeKey(db, "k1", 9);
    const later = await readKeys(db, revision);
    expect(idsOf(later.keys)).toEqual(["k1", "k2", "k4"]);
    expect(later.revision).toBe(revision + 3);
  });

  test("a revoked key is still told of, with the time of its revocation", async () => {
    const db = await withGroups(await open());
    await insertKey(db, key("k1"));
    const { revision } = await readKeys(db, 0);
    expect(await revokeKey(db, "k1", 1_794_000_000_999)).toBe(true);
    const { keys } = await readKeys(db, revision);
    expect(keys).toMatchObject([{ ...key("k1"), status: "revoked", revokedAtMs: 1_794_000_000_999 }]);
  });

  test("revoking twice keeps the first time; revoking nobody says so; neither is a new revision", async () => {
    const db = await withGroups(await open());
    await insertKey(db, key("k1"));
    await revokeKey(db, "k1", 5);
    const { keys: revision } = await readRevisions(db);
    expect(await revokeKey(db, "k1", 6)).toBe(false);
    expect(await revokeKey(db, "nobody", 6)).toBe(false);
    expect((await findKeyByPublicId(db, "pub-k1"))?.revokedAtMs).toBe(5);
    expect((await readRevisions(db)).keys).toBe(revision);
  });

  test("a key moves to another group, but not to one that does not exist", async () => {
    const db = await withGroups(await open());
    await insertKey(db, key("k1"));
    expect(await changeKey(db, "k1", { groupId: "g2", expiresAtMs: null, limits: NO_LIMITS })).toBe(true);
    expect((await findKeyByPublicId(db, "pub-k1"))?.groupId).toBe("g2");
    const error = await changeKey(db, "k1", {
      groupId: "nowhere",
      expiresAtMs: null,
      limits: NO_LIMITS,
    }).catch((reason: unknown) => reason);
    expect(String(error)).toContain('"nowhere" does not exist');
    expect(await changeKey(db, "nobody", { groupId: "g1", expiresAtMs: null, limits: NO_LIMITS })).toBe(
      false,
    );
  });

  test("limits come back as they were put, whatever of them is set", async () => {
    const db = await withGroups(await open());
    const window = { perMs: 18_000_000, requests: 7, tokens: null, nano: null };
    const all: CallerLimits[] = [
      NO_LIMITS,
      { ...NO_LIMITS, tpm: Number.MAX_SAFE_INTEGER },
      { ...NO_LIMITS, windows: [window] },
      {
        concurrency: 1,
        rpm: 2,
        tpm: 3,
        windows: [window, { perMs: 86_400_000, requests: null, tokens: 9, nano: null }],
      },
    ];
    await insertKey(db, key("k1"));
    for (const limits of all) {
      await changeKey(db, "k1", { groupId: "g1", expiresAtMs: null, limits });
      expect((await findKeyByPublicId(db, "pub-k1"))?.limits).toEqual(limits);
    }
  });

  test("a key is told of with its user's limits, and again when these change", async () => {
    const db = await withGroups(await open());
    const user: UserRecord = {
      id: "u1",
      email: "ops@example.com",
      role: "user",
      passwordHash: null,
      limits: { ...NO_LIMITS, concurrency: 4 },
      createdAtMs: 1,
    };
    await putUser(db, user);
    await insertKey(db, { ...key("k1"), userId: "u1" });
    await insertKey(db, key("k2"));
    const first = await readKeys(db, 0);
    expect(first.keys.find(({ id }) => id === "k1")?.userLimits).toEqual(user.limits);
    expect(first.keys.find(({ id }) => id === "k2")?.userLimits).toEqual(NO_LIMITS);
    await putUser(db, { ...user, role: "admin" });
    const second = await readKeys(db, first.revision);
    expect(second.keys).toEqual([]);
    await putUser(db, { ...user, limits: { ...NO_LIMITS, concurrency: 9 } });
    const third = await readKeys(db, second.revision);
    expect(third.keys.map(({ id, userLimits }) => [id, userLimits.concurrency])).toEqual([["k1", 9]]);
  });

  test("a key needs a group and a user that exist", async () => {
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

  test("a secret or public id that another key has is a conflict", async () => {
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

  test("writers at once each get a revision of their own, and a follower misses none of them", async () => {
    const db = await withGroups(await open());
    const seen = new Set<string>();
    let revision = 0;
    let writing = true;
    const follow = async () => {
      while (writing) await catchUp();
    };
    const catchUp = async () => {
      const news = await readKeys(db, revision);
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

  test("a group deleted while a key is added to it: one of the two is refused", async () => {
    const db = await withGroups(await open());
    const results = await Promise.allSettled([insertKey(db, key("k1")), deleteGroup(db, "g1")]);
    expect(results.filter(({ status }) => status === "rejected")).toHaveLength(1);
  });

  test("many keys in one transaction all stand, or none", async () => {
    const db = await withGroups(await open());
    const failing = transaction(db, async (tx) => {
      await insertKey(tx, key("k1"));
      await insertKey(tx, { ...key("k2"), groupId: "nowhere" });
    });
    await failing.catch(() => {});
    expect(await listKeys(db)).toEqual([]);
  });
});
