import { expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { mintRedeemCode, readRedeemCode } from "./redeem-code.ts";

const chance = fc.uint8Array({ minLength: 20, maxLength: 20 });
const minted = chance.map((bytes) => mintRedeemCode(() => bytes).code);
const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

test("a code is six groups of four unambiguous characters, and its hint is the first group", () => {
  const { code, hint } = mintRedeemCode(randomBytes);
  expect(code).toMatch(/^([0-9A-HJKMNP-TV-Z]{4}-){5}[0-9A-HJKMNP-TV-Z]{4}$/);
  expect(code.slice(0, 4)).toBe(hint);
});

test("a code contains 100 random bits", () => {
  fc.assert(
    fc.property(chance, (bytes) => {
      const { code } = mintRedeemCode(() => bytes);
      const random = [...code.replaceAll("-", "").slice(0, 20)].map((char) => ALPHABET.indexOf(char));
      expect(random).toEqual([...bytes].map((byte) => byte % 32));
    }),
  );
});

test("a code is parsed regardless of case, separators and similar characters", () => {
  fc.assert(
    fc.property(minted, (code) => {
      expect(readRedeemCode(code)).toBe(code);
      expect(readRedeemCode(` ${code.toLowerCase().replaceAll("-", " ")}\n`)).toBe(code);
      expect(readRedeemCode(code.replaceAll("0", "o").replaceAll("1", "l").replaceAll("-", ""))).toBe(code);
    }),
  );
});

test("any single wrong character is detected", () => {
  const code = mintRedeemCode(randomBytes).code.replaceAll("-", "");
  for (let at = 0; at < code.length; at += 1) {
    for (const other of ALPHABET) {
      if (other === code[at]) continue;
      expect(readRedeemCode(code.slice(0, at) + other + code.slice(at + 1))).toBeNull();
    }
  }
});

test("any two transposed random characters are detected", () => {
  fc.assert(
    fc.property(minted, fc.nat(19), fc.nat(19), (code, a, b) => {
      const chars = [...code.replaceAll("-", "")];
      const [one, two] = [chars[a], chars[b]];
      fc.pre(one !== undefined && two !== undefined && one !== two);
      if (one === undefined || two === undefined) return;
      chars[a] = two;
      chars[b] = one;
      expect(readRedeemCode(chars.join(""))).toBeNull();
    }),
  );
});

test("other text is rejected", () => {
  for (const wrong of ["", "-", "U".repeat(24), "0".repeat(25), "gwk_abc", "ＡＢＣＤ".repeat(6)]) {
    expect(readRedeemCode(wrong)).toBeNull();
  }
});
