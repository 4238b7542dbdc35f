/** Request ids begin with their time, so later requests have greater ids. */

/** The least id of a request that began at this time or later. */
export function requestIdAt(atMs: number): string {
  const hex = atMs.toString(16).padStart(12, "0");
  return `req_${hex.slice(0, 8)}-${hex.slice(8)}`;
}

/** The inverse of `requestIdAt`; null for another text. */
export function requestIdTime(id: string): number | null {
  const parts = /^req_([0-9a-f]{8})-([0-9a-f]{4})/.exec(id);
  return parts === null ? null : Number.parseInt(`${parts[1]}${parts[2]}`, 16);
}
