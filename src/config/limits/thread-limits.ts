/** The limits of work in threads. A part of `product-limits.ts`. */

const KiB = 1024;
const MiB = 1024 * KiB;

/** For every thread that works on input of clients or upstreams. */
const thread = {
  /** CPU time of one job. The longest that is needed, a body of 64 MiB, takes less than half of it. */
  jobCpuMs: 2_000,
  /** Time of one job on a machine that gives it no CPU time, or that does not report it. */
  jobMs: 30_000,
  /** Growth of the memory of the process while a job runs. A body of 64 MiB needs about 500 MiB. */
  jobMemoryBytes: 1_024 * MiB,
  waitingMax: 64,
  ownerShare: 1 / 2,
  checkMs: 50,
  idleMs: 60_000,
} as const;

/** One of two threads takes only jobs up to this size, so that they need not wait for the largest ones. */
const shortJobBytesMax = 8 * MiB;

export const threadLimits = {
  /** Checks of long bodies and frames. The memory budgets of bodies bound how many wait. */
  inspectionThreads: {
    ...thread,
    shortJobBytesMax,
    waitingMax: 1_024,
    /** 64 MiB took 0.4 to 2.6 s on busy cores, depending on their content. */
    jobCpuMs: 8_000,
  },
  /** Counts of input tokens. */
  tokenCountThread: { ...thread, inlineBytesMax: 32 * KiB },
  /** Translation of long requests, and of long responses that are not streamed. */
  translationThreads: {
    ...thread,
    requestBytesMin: 256 * KiB,
    /** A MiB of numbers that must keep their digits takes 80 ms to translate. */
    responseBytesMin: 256 * KiB,
    shortJobBytesMax,
    /** A request with the stored conversation that it continues. */
    requestBytesMax: 64 * MiB,
    /** What a response repeats of its request, such as its tools. */
    repeatedCharsMax: 4 * MiB,
  },
  /** Redaction, compression and encryption of one capture. */
  captureThread: { ...thread, jobCpuMs: 30_000 },
  /** Sealing and opening long stored responses. The slots of their loads bound how many wait. */
  recordThreads: { ...thread, inlineBytesMax: 128 * KiB, shortJobBytesMax: 1 * MiB },
  /** Files of the console API. Reading 4 MiB took up to 13 s and 850 MiB for the densest lines, 1.3 GiB for quotes. */
  fileThread: {
    ...thread,
    jobCpuMs: 120_000,
    jobMs: 300_000,
    jobMemoryBytes: 1_280 * MiB,
    waitingMax: 8,
  },
} as const;
