/**
 * Opaque state of vendors, carried by clients in an envelope of the gateway. The envelope is bound to the owner of the
 * API key and names the account, so that a conversation survives a change of account or vendor: state that the next
 * upstream cannot use is dropped instead of being rejected there.
 */

import { ENVELOPE_PREFIX } from "../shared/envelope-prefix.ts";
import type { Dialect, OpaqueField, OpaqueState } from "./hub-request.ts";

export interface VendorState {
  readonly field: OpaqueField;
  readonly value: string;
}

/** Seals and opens state for one account and one owner. */
export interface StateSealer {
  seal(state: VendorState): OpaqueState;
  /** Null if the state belongs to another account, vendor or owner: it must be dropped. */
  open(state: OpaqueState): VendorState | null;
}

export { ENVELOPE_PREFIX };

/** Reads a field of a client that contains opaque state. */
export function readOpaqueText(
  value: string,
  { dialect, field }: { readonly dialect: Dialect; readonly field: OpaqueField },
): OpaqueState {
  return value.startsWith(ENVELOPE_PREFIX)
    ? { kind: "sealed", envelope: value }
    : { kind: "vendor", dialect, field, value };
}

/** The text that a client carries. */
export function opaqueText(state: OpaqueState): string {
  return state.kind === "sealed" ? state.envelope : state.value;
}
