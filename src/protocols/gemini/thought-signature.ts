/**
 * Opaque state in the `thoughtSignature` of a part. The field is bytes in Base64, so an envelope of the gateway is
 * encoded once more. gemini-cli sends no thoughts back, only the signatures of calls: the visible reasoning that belongs
 * to the state therefore travels with the envelope.
 */

import type { OpaqueState } from "../hub/hub-request.ts";
import { ENVELOPE_PREFIX } from "../hub/sealed-state.ts";

export interface SignedThought {
  readonly opaque: OpaqueState;
  /** The reasoning that the state belongs to; empty if it is not known. */
  readonly text: string;
}

/** Google's placeholder for calls that another model made. */
export const FOREIGN_CALL_SIGNATURE = "skip_thought_signature_validator";

export const ENCODED_ENVELOPE_START = Buffer.from(ENVELOPE_PREFIX).toString("base64").slice(0, 6);

/**
 * An envelope without content, for calls of upstreams that have no state. A conversation that moves on to Google's own
 * account needs some signature there, and each envelope is replaced by the placeholder. The placeholder itself is not
 * valid Base64, which some clients check.
 */
export const NO_STATE_SIGNATURE = Buffer.from(ENVELOPE_PREFIX).toString("base64");

export function writeSignature({ opaque, text }: SignedThought): string {
  if (opaque.kind === "vendor") return opaque.value;
  return Buffer.from(text === "" ? opaque.envelope : `${opaque.envelope}\n${text}`).toString("base64");
}

/** Null for a signature that carries nothing. */
export function readSignature(signature: unknown): SignedThought | null {
  if (typeof signature !== "string" || isWithoutState(signature)) return null;
  if (!signature.startsWith(ENCODED_ENVELOPE_START)) {
    const opaque = {
      kind: "vendor",
      dialect: "gemini",
      field: "thought_signature",
      value: signature,
    } as const;
    return { opaque, text: "" };
  }
  const decoded = Buffer.from(signature, "base64").toString();
  const lineEnd = decoded.indexOf("\n");
  return lineEnd === -1
    ? { opaque: { kind: "sealed", envelope: decoded }, text: "" }
    : { opaque: { kind: "sealed", envelope: decoded.slice(0, lineEnd) }, text: decoded.slice(lineEnd + 1) };
}

export function isWithoutState(signature: string): boolean {
  return signature === "" || signature === FOREIGN_CALL_SIGNATURE || signature === NO_STATE_SIGNATURE;
}
