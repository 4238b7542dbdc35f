/** The timers of the limit borrower. They are passed in, so that a model can run hours in seconds. */

export interface BorrowerTimers {
  /** Returns the function that cancels it. */
  after(ms: number, callback: () => void): () => void;
}

export function sleep(timers: BorrowerTimers, ms: number): Promise<void> {
  return new Promise((resolve) => void timers.after(ms, resolve));
}

/** Rejects after this time. The work itself continues. */
export function withDeadline<T>(timers: BorrowerTimers, work: Promise<T>, ms: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = timers.after(ms, () => reject(new Error(`no response within ${ms} ms`)));
    work.finally(cancel).then(resolve, reject);
  });
}

export const systemTimers: BorrowerTimers = {
  after(ms, callback) {
    const timer = setTimeout(callback, ms);
    return () => clearTimeout(timer);
  },
};
