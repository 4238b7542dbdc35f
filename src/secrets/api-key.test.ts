import { describe, expect, test } from "bun:test";
import { createHmac, randomBytes } from "node:crypto";
import fc from "fast-check";
import { hasKeyPrefix, hasValidChecksum, mintApiKey, openDigester, readPublicId } from "./api-key.ts";

const ofBytes = (byte: number) => (count: number) => new Uint8Array(count).fill(byte);

describe("minting", () => {
  test("a key is prefix, public id, 43 random characters and a checksum", () => {
    const { secret, publicId, last4 } = mintApiKey(randomBytes);
    expect(secret).toMatch(/^gwk_[0-9A-Za-z]{8}_[0-9A-Za-z]{49}$/);
    expect(secret.slice(4, 12)).toBe(publicId);
    expect(secret.slice(-4)).toBe(last4);
    expect(hasKeyPrefix(secret)).toBe(true);
    expect(hasValidChecksum(secret)).toBe(true);
  });

  test("the smallest and the largest random values produce keys of the same length", () => {
    expect(mintApiKey(ofBytes(0)).secret).toHaveLength(62);
    expect(mintApiKey(ofBytes(255)).secret).toHaveLength(62);
  });

  test("no random bit is lost", () => {
    const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (chance) => {
        const { secret } = mintApiKey((count) => (count === 32 ? chance : ofBytes(7)(count)));
        let integer = 0n;
        for (const char of secret.slice(13, 56)) integer = integer * 62n + BigInt(alphabet.indexOf(char));
        expect(integer.toString(16).padStart(64, "0")).toBe(Buffer.from(chance).toString("hex"));
      }),
    );
  });
});

describe("the checksum", () => {
  test("detects every change of one character", () => {
    const { secret } = mintApiKey(randomBytes);
    for (let at = 0; at < secret.length; at += 1) {
      const other = secret[at] === "a" ? "b" : "a";
      expect(hasValidChecksum(secret.slice(0, at) + other + secret.slice(at + 1))).toBe(false);
    }
  });

  test("rejects other formats", () => {
    const { secret } = mintApiKey(randomBytes);
    for (const wrong of [
      "",
      "gwk_",
      "sk-abc",
      `${secret} `,
      `${secret}\n`,
      secret.slice(1),
      secret.toUpperCase(),
    ]) {
      expect(hasValidChecksum(wrong)).toBe(false);
    }
    expect(hasKeyPrefix("sk-abc")).toBe(false);
    expect(hasKeyPrefix("gwk_broken")).toBe(true);
  });
});

describe("digests", () => {
  test("are HMAC-SHA-256 of the secret under the pepper", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), fc.string(), (pepper, secret) => {
        const expected = createHmac("sha256", pepper).update(secret).digest("base64url");
        expect(openDigester(pepper)(secret)).toBe(expected);
      }),
    );
  });

  test("do not depend on earlier digests", () => {
    const digest = openDigester(ofBytes(1)(32));
    const first = digest("one");
    digest("two");
    expect(digest("one")).toBe(first);
  });
});

describe("the public id", () => {
  test("of a minted key is part of it", () => {
    const { secret, publicId } = mintApiKey(randomBytes);
    expect(readPublicId(secret, openDigester(ofBytes(1)(32))(secret))).toBe(publicId);
  });

  test("of an imported secret is derived from its digest and reveals nothing of it", () => {
    const digest = openDigester(ofBytes(1)(32));
    const secret = "an-imported-secret-of-some-other-form";
    const publicId = readPublicId(secret, digest(secret));
    expect(publicId).toMatch(/^[0-9A-Za-z]{8}$/);
    expect(secret).not.toContain(publicId);
    expect(readPublicId(secret, digest(secret))).toBe(publicId);
    expect(readPublicId("another-secret", digest("another-secret"))).not.toBe(publicId);
  });
});
