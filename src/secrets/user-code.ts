/** The code that a person types to sign in a tool: eight letters without vowels, so that no words arise. */

import type { RandomBytes } from "./keyring.ts";

const LETTERS = "BCDFGHJKLMNPQRSTVWXZ";
const CODE_LETTERS = 8;

/** Bytes from here on would make some letters more likely than others. */
const FAIR_BELOW = Math.floor(256 / LETTERS.length) * LETTERS.length;

/** Without the hyphen. */
export function mintUserCode(randomBytes: RandomBytes): string {
  let code = "";
  while (code.length < CODE_LETTERS)
    for (const byte of randomBytes(CODE_LETTERS * 2))
      if (byte < FAIR_BELOW && code.length < CODE_LETTERS) code += LETTERS[byte % LETTERS.length];
  return code;
}

/** As it is shown: `BCDF-GHJK`. */
export function formatUserCode(code: string): string {
  return `${code.slice(0, CODE_LETTERS / 2)}-${code.slice(CODE_LETTERS / 2)}`;
}

/** The code in a text as people type it: with or without hyphen and spaces, in any case. Null if there is none. */
export function parseUserCode(typed: string): string | null {
  const code = typed.replace(/[\s-]/g, "").toUpperCase();
  return new RegExp(`^[${LETTERS}]{${CODE_LETTERS}}$`).test(code) ? code : null;
}
