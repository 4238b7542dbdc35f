/**
 * One account that fails must never be noticed, however many requests it fails at once: the first failover of a request
 * is always free, and cool-downs keep later requests away. A second one is for single faults only. When much fails
 * at once, trying everything again would multiply the load on what is left, so at most a fifth of the requests under
 * way may be at it.
 */

export interface RetryBudget {
  open(): Retries;
}

/** The retries of one request while it is being dispatched. */
export interface Retries {
  mayRetry(): boolean;
  close(): void;
}

const SHARE = 0.2;
/** A fifth of a few requests would be none. */
const ALWAYS_ALLOWED = 10;

export function openRetryBudget(): RetryBudget {
  const load: Load = { underWay: 0, retrying: 0 };
  return { open: () => new RequestRetries(load) };
}

interface Load {
  underWay: number;
  retrying: number;
}

class RequestRetries implements Retries {
  private readonly load: Load;
  private failovers = 0;
  private isCounted = false;

  constructor(load: Load) {
    this.load = load;
    load.underWay++;
  }

  mayRetry(): boolean {
    const { load } = this;
    if (++this.failovers === 1 || this.isCounted) return true;
    if (load.retrying >= Math.max(ALWAYS_ALLOWED, load.underWay * SHARE)) return false;
    this.isCounted = true;
    load.retrying++;
    return true;
  }

  close(): void {
    this.load.underWay--;
    if (this.isCounted) this.load.retrying--;
  }
}
