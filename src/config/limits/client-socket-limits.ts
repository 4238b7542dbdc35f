/** Limits of the WebSockets of clients. `product-limits.ts` includes them. A frame may be as long as a JSON body. */

const KiB = 1024;
const MiB = 1024 * KiB;

export const clientSocketLimits = {
  /** After this time the client is requested, between two turns, to open a new socket. */
  socketAgeMs: 3_600_000,
  /** A socket that receives nothing, not even a pong, is closed. The ping is sent after two thirds of this time. */
  socketIdleSeconds: 30,
  /** Sockets that one key may have open. */
  socketsPerKeyMax: 1_000,
  /** Frames of one socket per second. A socket that sends four times as many is closed. */
  socketMessagesPerSecondMax: 200,
  /** Warm-ups are free of charge, so the limit is low. */
  socketWarmUpsPerSecondMax: 5,
  /** Settings of a warm-up, such as its tools, that its response repeats. */
  socketWarmUpEchoBytesMax: 1 * MiB,
  socketLanesMax: 32,
  /** Turns of one lane that wait for the previous one. */
  socketTurnsWaitingMax: 16,
  /** Concurrent turns of one socket, on all of its lanes. */
  socketTurnsMax: 16,
  /** Bytes of frames that wait for their turn: on the sockets of one key, and on all sockets. */
  socketsWaitingKeyBytesMax: 64 * MiB,
  socketsWaitingBytesMax: 256 * MiB,
  /** Bytes of incomplete frames: on the sockets of one key, and on all sockets. */
  socketsUnfinishedKeyBytesMax: 128 * MiB,
  socketsUnfinishedBytesMax: 512 * MiB,
  /** Memory for stored conversations: of one socket, of one key, and of all sockets. */
  socketMemoryBytesMax: 32 * MiB,
  socketMemoriesKeyBytesMax: 128 * MiB,
  socketMemoriesBytesMax: 512 * MiB,
  /** Unsent bytes of a client above which reading from its upstreams pauses (back-pressure). */
  socketBufferedBytesMax: 64 * KiB,
  /** How often sockets are checked for revoked keys and for their age; see `policyPollMs`. */
  socketCheckIntervalMs: 250,
} as const;
