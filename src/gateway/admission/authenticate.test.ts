import { describe, expect, test } from "bun:test";
import { ApiError } from "../../errors.ts";
import { KeyIndex, type PresentedSecret } from "../../policy/key-index.ts";
import { compileSnapshot } from "../../policy/snapshot.ts";
import type { KeyOfUser } from "../../records/key.ts";
import { NO_LIMITS } from "../../records/limits.ts";
import { groupRecord, keyRecord } from "../../records/records.test-support.ts";
import { hashImported, importedDigest } from "../../secrets/api-key.ts";
import { authenticate } from "./authenticate.ts";
import { openBadKeyThrottle } from "./bad-key-throttle.ts";

const NOW_MS = 1_000_000;
/** How long the plain hash of an imported secret is accepted. */
const LIFE_MS = 1_000;

const record = (id: string, change: Partial<KeyOfUser> = {}): KeyOfUser => ({
  ...keyRecord(id, { digest: `digest of gwk_${id}` }),
  userLimits: NO_LIMITS,
  capture: null,
  formerSecrets: [],
  ...change,
});

const SNAPSHOT = compileSnapshot(
  {
    models: [],
    accounts: [],
    groups: [groupRecord("g1", { name: "team", interfaces: ["chat"] })],
  },
  { simulatorUrl: null, unseal: () => null },
);

function openKeys(...keys: KeyOfUser[]) {
  const index = new KeyIndex();
  index.patch(keys);
  const digested: string[] = [];
  const adopted: [string, PresentedSecret][] = [];
  const auth = {
    keys: index,
    digest(secret: string) {
      digested.push(secret);
      return `digest of ${secret}`;
    },
    badKeys: openBadKeyThrottle({ triesPerMinute: 2, monotonicMs: () => 0 }),
    imported: { lifeMs: LIFE_MS, adopt: (...used: [string, PresentedSecret]) => void adopted.push(used) },
    publicUrl: "http://localhost",
    nowMs: () => NOW_MS,
  };
  return {
    adopted,
    digested,
    index,
    authenticateWith: (headers: Record<string, string>, address = "203.0.113.7") =>
      authenticate(new Headers(headers), SNAPSHOT, auth, {
        clientAddress: () => address,
        networkAddress: () => address,
      }),
  };
}

function rejection(attempt: () => unknown): ApiError | null {
  try {
    attempt();
    return null;
  } catch (thrown) {
    if (thrown instanceof ApiError) return thrown;
    throw thrown;
  }
}

const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` });

describe("a valid key", () => {
  test.each<Record<string, string>>([
    { authorization: "Bearer gwk_k1" },
    { authorization: "bearer gwk_k1" },
    { authorization: "BEARER   gwk_k1 " },
    { authorization: "Bearer gwk_k1, Bearer gwk_k1" },
    { "x-api-key": "gwk_k1" },
    { "api-key": " gwk_k1 " },
  ])("authenticates the caller: %j", (headers) => {
    expect(openKeys(record("k1")).authenticateWith(headers)).toMatchObject({
      key: { id: "k1" },
      group: { id: "g1" },
    });
  });

  test("in the Authorization header takes precedence over other key headers", () => {
    const { authenticateWith } = openKeys(record("k1"), record("k2"));
    expect(authenticateWith({ ...bearer("gwk_k1"), "x-api-key": "gwk_k2" }).key.id).toBe("k1");
  });

  test("is not throttled by invalid keys from the same address", () => {
    const { authenticateWith } = openKeys(record("k1"));
    for (let i = 0; i < 5; i++) rejection(() => authenticateWith(bearer("gwk_wrong")));
    expect(authenticateWith(bearer("gwk_k1")).key.id).toBe("k1");
  });
});

describe("a key of another gateway that knew only the SHA-256 of its secret", () => {
  const imported = (change: Partial<KeyOfUser> = {}) =>
    record("k1", {
      digest: importedDigest(hashImported("sk-from-elsewhere")),
      createdAtMs: NOW_MS - 10,
      ...change,
    });

  test("works with the secret that its owner has, and is adopted once", () => {
    const { authenticateWith, adopted, index } = openKeys(imported());
    for (let i = 0; i < 3; i++) expect(authenticateWith(bearer("sk-from-elsewhere")).key.id).toBe("k1");
    const [sha256Hex, digest] = [hashImported("sk-from-elsewhere"), "digest of sk-from-elsewhere"];
    expect(adopted).toEqual([["k1", { sha256Hex, digest }]]);
    // The poll of the policy brings the record with the keyed digest, and later the end of the key.
    index.patch([imported({ digest: "digest of sk-from-elsewhere" })]);
    expect(authenticateWith(bearer("sk-from-elsewhere")).key.id).toBe("k1");
    index.patch([imported({ status: "revoked", revokedAtMs: NOW_MS })]);
    expect(rejection(() => authenticateWith(bearer("sk-from-elsewhere")))?.code).toBe("invalid_api_key");
  });

  test("does not work with another secret, nor with the hash itself", () => {
    const { authenticateWith, adopted } = openKeys(imported());
    const hash = hashImported("sk-from-elsewhere");
    for (const secret of [hash, importedDigest(hash)])
      expect(rejection(() => authenticateWith(bearer(secret)))?.code).toBe("invalid_api_key");
    expect(adopted).toEqual([]);
  });

  test("no longer works if it was not used in time", () => {
    const { authenticateWith } = openKeys(imported({ createdAtMs: NOW_MS - LIFE_MS }));
    expect(rejection(() => authenticateWith(bearer("sk-from-elsewhere")))?.code).toBe("invalid_api_key");
  });
});

describe("a request without a key", () => {
  test.each<Record<string, string>>([
    {},
    { authorization: "" },
    { authorization: "Bearer" },
    { authorization: "Bearer  " },
    { authorization: "Basic dXNlcjpwYXNz" },
    { authorization: "gwk_k1" },
    { "x-api-key": " " },
  ])("is rejected with a hint how to send the key: %j", (headers) => {
    const { authenticateWith } = openKeys(record("k1"));
    for (let i = 0; i < 5; i++) {
      expect(rejection(() => authenticateWith(headers))).toMatchObject({
        status: 401,
        code: "missing_api_key",
        headers: { "www-authenticate": "Bearer" },
        message: expect.stringContaining("Authorization: Bearer"),
      });
    }
  });
});

describe("an invalid key", () => {
  test("gets the same error whether it is unknown or revoked", () => {
    const { authenticateWith, index } = openKeys(record("k1"));
    const unknown = rejection(() => authenticateWith(bearer("gwk_nobody")));
    index.patch([record("k1", { status: "revoked" })]);
    const revoked = rejection(() => authenticateWith(bearer("gwk_k1")));
    expect(unknown).toMatchObject({
      status: 401,
      code: "invalid_api_key",
      headers: { "www-authenticate": "Bearer" },
    });
    expect(revoked?.message).toBe(unknown?.message ?? "");
    expect(unknown?.message).not.toContain("nobody");
  });

  test("is quoted by its last characters only if it has the gateway's key format", () => {
    const { authenticateWith } = openKeys(record("k1"));
    const messageFor = (secret: string) => rejection(() => authenticateWith(bearer(secret), secret))?.message;
    const why = "The key is invalid or has been revoked. Check the key, or create a new one.";
    const random = "0123456789abcdefghijABCDEFGHIJ0123456789abcdefghi";
    expect(messageFor(`gwk_abcdefgh_${random}`)).toBe(`Incorrect API key provided: gwk_****fghi. ${why}`);
    for (const other of [`sk-${random}`, `gwk_${random} ${random}`, "gwk_short", "hunter2"])
      expect(messageFor(other)).toBe(`Incorrect API key provided. ${why}`);
  });

  test("is rejected even next to a valid key in the same header", () => {
    const { authenticateWith } = openKeys(record("k1"));
    for (const both of ["Bearer gwk_k1, Bearer gwk_k2", "Bearer gwk_k1, gwk_k1", "Bearer gwk_k1,"])
      expect(rejection(() => authenticateWith({ authorization: both }, both))?.code).toBe("invalid_api_key");
  });

  test("is rate-limited per address, with Retry-After", () => {
    const { authenticateWith } = openKeys();
    const codes = [1, 2, 3].map(() => rejection(() => authenticateWith(bearer("gwk_wrong")))?.code);
    expect(codes).toEqual(["invalid_api_key", "invalid_api_key", "rate_limit_exceeded"]);
    expect(rejection(() => authenticateWith(bearer("gwk_wrong")))?.headers).toEqual({ "retry-after": "60" });
    expect(rejection(() => authenticateWith(bearer("gwk_wrong"), "198.51.100.1"))?.code).toBe(
      "invalid_api_key",
    );
  });

  test("of more than 512 characters is rejected without computing its digest", () => {
    const { authenticateWith, digested } = openKeys();
    expect(rejection(() => authenticateWith(bearer("x".repeat(513))))?.code).toBe("invalid_api_key");
    expect(digested).toEqual([]);
    rejection(() => authenticateWith(bearer("x".repeat(512))));
    expect(digested).toHaveLength(1);
  });
});

describe("a key that is no longer usable", () => {
  test("is rejected as expired from its expiry time on, not earlier", () => {
    const { authenticateWith } = openKeys(
      record("k1", { expiresAtMs: NOW_MS }),
      record("k2", { expiresAtMs: NOW_MS + 1 }),
    );
    expect(rejection(() => authenticateWith(bearer("gwk_k1")))).toMatchObject({
      status: 401,
      code: "invalid_api_key",
      message: expect.stringContaining("expired"),
    });
    expect(authenticateWith(bearer("gwk_k2")).key.id).toBe("k2");
  });

  test("is rejected with a message about the group if its group was deleted", () => {
    const { authenticateWith } = openKeys(record("k1", { groupId: "gone" }));
    expect(rejection(() => authenticateWith(bearer("gwk_k1")))).toMatchObject({
      status: 401,
      code: "invalid_api_key",
      message: expect.stringContaining("group"),
    });
  });

  test("does not count as an invalid key", () => {
    const { authenticateWith } = openKeys(record("k1", { expiresAtMs: 1 }));
    for (let i = 0; i < 5; i++) {
      expect(rejection(() => authenticateWith(bearer("gwk_k1")))?.code).toBe("invalid_api_key");
    }
  });
});
