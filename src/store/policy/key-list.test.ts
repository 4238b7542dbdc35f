import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { DAY_MS, HOUR_MS } from "../../base/time.ts";
import type { KeyRecord } from "../../records/key.ts";
import { groupRecord, keyRecord, userRecord } from "../../records/records.test-support.ts";
import type { Db } from "../engine/db.ts";
import { putUser } from "../identity/users.ts";
import { foldDay } from "../usage/usage-day.ts";
import { insertUsage, usageRow } from "../usage/usage-row.test-support.ts";
import { putGroup } from "./groups.ts";
import { countKeysByGroup, type KeyFilter, listKeyDays, listKeyPage, listNewestKeys } from "./key-list.ts";
import { insertKey } from "./keys.ts";

const key = (id: string, change: Partial<KeyRecord> = {}): KeyRecord =>
  keyRecord(id, { userId: "u1", last4: "abcd", createdAtMs: 1_000, ...change });

async function furnished(db: Db, keys: readonly KeyRecord[]): Promise<Db> {
  for (const id of ["g1", "g2"]) await putGroup(db, groupRecord(id, { name: id, interfaces: [] }));
  for (const id of ["u1", "u2"]) await putUser(db, userRecord(id));
  for (const one of keys) await insertKey(db, one);
  return db;
}

async function listIds(db: Db, filter: Partial<KeyFilter> = {}): Promise<string[]> {
  const { keys } = await listKeyPage(db, { owner: { userId: "u1" }, ...filter }, { after: null, limit: 50 });
  return keys.map(({ id }) => id);
}

eachEngine(({ open }) => {
  test("keys are paged, newest first, without keys of other users", async () => {
    const made = Array.from({ length: 7 }, (_, i) =>
      key(`k${i}`, { createdAtMs: 1_000 + Math.floor(i / 2) }),
    );
    const db = await furnished(await open(), [...made, key("other", { userId: "u2" })]);
    const seen: string[] = [];
    let after = null;
    do {
      const page = await listKeyPage(db, { owner: { userId: "u1" } }, { after, limit: 3 });
      seen.push(...page.keys.map(({ id }) => id));
      after = page.next;
    } while (after !== null);
    expect(seen).toEqual(["k6", "k5", "k4", "k3", "k2", "k1", "k0"]);
  });

  test("keys are filtered by user or group, and by status", async () => {
    const db = await furnished(await open(), [
      key("k1"),
      key("k2", { status: "revoked" }),
      key("k3", { groupId: "g2", userId: "u2" }),
    ]);
    expect(await listIds(db)).toEqual(["k2", "k1"]);
    expect(await listIds(db, { status: "active" })).toEqual(["k1"]);
    expect(await listIds(db, { owner: { groupId: "g2" } })).toEqual(["k3"]);
  });

  test("a search matches part of the name in any case, and the start of a public id", async () => {
    const db = await furnished(await open(), [
      key("k1", { name: "Laptop 50%" }),
      key("k2", { name: "ÜBUNG_2", publicId: "Zz9" }),
    ]);
    expect(await listIds(db, { search: "lapTOP" })).toEqual(["k1"]);
    expect(await listIds(db, { search: "0%" })).toEqual(["k1"]);
    expect(await listIds(db, { search: "ÜB" })).toEqual(["k2"]);
    expect(await listIds(db, { search: "_" })).toEqual(["k2"]);
    expect(await listIds(db, { search: "Zz" })).toEqual(["k2"]);
    expect(await listIds(db, { search: "z9" })).toEqual([]);
  });

  test("without an owner, keys of all users and of none are listed, and can be searched by everything that names them", async () => {
    const db = await furnished(await open(), [
      key("k1", { name: "laptop", publicId: "Aa1" }),
      key("k2", { name: "server", userId: null, groupId: "g2", publicId: "Bb2" }),
      key("k3", { name: "50%", userId: "u2", publicId: "Cc3" }),
    ]);
    const all = async (search: string, more: KeyFilter = {}) => {
      const filter: KeyFilter = { search, isWideSearch: true, ...more };
      return (await listKeyPage(db, filter, { after: null, limit: 50 })).keys.map(({ id }) => id);
    };
    expect(await all("")).toEqual(["k3", "k2", "k1"]);
    expect(await all("", { owner: { userId: null } })).toEqual(["k2"]);
    expect(await all("serv")).toEqual(["k2"]);
    expect(await all("Bb")).toEqual(["k2"]);
    expect(await all("k3")).toEqual(["k3"]);
    expect(await all("g2")).toEqual(["k2"]);
    expect(await all("U2@")).toEqual(["k3"]);
    expect(await all("%")).toEqual(["k3"]);
    expect(await all("_")).toEqual([]);
  });

  test("each key has the time of its last use, or null", async () => {
    const db = await furnished(await open(), [key("k1"), key("k2")]);
    await insertUsage(db, [usageRow({ keyId: "k1", atMs: 4_000 }), usageRow({ keyId: "k1", atMs: 9_000 })]);
    const { keys } = await listKeyPage(db, { owner: { userId: "u1" } }, { after: null, limit: 9 });
    expect(keys.map(({ id, lastUsedAtMs }) => [id, lastUsedAtMs])).toEqual([
      ["k2", null],
      ["k1", 9_000],
    ]);
  });

  test("usable keys are counted by group, with the newest key of each group", async () => {
    const db = await furnished(await open(), [
      key("k1"),
      key("k2"),
      key("k3", { groupId: "g2" }),
      key("k4", { status: "revoked" }),
      key("k5", { expiresAtMs: 5_000 }),
      key("k6", { userId: "u2" }),
    ]);
    expect(await countKeysByGroup(db, "u1", 4_999)).toEqual(
      new Map([
        ["g1", 3],
        ["g2", 1],
      ]),
    );
    expect((await countKeysByGroup(db, "u1", 5_000)).get("g1")).toBe(2);
    const newest = await listNewestKeys(db, { userId: "u1", groupId: "g1", nowMs: 5_000, limit: 1 });
    expect(newest).toEqual([{ id: "k2", name: "name of k2" }]);
  });

  test("daily usage combines folded days and later hours, each counted once", async () => {
    const db = await furnished(await open(), [key("k1"), key("k2"), key("k3")]);
    const day = (number: number) => 20_000 * DAY_MS + number * DAY_MS;
    const used = (keyId: string, atMs: number, costNano: bigint) =>
      usageRow({ keyId, atMs, costNano, chargedNano: costNano });
    await insertUsage(db, [
      used("k1", day(0) + 5, 1n),
      used("k1", day(0) + HOUR_MS, 2n),
      used("k2", day(1) + 5, 4n),
      used("k1", day(1) + 5, 8n),
      used("k3", day(1) + 5, 16n),
    ]);
    await foldDay(db, day(0), day(0));
    const days = await listKeyDays(db, ["k1", "k2"], {
      fromMs: day(0),
      toMs: day(2),
      foldedBeforeMs: day(1),
    });
    expect(
      days.map(({ keyId, dayMs, requests, chargedNano }) => [keyId, dayMs, requests, chargedNano]),
    ).toEqual([
      ["k1", day(0), 2, 3n],
      ["k1", day(1), 1, 8n],
      ["k2", day(1), 1, 4n],
    ]);
  });
});
