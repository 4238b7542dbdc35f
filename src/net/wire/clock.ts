/** Time and chance are passed in, so that tests can hold both. */

export interface Clock {
  /** Wall time in milliseconds: for records and headers, never for measuring. */
  nowMs(): number;
  /** Milliseconds that never run backwards: for deadlines and durations. */
  monotonicMs(): number;
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
};

/** `newId("req")` → `req_0199…`: time-ordered, so that rows land together in the index. */
export type NewId = (prefix: string) => string;

export const uuidV7: NewId = (prefix) => `${prefix}_${Bun.randomUUIDv7()}`;
