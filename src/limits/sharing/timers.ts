/** The timers of limit sharing. They are passed in, so that a model can run hours in seconds. */

export interface SharingTimers {
  /** Returns the function that cancels it. */
  after(ms: number, callback: () => void): () => void;
}

export const systemTimers: SharingTimers = {
  after(ms, callback) {
    const timer = setTimeout(callback, ms);
    return () => clearTimeout(timer);
  },
};
