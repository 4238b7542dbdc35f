/**
 * One account that fails must never be noticed, however many requests it fails at once: the first failover of a request
 * is always free, and cool-downs keep later requests away. A second one is for single faults only. When much fails
 * at once, trying everything again would multiply the load on what is left, so at most a fifth of the requests under
 * way may be at it.
 */

export interface RetryBudget {
  open(): Retries;
}

/** Those of one request, for as long as it is being dispatched. */
export interface Retries {
  mayRetry(): boolean;
  close(): void;
}

const SHARE = 0.2;
/** With few requests under way a fifth would be none. */
const ALWAYS_ALLOWED = 10;

export function openRetryBudget(): RetryBudget {
  let underWay = 0;
  let retrying = 0;
  return {
    open() {
      underWay++;
      let failovers = 0;
      let counted = false;
      return {
        mayRetry() {
          if (++failovers === 1 || counted) return true;
          if (retrying >= Math.max(ALWAYS_ALLOWED, underWay * SHARE)) return false;
          counted = true;
          retrying++;
          return true;
        },
        close() {
          underWay--;
          if (counted) retrying--;
        },
      };
    },
  };
}
