/** Begins every envelope in which clients carry the opaque state of vendors. */
export const ENVELOPE_PREFIX = "gws1.";

/** The value of a state that no account of the vendor has issued: the gateway's envelope, or none. */
export function isForeignState(value: string | null | undefined): boolean {
  return value === "" || value?.startsWith(ENVELOPE_PREFIX) === true;
}
