import { expect, setDefaultTimeout, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { measureSlowdown } from "../../../test/support/machine-speed.ts";
import { groupRecord, keyRecord } from "../../records/records.test-support.ts";
import { type Db, openDb } from "../engine/db.ts";
import { migrate } from "../engine/migrate.ts";
import { integer } from "../engine/row.ts";
import { putGroup } from "../policy/groups.ts";
import { insertKey, revokeKey } from "../policy/keys.ts";
import {
  deleteStoredResponse,
  limitOwnerBytes,
  limitTotalBytes,
  readTotalBytes,
  removeConversationsOfRevokedKeys,
  removeExpiredConversations,
} from "./stored-response-removal.ts";
import {
  findStoredChain,
  findStoredResponse,
  hasStoredResponse,
  insertStoredResponses,
  type NewStoredResponse,
  readStoredResponses,
} from "./stored-responses.ts";

setDefaultTimeout(60_000);

const response = (id: string, change: Partial<NewStoredResponse> = {}): NewStoredResponse => ({
  id,
  keyId: "k1",
  owner: "u1",
  previousId: null,
  atMs: 1_000,
  tokens: 7,
  memoryBytes: 500,
  sealed: `sealed ${id}`,
  ...change,
});

const ask = (id: string, keyId = "k1") => ({ id, keyId, sinceMs: 0 });
const chainIds = async (db: Db, id: string) => (await findStoredChain(db, ask(id))).map((row) => row.id);

/** The sums must agree with the rows after every change. */
async function expectExactSums(db: Db): Promise<void> {
  const [rows] =
    await db.sql`SELECT CAST(COALESCE(SUM(LENGTH(sealed)), 0) AS BIGINT) AS bytes FROM stored_response`;
  const [conversations] = await db.sql`
    SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) AS bytes FROM stored_conversation`;
  if (rows === undefined || conversations === undefined) throw new Error("no sums");
  expect(integer(conversations, "bytes")).toBe(integer(rows, "bytes"));
  expect(await readTotalBytes(db)).toBe(integer(rows, "bytes"));
}

eachEngine(({ open }) => {
  test("a response is found by its key only, and until it expires", async () => {
    const db = await open();
    await insertStoredResponses(db, [response("r1")]);
    expect(await findStoredResponse(db, ask("r1"))).toEqual({
      id: "r1",
      previousId: null,
      sealedBytes: "sealed r1".length,
      turnBytes: 500,
    });
    expect(await readStoredResponses(db, ["r1"])).toMatchObject([
      { id: "r1", sealed: "sealed r1", tokens: 7 },
    ]);
    expect(await readStoredResponses(db, ["r1", "r2"])).toBeNull();
    expect(await findStoredResponse(db, ask("r1", "k2"))).toBeNull();
    expect(await findStoredResponse(db, { ...ask("r1"), sinceMs: 1_001 })).toBeNull();
    expect(await hasStoredResponse(db, ask("r1"))).toBe(true);
    expect(await hasStoredResponse(db, ask("r2"))).toBe(false);
  });

  test("a chain is read from its first response on, also if it branches", async () => {
    const db = await open();
    const second = response("r2", { previousId: "r1", memoryBytes: 800 });
    await insertStoredResponses(db, [response("r1"), second]);
    await insertStoredResponses(db, [
      response("r3", { previousId: "r2", memoryBytes: 850 }),
      response("branch", { previousId: "r1" }),
    ]);
    expect(await chainIds(db, "r3")).toEqual(["r1", "r2", "r3"]);
    const sizes = await findStoredChain(db, ask("r3"));
    expect(sizes.map(({ turnBytes }) => turnBytes)).toEqual([500, 300, 50]);
    expect(await findStoredResponse(db, ask("r3"))).toEqual(sizes[2] ?? null);
    expect(await chainIds(db, "branch")).toEqual(["r1", "branch"]);
    await expectExactSums(db);
  });

  test("a chain longer than one turn reads is read whole, and is unknown without its first response", async () => {
    const db = await open();
    const ids = Array.from({ length: 1_100 }, (_, at) => `r${at}`);
    await insertStoredResponses(
      db,
      ids.map((id, at) => response(id, { previousId: at === 0 ? null : `r${at - 1}`, atMs: at })),
    );
    await deleteStoredResponse(db, "r3", "k1");
    expect((await findStoredChain(db, { ...ask("r1099"), sinceMs: 1_000 })).map(({ id }) => id)).toEqual(ids);
    expect(await chainIds(db, "r511")).toEqual(ids.slice(0, 512));
    expect(await chainIds(db, "r512")).toEqual(ids.slice(0, 513));
    await db.sql`DELETE FROM stored_response WHERE id = 'r0'`;
    expect(await chainIds(db, "r1099")).toEqual([]);
  });

  test("writing a batch again changes nothing", async () => {
    const db = await open();
    const batch = [response("r1"), response("r2", { previousId: "r1" })];
    await insertStoredResponses(db, batch);
    expect(await insertStoredResponses(db, batch)).toEqual(new Set(["r1", "r2"]));
    await expectExactSums(db);
  });

  test("a response whose conversation was removed is not stored", async () => {
    const db = await open();
    expect(await insertStoredResponses(db, [response("r2", { previousId: "gone" })])).toEqual(new Set());
    expect(await hasStoredResponse(db, ask("r2"))).toBe(false);
    await expectExactSums(db);
  });

  test("a deleted response cannot be read, but later responses that continue it can", async () => {
    const db = await open();
    await insertStoredResponses(db, [response("r1"), response("r2", { previousId: "r1" })]);
    expect(await deleteStoredResponse(db, "r1", "k2")).toBe(false);
    expect(await deleteStoredResponse(db, "r1", "k1")).toBe(true);
    expect(await deleteStoredResponse(db, "r1", "k1")).toBe(false);
    expect(await findStoredResponse(db, ask("r1"))).toBeNull();
    expect(await chainIds(db, "r1")).toEqual([]);
    expect(await chainIds(db, "r2")).toEqual(["r1", "r2"]);
    await expectExactSums(db);
    // With the last response that needs it, its content is removed, too.
    expect(await deleteStoredResponse(db, "r2", "k1")).toBe(true);
    expect(await db.sql`SELECT id FROM stored_response`).toHaveLength(0);
    expect(await db.sql`SELECT id FROM stored_conversation`).toHaveLength(0);
    expect(await db.sql`SELECT owner FROM stored_response_owner`).toHaveLength(0);
  });

  test("a conversation expires as a whole, after its last use", async () => {
    const db = await open();
    await insertStoredResponses(db, [response("old"), response("r1")]);
    await insertStoredResponses(db, [response("r2", { previousId: "r1", atMs: 2_000 })]);
    expect(await removeExpiredConversations(db, 1_500)).toBe(1);
    expect(await hasStoredResponse(db, ask("old"))).toBe(false);
    expect(await chainIds(db, "r2")).toEqual(["r1", "r2"]);
    await expectExactSums(db);
  });

  test("above the limit of an owner, its conversation used least recently is removed", async () => {
    const db = await open();
    await insertStoredResponses(db, [
      response("r1"),
      response("r2", { atMs: 2_000 }),
      response("other", { owner: "u2", keyId: "k2" }),
    ]);
    await insertStoredResponses(db, [response("r3", { previousId: "r1", atMs: 3_000 })]);
    const bytes = "sealed r1".length * 2;
    expect(await limitOwnerBytes(db, "u1", bytes)).toBe(1);
    expect(await hasStoredResponse(db, ask("r2"))).toBe(false);
    expect(await chainIds(db, "r3")).toEqual(["r1", "r3"]);
    expect(await hasStoredResponse(db, ask("other", "k2"))).toBe(true);
    await expectExactSums(db);
  });

  test("above the limit of all owners, the conversations used least recently are removed", async () => {
    const db = await open();
    await insertStoredResponses(db, [
      response("r1", { atMs: 3_000 }),
      response("r2", { owner: "u2", keyId: "k2", atMs: 1_000 }),
      response("r3", { owner: "u3", keyId: "k3", atMs: 2_000 }),
    ]);
    expect(await limitTotalBytes(db, "sealed r1".length)).toBe(2);
    expect(await db.sql`SELECT id FROM stored_response`).toEqual([{ id: "r1" }]);
    await expectExactSums(db);
  });

  test("responses of a key that was revoked are removed, those of others stay", async () => {
    const db = await open();
    await insertStoredResponses(db, [response("r1"), response("r2", { keyId: "k2", owner: "u2" })]);
    expect(await removeConversationsOfRevokedKeys(db, 0)).toBe(0);
    await putGroup(db, groupRecord("g1", { interfaces: [] }));
    await insertKey(db, keyRecord("k1", { groupId: "g1", userId: null }));
    await insertKey(db, keyRecord("k2", { groupId: "g1", userId: null }));
    await revokeKey(db, "k2", 5_000);
    expect(await removeConversationsOfRevokedKeys(db, 5_001)).toBe(0);
    expect(await removeConversationsOfRevokedKeys(db, 5_000)).toBe(1);
    expect(await db.sql`SELECT id FROM stored_response`).toEqual([{ id: "r1" }]);
    await expectExactSums(db);
  });
});

/** The most CPU time that a turn of the event loop takes meanwhile. */
async function measureWorstTurnMs(work: () => Promise<void>): Promise<number> {
  let worstMs = 0;
  let before = process.threadCpuUsage();
  const timer = setInterval(() => {
    const { user, system } = process.threadCpuUsage(before);
    worstMs = Math.max(worstMs, (user + system) / 1_000);
    before = process.threadCpuUsage();
  }, 1);
  await work();
  // The last turn ends.
  await Bun.sleep(5);
  clearInterval(timer);
  return worstMs;
}

async function openMemory(): Promise<Db> {
  const db = await openDb("sqlite::memory:");
  await migrate(db);
  return db;
}

const TURN_MS_MAX = 30;

test("thousands of deleted responses are removed in turns of the event loop", async () => {
  const db = await openMemory();
  const ids = Array.from({ length: 8_000 }, (_, at) => `r${at}`);
  const chain = ids.map((id, at) => response(id, { previousId: ids[at - 1] ?? null }));
  await insertStoredResponses(db, chain);
  await db.sql`UPDATE stored_response SET is_deleted = 1 WHERE id <> ${"r7999"}`;
  const allowedMs = TURN_MS_MAX * measureSlowdown();
  const worstMs = await measureWorstTurnMs(async () => {
    expect(await deleteStoredResponse(db, "r7999", "k1")).toBe(true);
  });
  expect(worstMs).toBeLessThan(allowedMs);
  expect(await db.sql`SELECT id FROM stored_response`).toHaveLength(0);
  await db.close();
});

test("thousands of conversations that expire or exceed a limit together are removed in turns, too", async () => {
  const db = await openMemory();
  const responses = Array.from({ length: 2_000 }, (_, at) => response(`r${at}`));
  for (const remove of [
    async () => {
      while ((await removeExpiredConversations(db, 2_000)) > 0);
    },
    async () => void (await limitOwnerBytes(db, "u1", 0)),
    async () => void (await limitTotalBytes(db, 0)),
  ]) {
    await insertStoredResponses(db, responses);
    const allowedMs = TURN_MS_MAX * measureSlowdown();
    expect(await measureWorstTurnMs(remove)).toBeLessThan(allowedMs);
    expect(await db.sql`SELECT id FROM stored_response`).toHaveLength(0);
  }
  await db.close();
});
