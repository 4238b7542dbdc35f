import { expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { hasValidChecksum } from "./api-key.ts";
import { isAccessToken, mintAccessToken, mintSecret, secretDigest } from "./random-secret.ts";
import { mintRecoveryCode, recoveryCodeSecret } from "./recovery-code.ts";

test("a secret is random and identified by its digest", () => {
  const [one, two] = [mintSecret(randomBytes), mintSecret(randomBytes)];
  expect(one.secret).toMatch(/^[0-9A-Za-z]{43}$/);
  expect(one.secret).not.toBe(two.secret);
  expect(secretDigest(one.secret)).toBe(one.digest);
});

test("a personal access token differs from an API key, and its checksum detects typing errors", () => {
  const { secret } = mintAccessToken(randomBytes);
  expect(secret).toMatch(/^gwp_[0-9A-Za-z]{49}$/);
  expect(isAccessToken(secret)).toBe(true);
  expect(hasValidChecksum(secret)).toBe(false);
  const other = secret.endsWith("0") ? "1" : "0";
  expect(isAccessToken(secret.slice(0, -1) + other)).toBe(false);
  expect(isAccessToken(secret.replace("gwp_", "gwk_"))).toBe(false);
});

test("a recovery code ignores case and separators, and its digest depends on the user", () => {
  const code = mintRecoveryCode(() => Uint8Array.from([0, 1, 1, 0, 10, 11, 12, 13, 31, 30, 29, 28]));
  expect(code).toBe("0110-abcd-zyxw");
  const digested = recoveryCodeSecret("user_1", code);
  for (const typed of ["0110ABCDZYXW", "OiL0 abcd zyxw", " 0110-abcd-zyxw "]) {
    expect(recoveryCodeSecret("user_1", typed)).toBe(digested);
  }
  expect(recoveryCodeSecret("user_2", code)).not.toBe(digested);
});
