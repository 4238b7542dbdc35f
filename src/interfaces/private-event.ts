/** Which events of a Responses upstream are for clients, and which are between the upstream and us. */

/**
 * What an upstream says of the account's limits, of its machines, or in place of headers. Clients know `error` and
 * `response.…`, and strict ones take nothing else.
 */
export function isPrivateEvent(type: string): boolean {
  if (type === "response.metadata") return true;
  return !type.startsWith("response.") && type !== "error";
}

/** The name that stands there begins with `response.`. Byte by byte: every event is asked. */
export function isResponseEvent(bytes: Uint8Array, at: number): boolean {
  return (
    bytes[at + 8] === 0x2e &&
    bytes[at] === 0x72 &&
    bytes[at + 1] === 0x65 &&
    bytes[at + 2] === 0x73 &&
    bytes[at + 3] === 0x70 &&
    bytes[at + 4] === 0x6f &&
    bytes[at + 5] === 0x6e &&
    bytes[at + 6] === 0x73 &&
    bytes[at + 7] === 0x65
  );
}
