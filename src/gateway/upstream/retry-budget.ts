/**
 * Limits failovers, so that retries do not multiply the load of an outage. The first failover of a request is always
 * allowed: clients must not notice one failing account, however many requests it fails at once, and cool-downs keep
 * later requests away from it. Further failovers are for isolated faults: at most a fifth of the requests in flight may
 * make them.
 */

export interface RetryBudget {
  open(): Retries;
}

/** The failovers of one request during its dispatch. */
export interface Retries {
  mayRetry(): boolean;
  close(): void;
}

const SHARE = 0.2;
/** A fifth of a few requests would be none. */
const ALWAYS_ALLOWED = 10;

export function openRetryBudget(): RetryBudget {
  const load: Load = { inFlight: 0, retrying: 0 };
  return { open: () => new RequestRetries(load) };
}

interface Load {
  inFlight: number;
  retrying: number;
}

class RequestRetries implements Retries {
  readonly #load: Load;
  #failovers = 0;
  #isCounted = false;

  constructor(load: Load) {
    this.#load = load;
    load.inFlight++;
  }

  mayRetry(): boolean {
    const load = this.#load;
    if (++this.#failovers === 1 || this.#isCounted) return true;
    if (load.retrying >= Math.max(ALWAYS_ALLOWED, load.inFlight * SHARE)) return false;
    this.#isCounted = true;
    load.retrying++;
    return true;
  }

  close(): void {
    this.#load.inFlight--;
    if (this.#isCounted) this.#load.retrying--;
  }
}
