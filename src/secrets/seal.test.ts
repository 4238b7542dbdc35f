import { expect, test } from "bun:test";
import fc from "fast-check";
import { type Keyring, openKeyring } from "./keyring.ts";
import {
  accountCredentialBinding,
  readKeyId,
  SealError,
  type SealErrorReason,
  seal,
  unseal,
} from "./seal.ts";

const createKey = (byte: number) => Buffer.alloc(32, byte).toString("base64");
const openKeys = (text: string): Keyring => openKeyring({ file: "/nowhere", fromEnv: text });
const keyring = openKeys(`one:${createKey(1)}`);
const binding = accountCredentialBinding("acct_1");

function catchReason(attempt: () => unknown): SealErrorReason | null {
  try {
    attempt();
    return null;
  } catch (error) {
    if (error instanceof SealError) return error.reason;
    throw error;
  }
}

test("unsealing returns the sealed text", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), (plaintext) => {
      expect(unseal(keyring, binding, seal(keyring, binding, plaintext))).toBe(plaintext);
    }),
  );
});

test("a sealed value contains its key id, hides its text and is different each time", () => {
  const sealed = seal(keyring, binding, "sk-secret");
  expect(sealed).toMatch(/^v1:one:[A-Za-z0-9_-]+$/);
  expect(readKeyId(sealed)).toBe("one");
  expect(Buffer.from(sealed.slice(7), "base64url").toString("latin1")).not.toContain("sk-secret");
  expect(seal(keyring, binding, "sk-secret")).not.toBe(sealed);
});

test("a value moved to another row cannot be unsealed", () => {
  const sealed = seal(keyring, binding, "sk-secret");
  expect(catchReason(() => unseal(keyring, accountCredentialBinding("acct_2"), sealed))).toBe("corrupt");
});

test("a value with any byte changed cannot be unsealed", () => {
  const sealed = seal(keyring, binding, "sk-secret");
  const bytes = Buffer.from(sealed.slice(7), "base64url");
  for (let at = 0; at < bytes.length; at += 1) {
    const changed = Buffer.from(bytes);
    changed.writeUInt8(changed.readUInt8(at) ^ 1, at);
    expect(catchReason(() => unseal(keyring, binding, `v1:one:${changed.toString("base64url")}`))).toBe(
      "corrupt",
    );
  }
});

test("another key under the same id cannot unseal a value", () => {
  const sealed = seal(keyring, binding, "sk-secret");
  expect(catchReason(() => unseal(openKeys(`one:${createKey(2)}`), binding, sealed))).toBe("corrupt");
});

test("the error for a missing master key contains the key id", () => {
  const sealed = seal(keyring, binding, "sk-secret");
  const attempt = () => unseal(openKeys(`two:${createKey(2)}`), binding, sealed);
  expect(catchReason(attempt)).toBe("unknown_key");
  expect(attempt).toThrow('"one"');
});

test("other text is rejected as malformed", () => {
  for (const wrong of ["", "sk-secret", "v1:one:", "v1:one:AAAA", "v2:one:AAAA", `v1::${"A".repeat(60)}`]) {
    expect(catchReason(() => unseal(keyring, binding, wrong))).toBe("malformed");
  }
});

test("an old key still unseals after a new one became active", () => {
  const sealed = seal(keyring, binding, "sk-secret");
  const rotated = openKeys(`two:${createKey(2)},one:${createKey(1)}`);
  expect(unseal(rotated, binding, sealed)).toBe("sk-secret");
  expect(readKeyId(seal(rotated, binding, "sk-secret"))).toBe("two");
});
