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
  /**
   * How often open streams are looked at, for silence and for what they have said: one timer for all of them. Under a
   * second, so that with the way to the store a process that dies loses at most a second of each stream's output.
   */
  pulseMs: 800,

  // What is kept, and how fast changes arrive.

  /** How often the store is asked for changes: bounds how long a revoked key lives on. */
  policyPollMs: 500,
  /** Recent responses whose account is known without asking the store. */
  rememberedResponsesMax: 50_000,

  // Money.

  till: {
    /** A row that nobody waits for waits this long for company. */
    gatherMs: 50,
    /** After a transaction of so many, no longer ago than `companyMs`, the next one waits that long for company. */
    companyMin: 4,
    companyMs: 1,
    /** Operations of one transaction. */
    batchMax: 400,
    /** While the store is down: beyond this no new requests are taken, so that no row is lost. */
    waitingMax: 100_000,
    /** A request whose money cannot be held by then is refused. */
    holdPatienceMs: 2_000,
    /** A settlement that the store has not taken by then goes to a file on disk, and its request goes on. */
    settlePatienceMs: 500,
    /** A transaction on PostgreSQL that takes longer is given up on and done again. */
    transactionMs: 10_000,
    retryMs: 500,
    /** A change of account is written after this long, unless the request has ended by then. */
    progressMs: 25,
    /** How often the output so far of a running stream is written; see `pulseMs`. */
    checkpointMs: 800,
    /** How long a commit of the embedded store may be only in the system's memory. */
    flushMs: 50,
  },
  recovery: {
    /** How often a process says that it lives, and after how long a silence it is taken for dead. */
    beatMs: 5_000,
    deadAfterMs: 60_000,
    /** How often the holds of dead processes are looked for. */
    reapMs: 15_000,
    holdsPerBatch: 100,
    /** A hold of this process that it knows nothing of: a commit whose answer got lost. */
    orphanMs: 60_000,
  },
  /** How often the books are compared with each other. */
  auditMs: 3_600_000,
  /** No request takes longer: a hold that is older is a fault. */
  holdLeaseMs: 7_200_000,

  // Repeats under an `Idempotency-Key`.

  idempotency: {
    /** What was asked under a key is remembered for this long. */
    keptMs: 86_400_000,
    /** A longer answer is not kept to be given again. */
    answerBytesMax: 64 * KiB,
  },
  /** How often what is older is dropped. */
  idempotencySweepMs: 600_000,

  /** How often days are folded from hours, for charts. */
  foldDaysMs: 60_000,
  usageRemoval: {
    /** How often rows that are too old are looked for. */
    everyMs: 600_000,
    /** In one transaction, which on SQLite holds everybody up. */
    rowsMax: 100,
    pauseMs: 25,
  },
  /** The shortest `retention.usage_rows`. */
  usageRowsKeptMsMin: 7 * 86_400_000,

  // How things end.

  /** At shutdown, requests in flight may finish for this long. */
  drainTimeoutMs: 120_000,
  /** Then what is left is cut, and this long waited for to be settled. */
  settleTimeoutMs: 5_000,
  /** After that, how long the store may take to accept the last usage rows. */
  flushTimeoutMs: 10_000,
  /** A group with `on_disconnect: drain` reads the upstream on for this long after the client left. */
  drainOnDisconnectMs: 60_000,
  /** A stream that is paid for, and has all but ended when its client leaves, may tell its usage for this long. */
  lastWordsMs: 2_000,
  /** A response that is made in the background, and paid for, is asked after for this long: less than a hold may last. */
  backgroundMsMax: 3_600_000,
  /** So many upstreams may be read on at once without a client; more are cut. */
  drainsMax: 1_000,

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
