import { describe, expect, test } from "bun:test";
import { findTotpStep, isTotpCode, mintTotpSecret, otpauthUrl, totpCode, totpStep } from "./totp.ts";

/** "12345678901234567890" in base32: the key of the RFC's examples. */
const RFC_SECRET = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";

describe("codes", () => {
  test.each([
    [59, "287082"],
    [1111111109, "081804"],
    [1111111111, "050471"],
    [1234567890, "005924"],
    [2000000000, "279037"],
    [20000000000, "353130"],
  ])("at %i seconds are those of RFC 6238", (seconds, code) => {
    expect(totpCode(RFC_SECRET, totpStep(seconds * 1000))).toBe(code);
  });

  test("are accepted one step early and one step late, and no further", () => {
    const nowMs = 1_794_000_000_000;
    const now = totpStep(nowMs);
    const found = [-2, -1, 0, 1, 2].map((by) =>
      findTotpStep(RFC_SECRET, totpCode(RFC_SECRET, now + by), nowMs),
    );
    expect(found).toEqual([null, now - 1, now, now + 1, null]);
    expect(findTotpStep(RFC_SECRET, "", nowMs)).toBeNull();
  });

  test("are six digits and nothing else", () => {
    expect(["123456", "012345"].every(isTotpCode)).toBe(true);
    expect(["12345", "1234567", "12345a", "１２３４５６", ""].some(isTotpCode)).toBe(false);
  });
});

test("a secret is 160 random bits in base32", () => {
  expect(mintTotpSecret(() => Buffer.from("12345678901234567890"))).toBe(RFC_SECRET);
});

test("the otpauth URL contains issuer and account, correctly escaped", () => {
  const url = otpauthUrl(RFC_SECRET, { issuer: "Model Gateway", account: "a+b:c@example.com" });
  expect(url).toBe(
    `otpauth://totp/Model%20Gateway:a%2Bb%3Ac%40example.com?secret=${RFC_SECRET}&issuer=Model%20Gateway`,
  );
});
