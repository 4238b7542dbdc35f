/** The limits of responses that the gateway stores itself. A part of `product-limits.ts`. */

const KiB = 1024;
const MiB = 1024 * KiB;

export const storedResponseLimits = {
  /**
   * Memory for conversations that the gateway stores for `previous_response_id`, of all keys and of one key. A longer
   * conversation than the latter is not stored.
   */
  storedConversationBytesMax: 128 * MiB,
  storedConversationKeyBytesMax: 16 * MiB,
  /** The same conversations in the database, compressed and sealed. */
  storedResponses: {
    /** Bytes of one response. A longer one stays in memory only: writing it would hold the event loop for too long. */
    recordBytesMax: 8 * MiB,
    /** Bytes of one user, or of a key without a user. Above it, the conversations used least recently are removed. */
    ownerBytesMax: 256 * MiB,
    /** Bytes of all users. It is checked at the same interval as the retention. */
    bytesMax: 4_096 * MiB,
    /** Memory of responses that wait to be written. Above it, those that wait the longest stay in memory only. */
    waitingBytesMax: 64 * MiB,
    /** Responses of one transaction. */
    batchMax: 32,
    batchBytesMax: 4 * MiB,
    checkpointBytes: 8 * MiB,
    retryMs: 1_000,
    /** How long a change of `retention.responses` takes to apply. */
    settingMs: 5_000,
    /** How often a node searches a recent response that another node may still be writing, and the pause between. */
    lookUpsMax: 4,
    lookUpPauseMs: 150,
    lookUpAgeMs: 3_600_000,
    /** How long a deletion waits for the response to be written. */
    removalWaitMs: 2_000,
    /** How often expired responses are removed. */
    sweepMs: 60_000,
    /** The shortest and longest `retention.responses`. */
    keptMsMin: 3_600_000,
    keptMsMax: 365 * 86_400_000,
  },
  /**
   * Calls of one key on responses that an upstream stores: those that read, and as many that cancel or delete. Programs
   * poll many short background responses at once.
   */
  forwardedStoredCallsOfKey: { inProgressMax: 4, waitingMax: 500 },
  /** Streams of one key of responses that an upstream stores. One may take as long as its response. */
  forwardedStoredStreamsOfKey: { inProgressMax: 64, waitingMax: 0 },
  /** Reads of stored responses from the database. */
  storedResponseLoads: {
    /** A response or conversation that needs more memory while it is read counts as long. */
    shortBytesMax: 256 * KiB,
    readBytesMax: 4 * MiB,
    readMax: 256,
    /** Loads of long ones: those of one user, or of a key without a user, and those of all. */
    own: { inProgressMax: 2, waitingMax: 60 },
    all: { inProgressMax: 4, waitingMax: 600 },
  },
} as const;
