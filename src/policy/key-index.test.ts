import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { KeyOfUser } from "../records/key.ts";
import { type CallerLimits, NO_LIMITS } from "../records/limits.ts";
import { keyRecord } from "../records/records.test-support.ts";
import { KeyIndex } from "./key-index.ts";

const NOW_MS = 10_000;

const record = (id: string, change: Partial<KeyOfUser> = {}): KeyOfUser => ({
  ...keyRecord(id),
  userLimits: NO_LIMITS,
  capture: null,
  formerSecrets: [],
  ...change,
});

describe("the key index", () => {
  test("an active key is found by its digest", () => {
    const index = new KeyIndex();
    index.patch([record("k1", { userId: "u1", groupId: "g2", expiresAtMs: 5_000 })]);
    expect(index.find("digest of k1", NOW_MS)).toEqual({
      id: "k1",
      name: "name of k1",
      publicId: "pub-k1",
      userId: "u1",
      groupId: "g2",
      expiresAtMs: 5_000,
      createdAtMs: 1,
      limits: NO_LIMITS,
      userLimits: NO_LIMITS,
      requestPolicy: null,
      fallback: null,
      capture: null,
      isTool: false,
    });
    expect(index.find("digest of k2", NOW_MS)).toBeUndefined();
  });

  test("a revoked key is removed from the index", () => {
    const index = new KeyIndex();
    index.patch([record("k1"), record("k2")]);
    index.patch([record("k1", { status: "revoked", revokedAtMs: 9 })]);
    expect(index.find("digest of k1", NOW_MS)).toBeUndefined();
    expect(index.find("digest of k2", NOW_MS)?.id).toBe("k2");
    expect(index.size).toBe(1);
  });

  test("a key revoked before it was first seen is not added", () => {
    const index = new KeyIndex();
    index.patch([record("k1", { status: "revoked" })]);
    expect(index.find("digest of k1", NOW_MS)).toBeUndefined();
    expect(index.size).toBe(0);
  });

  test("a key with a new secret is found by the new digest only", () => {
    const index = new KeyIndex();
    index.patch([record("k1")]);
    index.patch([record("k1", { digest: "fresh" })]);
    expect(index.find("digest of k1", NOW_MS)).toBeUndefined();
    expect(index.find("fresh", NOW_MS)?.id).toBe("k1");
    expect(index.size).toBe(1);
  });

  test("a rotated key is also found by its former secret until that secret ends", () => {
    const index = new KeyIndex();
    index.patch([record("k1")]);
    const formerSecrets = [{ digest: "digest of k1", worksUntilMs: NOW_MS + 1 }];
    index.patch([record("k1", { digest: "fresh", formerSecrets })]);
    expect(index.find("digest of k1", NOW_MS)).toBe(index.get("k1"));
    expect(index.find("fresh", NOW_MS)).toBe(index.get("k1"));
    expect(index.find("digest of k1", NOW_MS + 1)).toBeUndefined();
    expect(index.size).toBe(1);
  });

  test("revoking a key ends its former secrets with it", () => {
    const index = new KeyIndex();
    const formerSecrets = [{ digest: "former", worksUntilMs: NOW_MS + 1 }];
    index.patch([record("k1", { formerSecrets })]);
    index.patch([record("k1", { formerSecrets, status: "revoked" })]);
    expect(index.find("former", NOW_MS)).toBeUndefined();
  });

  test("a key moved to another group is found with its new group", () => {
    const index = new KeyIndex();
    index.patch([record("k1")]);
    index.patch([record("k1", { groupId: "g2" })]);
    expect(index.find("digest of k1", NOW_MS)?.groupId).toBe("g2");
  });

  test("a key has its own limits and its user's, as last patched", () => {
    const rpm = (value: number): CallerLimits => ({ ...NO_LIMITS, rpm: value });
    const index = new KeyIndex();
    index.patch([record("k1", { limits: rpm(1), userLimits: rpm(2) })]);
    expect(index.find("digest of k1", NOW_MS)).toMatchObject({ limits: rpm(1), userLimits: rpm(2) });
    index.patch([record("k1", { limits: rpm(3), userLimits: NO_LIMITS })]);
    expect(index.find("digest of k1", NOW_MS)).toMatchObject({ limits: rpm(3), userLimits: NO_LIMITS });
  });

  test("an expired key stays in the index, so that the error can name the reason", () => {
    const index = new KeyIndex();
    index.patch([record("k1", { expiresAtMs: 1 })]);
    expect(index.find("digest of k1", NOW_MS)?.expiresAtMs).toBe(1);
  });

  test("incremental patches produce the same index as a full read", () => {
    const change = fc.record({
      id: fc.constantFrom("k1", "k2", "k3"),
      turn: fc.nat(5),
      status: fc.constantFrom("active" as const, "revoked" as const),
    });
    fc.assert(
      fc.property(fc.array(change), fc.nat(5), (changes, cut) => {
        const records = changes.map(({ id, turn, status }) =>
          record(id, { digest: `${id} secret ${turn}`, status }),
        );
        const patched = new KeyIndex();
        patched.patch(records.slice(0, cut));
        patched.patch(records.slice(cut));
        const lastOfEach = [...new Map(records.map((row) => [row.id, row])).values()];
        const active = lastOfEach.filter(({ status }) => status === "active");
        expect(patched.size).toBe(active.length);
        for (const { digest } of records) {
          expect(patched.find(digest, NOW_MS)?.id).toBe(active.find((row) => row.digest === digest)?.id);
        }
      }),
    );
  });
});
