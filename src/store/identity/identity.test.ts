import { describe, expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { NO_LIMITS } from "../../records/limits.ts";
import type { UserRecord } from "../../records/user.ts";
import type { Db } from "../engine/db.ts";
import { readRevisions } from "../engine/revisions.ts";
import {
  type AccessTokenRecord,
  deleteAccessToken,
  findAccessToken,
  insertAccessToken,
  listAccessTokens,
  touchAccessToken,
} from "./access-tokens.ts";
import {
  beginSecondFactor,
  confirmSecondFactor,
  findCredentials,
  findCredentialsByEmail,
  markVerified,
  removeSecondFactor,
  takeRecoveryCode,
  takeTotpStep,
  writePassword,
} from "./credentials.ts";
import {
  deleteLink,
  deleteLinksTo,
  findLink,
  insertLink,
  type LinkRecord,
  listLinks,
  sweepLinks,
  takeLink,
} from "./links.ts";
import {
  deleteSession,
  deleteSessions,
  findSession,
  insertSession,
  listSessions,
  type SessionRecord,
  sweepSessions,
  touchSession,
} from "./sessions.ts";
import { deleteUser, hasAdministrator, putUser } from "./users.ts";

const NOW_MS = 1_794_000_000_000;
const ever = { createdAfterMs: 0, seenAfterMs: 0 };
const ada: UserRecord = {
  id: "user_ada",
  email: "Ada@example.com",
  role: "user",
  status: "active",
  passwordHash: "hash",
  limits: NO_LIMITS,
  groups: [],
  createdAtMs: 1,
};
const bob: UserRecord = { ...ada, id: "user_bob", email: "bob@example.com" };
const session = (id: string, change: Partial<SessionRecord> = {}): SessionRecord => ({
  id,
  userId: ada.id,
  createdAtMs: NOW_MS,
  seenAtMs: NOW_MS,
  address: "127.0.0.1",
  userAgent: "browser",
  ...change,
});
const token: AccessTokenRecord = {
  id: "pat_1",
  userId: ada.id,
  name: "ci",
  last4: "abcd",
  scope: "read",
  createdAtMs: NOW_MS,
  expiresAtMs: NOW_MS + 1_000,
  usedAtMs: null,
};
const link = (id: string, change: Partial<LinkRecord> = {}): LinkRecord => ({
  id,
  purpose: "reset",
  email: ada.email,
  role: null,
  userId: ada.id,
  createdAtMs: NOW_MS,
  createdBy: "root@example.com",
  expiresAtMs: NOW_MS + 1_000,
  ...change,
});

eachEngine(({ open }) => {
  async function withUsers(): Promise<Db> {
    const db = await open();
    await putUser(db, ada);
    await putUser(db, bob);
    return db;
  }

  describe("sessions", () => {
    test("are found by their digest, with their owner", async () => {
      const db = await withUsers();
      await insertSession(db, session("s1"), "digest");
      expect(await findSession(db, "digest", ever)).toEqual({
        session: session("s1"),
        owner: { userId: ada.id, email: ada.email, role: "user" },
      });
      expect(await findSession(db, "other", ever)).toBeNull();
    });

    test("expire by age and by inactivity", async () => {
      const db = await withUsers();
      await insertSession(db, session("s1", { createdAtMs: 10, seenAtMs: 20 }), "d");
      expect(await findSession(db, "d", { createdAfterMs: 9, seenAfterMs: 19 })).not.toBeNull();
      expect(await findSession(db, "d", { createdAfterMs: 10, seenAfterMs: 19 })).toBeNull();
      expect(await findSession(db, "d", { createdAfterMs: 9, seenAfterMs: 20 })).toBeNull();
      await sweepSessions(db, { createdAfterMs: 9, seenAfterMs: 19 });
      expect(await listSessions(db, ada.id, ever)).toHaveLength(1);
      await sweepSessions(db, { createdAfterMs: 9, seenAfterMs: 20 });
      expect(await listSessions(db, ada.id, ever)).toHaveLength(0);
    });

    test("can be deleted by their owner only", async () => {
      const db = await withUsers();
      for (const id of ["s1", "s2", "s3"]) await insertSession(db, session(id), id);
      await insertSession(db, session("s4", { userId: bob.id }), "s4");
      expect(await deleteSession(db, bob.id, "s1")).toBe(false);
      expect(await deleteSession(db, ada.id, "s1")).toBe(true);
      expect(await deleteSessions(db, ada.id, "s3")).toBe(1);
      expect((await listSessions(db, ada.id, ever)).map(({ id }) => id)).toEqual(["s3"]);
      expect(await listSessions(db, bob.id, ever)).toHaveLength(1);
      expect(await deleteSessions(db, ada.id, null)).toBe(1);
    });

    test("are listed by last use, newest first", async () => {
      const db = await withUsers();
      for (const id of ["s1", "s2"]) await insertSession(db, session(id), id);
      await touchSession(db, "s1", { seenAtMs: NOW_MS + 5, address: "::1", userAgent: "other" });
      expect(await listSessions(db, ada.id, ever)).toMatchObject([
        { id: "s1", address: "::1", userAgent: "other" },
        { id: "s2" },
      ]);
    });

    test.each([
      ["a new password", { passwordHash: "other" }],
      ["a new role", { role: "admin" }],
      ["disabling the user", { status: "disabled" }],
    ] as const)("end by %s, and by no smaller change", async (_, change) => {
      const db = await withUsers();
      await insertSession(db, session("s1"), "d");
      await putUser(db, { ...ada, email: "ada2@example.com", limits: { ...NO_LIMITS, rpm: 3 } });
      expect(await findSession(db, "d", ever)).not.toBeNull();
      await putUser(db, { ...ada, ...change });
      expect(await listSessions(db, ada.id, ever)).toEqual([]);
    });

    test("are deleted with their user", async () => {
      const db = await withUsers();
      await insertSession(db, session("s1"), "d");
      await insertAccessToken(db, token, "t");
      await insertLink(db, link("l1"), "l");
      await deleteUser(db, ada.id);
      expect(await findSession(db, "d", ever)).toBeNull();
      expect(await findAccessToken(db, "t", NOW_MS)).toBeNull();
      expect(await findLink(db, "l", NOW_MS)).toBeNull();
    });
  });

  describe("the content of a user", () => {
    test("is deleted with the user: captures, responses of idempotent requests, orders, links to the address", async () => {
      const db = await withUsers();
      for (const { id } of [ada, bob])
        await db.sql`
          INSERT INTO api_key (id, name, user_id, group_id, digest, public_id, last4, status, created_at_ms, revision)
          VALUES (${`key-${id}`}, 'k', ${id}, 'g', ${id}, ${id}, 'last', 'revoked', 1, 1)`;
      for (const { id } of [ada, bob]) {
        const keyId = `key-${id}`;
        await db.sql`
          INSERT INTO capture (request_id, at_ms, key_id, user_id, group_id, endpoint, model, status, outcome,
            stored_bytes, sealed_key, content)
          VALUES (${keyId}, 1, ${keyId}, ${id}, 'g', 'chat', 'm', 200, 'completed', 5, 's', 'c')`;
        await db.sql`
          INSERT INTO idempotency (scope, token, fingerprint, request_id, process_id, at_ms, state, body)
          VALUES (${keyId}, 't', 'f', 'r', 'i', 1, 'done', 'the response')`;
        await db.sql`INSERT INTO key_capture (key_id, remaining, until_ms) VALUES (${keyId}, 1, 1)`;
      }
      await insertLink(db, { ...link("l1"), purpose: "invite", userId: null, email: ada.email }, "l");
      await deleteUser(db, ada.id);
      for (const [table, column] of [
        ["capture", "key_id"],
        ["idempotency", "scope"],
        ["key_capture", "key_id"],
      ] as const) {
        const rows = await db.sql.text(`SELECT ${column} AS key_id FROM ${table}`, []);
        expect(rows, table).toEqual([{ key_id: `key-${bob.id}` }]);
      }
      expect(await findLink(db, "l", NOW_MS)).toBeNull();
    });
  });

  describe("personal access tokens", () => {
    test("are found until they expire, and not for a disabled user", async () => {
      const db = await withUsers();
      await insertAccessToken(db, token, "d");
      expect(await findAccessToken(db, "d", NOW_MS)).toMatchObject({ token, owner: { userId: ada.id } });
      expect(await findAccessToken(db, "d", NOW_MS + 1_000)).toBeNull();
      await putUser(db, { ...ada, status: "disabled" });
      expect(await findAccessToken(db, "d", NOW_MS)).toBeNull();
    });

    test("record their last use and belong to one user", async () => {
      const db = await withUsers();
      await insertAccessToken(db, token, "d");
      await touchAccessToken(db, token.id, NOW_MS + 7);
      expect(await listAccessTokens(db, ada.id)).toEqual([{ ...token, usedAtMs: NOW_MS + 7 }]);
      expect(await deleteAccessToken(db, bob.id, token.id)).toBeNull();
      expect(await deleteAccessToken(db, ada.id, token.id)).toEqual({ name: "ci", scope: "read" });
      expect(await listAccessTokens(db, ada.id)).toEqual([]);
    });
  });

  describe("links", () => {
    test("are used once, for their purpose, until they expire", async () => {
      const db = await withUsers();
      await insertLink(db, link("l1"), "d");
      expect(await takeLink(db, "d", "sign_in", NOW_MS)).toBeNull();
      expect(await takeLink(db, "d", "reset", NOW_MS + 1_000)).toBeNull();
      const both = await Promise.all([
        takeLink(db, "d", "reset", NOW_MS),
        takeLink(db, "d", "reset", NOW_MS),
      ]);
      expect(both.filter((one) => one !== null)).toEqual([link("l1")]);
      expect(await findLink(db, "d", NOW_MS)).toBeNull();
      expect(await deleteLink(db, "l1")).toBeNull();
    });

    test("a newer link replaces an older one of the same purpose and address", async () => {
      const db = await withUsers();
      await insertLink(db, link("l1"), "d1");
      await insertLink(db, link("l2", { purpose: "sign_in" }), "d2");
      await insertLink(db, link("l3"), "d3");
      expect(await findLink(db, "d1", NOW_MS)).toBeNull();
      expect(await findLink(db, "d2", NOW_MS)).not.toBeNull();
      expect((await listLinks(db, NOW_MS, { after: null, limit: 9 })).map(({ id }) => id)).toEqual([
        "l3",
        "l2",
      ]);
      expect((await listLinks(db, NOW_MS, { after: "l3", limit: 9 })).map(({ id }) => id)).toEqual(["l2"]);
      expect(await deleteLink(db, "l2")).toEqual({ purpose: "sign_in", email: ada.email });
      await sweepLinks(db, NOW_MS + 1_001);
      expect(await listLinks(db, 0, { after: null, limit: 9 })).toEqual([]);
    });

    test("verification links coexist until one is opened", async () => {
      const db = await withUsers();
      const verify = { purpose: "verify", userId: null } as const;
      await insertLink(db, link("l1", verify), "d1");
      await insertLink(db, link("l2", verify), "d2");
      await insertLink(db, link("l3", { ...verify, email: bob.email }), "d3");
      expect(await findLink(db, "d1", NOW_MS)).toMatchObject({ id: "l1", userId: null });
      await deleteLinksTo(db, ada.email);
      expect((await listLinks(db, NOW_MS, { after: null, limit: 9 })).map(({ id }) => id)).toEqual(["l3"]);
    });
  });

  describe("credentials", () => {
    test("are found by e-mail address, regardless of case", async () => {
      const db = await withUsers();
      expect(await findCredentialsByEmail(db, "ADA@EXAMPLE.com")).toMatchObject({
        userId: ada.id,
        passwordHash: "hash",
        secondFactor: null,
      });
      expect(await findCredentials(db, "user_none")).toBeNull();
    });

    test("a new password ends sessions and increases the revision of keys", async () => {
      const db = await withUsers();
      await insertSession(db, session("s1"), "d");
      const before = await readRevisions(db);
      await writePassword(db, ada.id, "new");
      expect((await findCredentials(db, ada.id))?.passwordHash).toBe("new");
      expect(await findSession(db, "d", ever)).toBeNull();
      expect((await readRevisions(db)).keys).toBeGreaterThan(before.keys);
    });

    test("a new password deletes the links that would bypass it", async () => {
      const db = await withUsers();
      const insertAll = async () => {
        for (const purpose of ["reset", "sign_in"] as const) {
          await insertLink(db, link(`l-${purpose}`, { purpose, userId: ada.id }), purpose);
        }
        await insertLink(db, link("l-bob", { purpose: "reset", userId: bob.id, email: bob.email }), "bob");
      };
      const left = async () => (await listLinks(db, NOW_MS, { after: null, limit: 9 })).map(({ id }) => id);
      await insertAll();
      await writePassword(db, ada.id, "new");
      expect(await left()).toEqual(["l-bob"]);
      await insertAll();
      await putUser(db, { ...ada, passwordHash: "newer" });
      expect(await left()).toEqual(["l-bob"]);
    });

    test("an active secret cannot be replaced, and a replaced secret cannot be confirmed", async () => {
      const db = await withUsers();
      const confirm = (sealedSecret: string, sinceMs: number) =>
        confirmSecondFactor(db, ada.id, { sealedSecret, sinceMs }, []);
      expect(await beginSecondFactor(db, ada.id, "first")).toBe(true);
      expect(await beginSecondFactor(db, ada.id, "second")).toBe(true);
      expect(await confirm("first", NOW_MS)).toBe(false);
      expect(await confirm("second", NOW_MS)).toBe(true);
      expect(await confirm("second", NOW_MS + 1)).toBe(false);
      expect(await beginSecondFactor(db, ada.id, "third")).toBe(false);
      expect((await findCredentials(db, ada.id))?.secondFactor).toEqual({
        sealedSecret: "second",
        sinceMs: NOW_MS,
      });
    });

    test("a second factor is active from its confirmation until it is removed", async () => {
      const db = await withUsers();
      expect(await removeSecondFactor(db, ada.id)).toBe(false);
      await beginSecondFactor(db, ada.id, "sealed");
      expect((await findCredentials(db, ada.id))?.secondFactor).toEqual({
        sealedSecret: "sealed",
        sinceMs: null,
      });
      await confirmSecondFactor(db, ada.id, { sealedSecret: "sealed", sinceMs: NOW_MS }, ["a", "b"]);
      expect(await findCredentials(db, ada.id)).toMatchObject({
        secondFactor: { sealedSecret: "sealed", sinceMs: NOW_MS },
        recoveryDigests: ["a", "b"],
      });
      expect(await removeSecondFactor(db, ada.id)).toBe(true);
      expect(await findCredentials(db, ada.id)).toMatchObject({ secondFactor: null, recoveryDigests: [] });
    });

    test("a TOTP step is accepted once, and none older than the last", async () => {
      const db = await withUsers();
      const both = await Promise.all([takeTotpStep(db, ada.id, 7), takeTotpStep(db, ada.id, 7)]);
      expect(both.toSorted()).toEqual([false, true]);
      expect(await takeTotpStep(db, ada.id, 6)).toBe(false);
      expect(await takeTotpStep(db, ada.id, 8)).toBe(true);
    });

    test("a recovery code works once, for its owner", async () => {
      const db = await withUsers();
      await beginSecondFactor(db, ada.id, "sealed");
      await confirmSecondFactor(db, ada.id, { sealedSecret: "sealed", sinceMs: NOW_MS }, ["a", "b"]);
      expect(await takeRecoveryCode(db, bob.id, "a")).toBe(false);
      const both = await Promise.all([takeRecoveryCode(db, ada.id, "a"), takeRecoveryCode(db, ada.id, "a")]);
      expect(both.toSorted()).toEqual([false, true]);
      expect((await findCredentials(db, ada.id))?.recoveryDigests).toEqual(["b"]);
    });

    test("an e-mail address is unverified until it is marked as verified", async () => {
      const db = await withUsers();
      expect(await findCredentials(db, ada.id)).toMatchObject({ emailVerifiedAtMs: null });
      await markVerified(db, ada.id, NOW_MS);
      expect(await findCredentials(db, ada.id)).toMatchObject({ emailVerifiedAtMs: NOW_MS });
    });

    test("a disabled administrator does not count as administrator", async () => {
      const db = await withUsers();
      expect(await hasAdministrator(db)).toBe(false);
      await putUser(db, { ...ada, role: "admin", status: "disabled" });
      expect(await hasAdministrator(db)).toBe(false);
      await putUser(db, { ...ada, role: "admin" });
      expect(await hasAdministrator(db)).toBe(true);
    });
  });
});
