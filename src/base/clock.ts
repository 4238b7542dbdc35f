/** Clock and id generator. Both are passed in, so that tests control time and randomness. */

export interface Clock {
  /** Wall-clock time in milliseconds, for records and headers. Do not measure durations with it. */
  nowMs(): number;
  /** Milliseconds that never decrease, for deadlines and durations. */
  monotonicMs(): number;
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
};

/** `newId("req")` → `req_0199…`. Ids are ordered by time, so that new rows are adjacent in the index. */
export type NewId = (prefix: string) => string;

export const uuidV7: NewId = (prefix) => `${prefix}_${Bun.randomUUIDv7()}`;
