/**
 * Every limit and deadline of the product, in one place. Nothing waits, grows or repeats without a name here;
 * code takes the value from here and passes it on, so a library's default never decides.
 */

const KiB = 1024;
const MiB = 1024 * KiB;

export const limits = {
  // What a client may send.

  /** A JSON body after decoding. Inline images in base64 are the reason it is this large. */
  jsonBodyBytesMax: 64 * MiB,
  /** A multipart image edit: sixteen files of 50 MB, the mask, and the form's own bytes. */
  imageBodyBytesMax: 850_000_000,
  /** One file of a multipart image edit. */
  imageFileBytesMax: 50 * MiB,
  imageFilesMax: 16,
  /** Larger bodies go to a file on disk instead of memory. */
  spoolAboveBytes: 4 * MiB,
  /** Nesting of a JSON body. Deeper is an attack on someone's recursive parser. */
  jsonDepthMax: 128,
  /** A model name, as sent by a client or written by an operator. */
  modelNameCharsMax: 256,
  /** A client that stops sending its body in the middle is cut off. */
  bodyIdleTimeoutMs: 10_000,
  /** A connection between requests, or one whose client takes nothing of a finished answer. */
  connectionIdleSeconds: 60,

  // What an upstream may do.

  /** Looking a host name up. */
  lookupTimeoutMs: 2_000,
  /** How long a checked address is used before its name is looked up again. */
  addressCacheMs: 30_000,
  /** TCP and TLS together. */
  connectTimeoutMs: 3_000,
  /** A connection to an upstream is kept this long after its last answer: less than most of them keep theirs. */
  upstreamIdleMs: 55_000,
  /** How many of them are kept for one address; more may be open while they are used. */
  upstreamIdleConnectionsMax: 1_024,
  /** Of an upstream's answer. */
  upstreamHeadBytesMax: 64 * KiB,
  /** From the request being sent to the answer's status line. */
  firstByteTimeoutMs: 120_000,
  /** Silence in a stream. Only data events reset it: an upstream's keep-alive comments do not prove life. */
  idleTimeoutMs: 300_000,
  /** The whole of an answer that is not streamed. */
  unaryTimeoutMs: 600_000,
  /** One server-sent event. Images arrive as a single event, hence the size. */
  eventBytesMax: 16 * MiB,
  /** An answer that is not streamed. */
  responseBytesMax: 128 * MiB,
  /** How much of an upstream's error body is read before it is rewritten. */
  upstreamErrorBytesMax: 64 * KiB,
  /** Accounts tried for one request, the first included. Never the same one twice. */
  attemptsMax: 3,

  // What a client is sent while it waits.

  /** An SSE comment goes out after this much silence, under the usual 30 s and 60 s of proxies. */
  keepAliveMs: 15_000,
  /** A silent reasoning model has `response.in_progress` repeated this often, for clients that ignore comments. */
  silentReasoningMs: 60_000,
  /** A client that takes nothing for this long is treated as gone. */
  writeStallMs: 60_000,
  /** How often deadlines are looked at: each may pass by this much before it is noticed. */
  alarmsMs: 50,
  /** How often open streams are looked at for silence: one timer for all of them. */
  pulseMs: 1_000,

  // What is kept, and how fast changes arrive.

  /** How often the store is asked for changes: bounds how long a revoked key lives on. */
  policyPollMs: 500,
  /** Recent responses whose account is known without asking the store. */
  rememberedResponsesMax: 50_000,
  usageWriter: {
    /** A usage row waits this long for company. */
    gatherMs: 50,
    batchRowsMax: 400,
    /** While the store is down: beyond this no new requests are taken, so that no row is lost. */
    waitingRowsMax: 100_000,
    retryMs: 500,
  },

  // How things end.

  /** At shutdown, requests in flight may finish for this long. */
  drainTimeoutMs: 120_000,
  /** After that, how long the store may take to accept the last usage rows. */
  flushTimeoutMs: 10_000,
  /** A group with `on_disconnect: drain` reads the upstream on for this long after the client left. */
  drainOnDisconnectMs: 60_000,

  // Waiting for a free account.

  /** The longest `queue.timeout` a group may have. */
  queueTimeoutMsMax: 3_600_000,

  // Abuse and secrets.

  /** Wrong keys from one address before it has to wait. */
  badKeyTriesPerMinute: 20,
  /** An imported key secret, or a chosen one, must not be guessable. */
  keySecretCharsMin: 32,
  keySecretCharsMax: 512,
  passwordCharsMin: 12,
  /** Hashing cost grows with length; nobody types more. */
  passwordCharsMax: 256,
  /** The one-time administrator token of the first start. */
  adminClaimTtlMs: 3_600_000,

  // The configuration file.

  configFileBytesMax: 16 * MiB,
  /** A YAML alias may be expanded this many times: beyond it a small file becomes a large memory. */
  configAliasesMax: 100,
  /** A cheap question to an account by `doctor`. */
  doctorTimeoutMs: 10_000,
} as const;
