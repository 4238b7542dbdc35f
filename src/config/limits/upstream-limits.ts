/** Limits of access tokens and of WebSockets to upstreams. `product-limits.ts` includes them. */

const KiB = 1024;

export const upstreamLimits = {
  /** Access tokens of Google service accounts. */
  accessTokens: {
    /** From sending a request for a token to the last byte of the response. */
    timeoutMs: 10_000,
    responseBytesMax: 64 * KiB,
    /** A token is renewed this long before it expires. */
    renewBeforeMs: 300_000,
    /** A token that expires within this time is not used: the request would arrive too late. */
    expiryMarginMs: 10_000,
    /** The pause after a failed renewal, as long as the token is valid. */
    renewalPauseMs: 30_000,
  },
  /** WebSockets to upstreams. */
  upstreamSockets: {
    /** From opening the connection to the end of the WebSocket handshake. */
    handshakeTimeoutMs: 10_000,
    /** An older socket serves no further turn: OpenAI closes every socket after an hour. */
    ageMs: 3_300_000,
    /** A socket without an assigned conversation is closed after this long without use. */
    idleMs: 300_000,
    /** Silence before a ping is sent. After the same time again without a response, the upstream is considered dead. */
    pingMs: 30_000,
    /** Idle sockets that are kept for one account. */
    freeMax: 256,
    /** Delay after a response before a socket serves another conversation than its own. */
    reuseDelayMs: 250,
    /** A longer request is sent by HTTP: a message is copied and masked at once, and HTTP is written in pieces. */
    sentBytesMax: 16 * 1024 * 1024,
    /** How long HTTP is used for an account whose upstream rejected the WebSocket handshake. */
    unsupportedMs: 600_000,
  },
} as const;
