/** Signatures of simulated thinking. They are checked when a client sends the thinking back. */

import { computeHash } from "../model/text.ts";

const PREFIX = "sim-signature";

/** Bound to the text and to the simulator: another simulator with another seed does not accept it. */
export function signThinking(seed: number, thinking: string): string {
  const digest = [0, 1, 2, 3].map((salt) => computeHash(seed + salt, `${PREFIX}${thinking}`).toString(16));
  return Buffer.from(`${PREFIX}.${digest.join(".")}`).toString("base64");
}

export function isSigned(seed: number, thinking: string, signature: unknown): boolean {
  return signature === signThinking(seed, thinking);
}

/** The data of a redacted block has no text. */
export function redactedData(seed: number): string {
  return signThinking(seed, "redacted");
}

/** The state of a citation, which must be sent back as it was issued. */
export const CITATION_INDEX = "c2ltdWxhdGVk";
