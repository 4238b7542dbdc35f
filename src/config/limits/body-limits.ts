/** Limits of request bodies. `product-limits.ts` includes them. */

const KiB = 1024;
const MiB = 1024 * KiB;

export const bodyLimits = {
  /** A JSON body after decoding. It is this large because of inline images in base64. */
  jsonBodyBytesMax: 64 * MiB,
  /** A multipart image edit: sixteen files of 50 MB, the mask, and the overhead of the form. */
  imageBodyBytesMax: 850_000_000,
  /** One file of a multipart image edit. */
  imageFileBytesMax: 50 * MiB,
  imageFilesMax: 16,
  /** Larger forms are spooled to a file on disk instead of memory. */
  spoolAboveBytes: 1 * MiB,
  /** Default memory budget for bodies above 1 MiB, for all clients together. The configuration file can override it. */
  largeBodies: {
    /** Share of the memory of the machine or container. The rest is for responses, sockets and everything else. */
    memoryShare: 1 / 4,
    /** Room for the largest body, both compressed and decompressed. */
    bytesMin: 128 * MiB,
    bytesMax: 2_048 * MiB,
    /** Share of the budget, and of its waiting list, that one user (or one key without a user) may occupy. */
    ownerShare: 1 / 2,
    /**
     * How long a request waits for memory. Shorter than `connections.unaskedMs` by more than one `lookMs`,
     * because an unread body is discarded then.
     */
    waitTimeoutMs: 3_000,
    waitingMax: 256,
  },
  /** Memory budget for bodies of up to 1 MiB, for all clients together. Large bodies cannot exhaust it. */
  smallBodies: {
    memoryShare: 1 / 8,
    bytesMin: 64 * MiB,
    bytesMax: 1_024 * MiB,
    ownerShare: 1 / 2,
    waitTimeoutMs: 3_000,
    waitingMax: 1_024,
  },
  /** Disk budget for forms that are too large for memory, for all clients together. */
  spool: {
    bytesMax: 2_048 * MiB,
    /** Share that one user (or one key without a user) may occupy. A single form may exceed it. */
    ownerShare: 1 / 2,
    waitTimeoutMs: 3_000,
    waitingMax: 64,
  },
  bodyReading: {
    /** Bodies up to this size are not counted: the number of connections bounds them. */
    uncountedBytesMax: 16 * KiB,
    /** Average rate of a body after its first `bodyIdleTimeoutMs`: 128 kbit/s, as a weak mobile link has. */
    bytesPerSecondMin: 16 * KiB,
    /** Maximum ratio of decompressed to compressed size. Results up to `unpackedFreeBytes` are always allowed. */
    unpackedRatioMax: 100,
    unpackedFreeBytes: 1 * MiB,
  },
  /** A longer body is inspected in a worker thread, so that it does not block other requests. */
  inspectInThreadAboveBytes: 256 * KiB,
} as const;
