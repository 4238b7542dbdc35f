/** Ids of responses that the gateway itself creates: a UUID of version 7 after the prefix, which begins with its time. */

const OWN_ID = /^resp_([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export function isOwnResponseId(responseId: string): boolean {
  return OWN_ID.test(responseId);
}

/** When the response began; 0 for the id of an upstream. */
export function readIdTimeMs(responseId: string): number {
  const match = OWN_ID.exec(responseId);
  return match === null ? 0 : Number.parseInt(`${match[1]}${match[2]}`, 16);
}
