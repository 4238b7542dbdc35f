/** The limits of request bodies: a part of `product-limits.ts`. */

const KiB = 1024;
const MiB = 1024 * KiB;

export const bodyLimits = {
  /** A JSON body after decoding. Inline images in base64 are the reason it is this large. */
  jsonBodyBytesMax: 64 * MiB,
  /** A multipart image edit: sixteen files of 50 MB, the mask, and the form's own bytes. */
  imageBodyBytesMax: 850_000_000,
  /** One file of a multipart image edit. */
  imageFileBytesMax: 50 * MiB,
  imageFilesMax: 16,
  /** Larger forms go to a file on disk instead of memory. */
  spoolAboveBytes: 1 * MiB,
  /** Memory for bodies above 1 MiB, those of all clients together: unless the file says how much. */
  largeBodies: {
    /** Of what the machine, or the container, has. The rest is for answers, sockets, and everything else. */
    memoryShare: 1 / 4,
    /** The largest body, as it was sent and as it was unpacked. */
    bytesMin: 128 * MiB,
    bytesMax: 2_048 * MiB,
    /** The share of the room, and of the places in line, that one user may have (or one key without a user). */
    ownerShare: 1 / 2,
    /** Shorter than `unaskedMs` below, by a look: what nobody reads by then is thrown away. */
    patienceMs: 3_000,
    waitingMax: 256,
  },
  /** Memory for bodies of up to 1 MiB, those of all clients together. Large bodies cannot use it up. */
  smallBodies: {
    memoryShare: 1 / 8,
    bytesMin: 64 * MiB,
    bytesMax: 1_024 * MiB,
    ownerShare: 1 / 2,
    patienceMs: 3_000,
    waitingMax: 1_024,
  },
  /** Disk space for forms that are too large for memory, those of all clients together. */
  spool: {
    bytesMax: 2_048 * MiB,
    /** The share that one user may have (or one key without a user), unless it is for a single form. */
    ownerShare: 1 / 2,
    patienceMs: 3_000,
    waitingMax: 64,
  },
  bodyReading: {
    /** A body up to here is not counted: the number of connections bounds them. */
    uncountedBytesMax: 16 * KiB,
    /** The slowest average rate of a body after its first `bodyIdleTimeoutMs`: 128 kbit/s, which a weak mobile link has. */
    bytesPerSecondMin: 16 * KiB,
    /** A packed body may become so many times as long, and `unpackedFreeBytes` in any case. */
    unpackedRatioMax: 100,
    unpackedFreeBytes: 1 * MiB,
  },
  /** A longer body is checked in a thread of its own, so that other requests do not wait for it. */
  inspectInThreadAboveBytes: 256 * KiB,
} as const;
