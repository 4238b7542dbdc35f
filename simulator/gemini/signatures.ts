/**
 * Signatures of thoughts. A model signs its calls, and rejects a conversation whose current turn has calls without
 * their signatures, or with a signature that it never issued.
 */

import { computeHash } from "../model/text.ts";

/** Google's placeholder for calls that another model made. */
const PLACEHOLDER = "skip_thought_signature_validator";
const KIND = "simulated-thought/";

/** Bound to what was signed, so that a signature on another part is detected. */
export function sign(seed: number, content: string): string {
  return Buffer.from(`${KIND}${computeHash(seed, content).toString(16)}`).toString("base64");
}

export function isSignatureFor(seed: number, signature: unknown, content: string): boolean {
  return signature === PLACEHOLDER || signature === sign(seed, content);
}

export function signedCall(name: string, args: unknown): string {
  return `${name}\n${JSON.stringify(args ?? {})}`;
}
