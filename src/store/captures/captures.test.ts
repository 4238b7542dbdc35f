import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { type Db, openDb } from "../engine/db.ts";
import { migrate } from "../engine/migrate.ts";
import { deleteUser } from "../identity/users.ts";
import {
  type CaptureTerms,
  deleteCaptures,
  deleteOldCaptures,
  insertCapture,
  listCaptures,
  readCaptureTotal,
  type SealedCapture,
} from "./captures.ts";

let db: Db;
beforeEach(async () => {
  db = await openDb("sqlite::memory:");
  await migrate(db);
  for (const id of ["u1", "u2"])
    await db.sql`
      INSERT INTO app_user (id, email, email_folded, role, created_at_ms)
      VALUES (${id}, ${`${id}@example.com`}, ${`${id}@example.com`}, 'user', 1)`;
});
afterEach(() => db.close());

const capture = (number: number, change: Partial<SealedCapture> = {}): SealedCapture => ({
  requestId: `req_${number}`,
  atMs: number,
  keyId: "k1",
  userId: "u1",
  groupId: "g1",
  endpoint: "responses",
  model: "fast",
  status: 200,
  outcome: "completed",
  storedBytes: 100,
  sealedKey: "sealed",
  content: "content",
  ...change,
});

const WANTED: CaptureTerms = { order: null, isWantedAnyway: true, budgetBytes: 1_000 };

async function listIds(): Promise<string[]> {
  const { captures } = await listCaptures(db, {}, { after: null, limit: 200 });
  return captures.map(({ requestId }) => requestId);
}

describe("the captures of a user who is deleted", () => {
  test("are deleted with the user, and those of others stay", async () => {
    await insertCapture(db, capture(1), WANTED);
    await insertCapture(db, capture(2, { userId: "u2" }), WANTED);
    await insertCapture(db, capture(3, { userId: null }), WANTED);
    await deleteUser(db, "u1");
    expect(await listIds()).toEqual(["req_3", "req_2"]);
    expect(await readCaptureTotal(db)).toEqual({ captures: 2, bytes: 200 });
  });

  test("are not stored if they arrive later", async () => {
    await deleteUser(db, "u1");
    expect(await insertCapture(db, capture(1), WANTED)).toEqual({ kind: "user_deleted" });
    expect(await readCaptureTotal(db)).toEqual({ captures: 0, bytes: 0 });
  });
});

describe("the budget", () => {
  test("is kept by deleting the oldest captures", async () => {
    for (let i = 1; i <= 14; i++) await insertCapture(db, capture(i), WANTED);
    expect(await readCaptureTotal(db)).toEqual({ captures: 10, bytes: 1_000 });
    expect((await listIds()).at(-1)).toBe("req_5");
  });

  test("is kept for a large capture that replaces many", async () => {
    for (let i = 1; i <= 10; i++) await insertCapture(db, capture(i), WANTED);
    await insertCapture(db, capture(11, { storedBytes: 950 }), WANTED);
    expect(await listIds()).toEqual(["req_11"]);
    expect(await readCaptureTotal(db)).toEqual({ captures: 1, bytes: 950 });
  });

  test("never deletes the capture that was just stored, even if its request ended earlier", async () => {
    for (let i = 11; i <= 20; i++) await insertCapture(db, capture(i), WANTED);
    await insertCapture(db, capture(1), WANTED);
    expect(await listIds()).toContain("req_1");
    expect((await readCaptureTotal(db)).bytes).toBe(1_000);
  });

  test("counts nothing for a capture that was not ordered", async () => {
    const terms = { order: { startedMs: 5 }, isWantedAnyway: false, budgetBytes: 1_000 };
    expect(await insertCapture(db, capture(1), terms)).toEqual({ kind: "not_ordered" });
    expect(await readCaptureTotal(db)).toEqual({ captures: 0, bytes: 0 });
  });
});

test("captures are deleted by age, a few at a time", async () => {
  for (let i = 1; i <= 9; i++) await insertCapture(db, capture(i), WANTED);
  expect(await deleteOldCaptures(db, 6, 3)).toBe(3);
  expect(await deleteOldCaptures(db, 6, 3)).toBe(2);
  expect(await readCaptureTotal(db)).toEqual({ captures: 4, bytes: 400 });
});

test("captures are deleted by key, user or group", async () => {
  await insertCapture(db, capture(1, { keyId: "k2" }), WANTED);
  await insertCapture(db, capture(2, { userId: null }), WANTED);
  await insertCapture(db, capture(3, { groupId: "g2" }), WANTED);
  expect(await deleteCaptures(db, { keyId: "k2" })).toBe(1);
  expect(await deleteCaptures(db, { userId: "u1" })).toBe(1);
  expect(await listIds()).toEqual(["req_2"]);
  expect(await deleteCaptures(db, { groupId: "g1" })).toBe(1);
  expect(await readCaptureTotal(db)).toEqual({ captures: 0, bytes: 0 });
});

test("a list continues where its page ended, also among captures of one moment", async () => {
  for (let i = 1; i <= 5; i++) await insertCapture(db, capture(i, { atMs: 7 }), WANTED);
  const first = await listCaptures(db, {}, { after: null, limit: 3 });
  const second = await listCaptures(db, {}, { after: first.next, limit: 3 });
  expect([...first.captures, ...second.captures].map(({ requestId }) => requestId)).toEqual([
    "req_5",
    "req_4",
    "req_3",
    "req_2",
    "req_1",
  ]);
  expect(second.next).toBeNull();
});
