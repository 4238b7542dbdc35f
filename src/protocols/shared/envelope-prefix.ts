/** Begins every envelope in which clients carry the opaque state of vendors. */
export const ENVELOPE_PREFIX = "gws1.";
