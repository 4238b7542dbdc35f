/**
 * Every limit and deadline of the product, in one place. Nothing waits, grows or repeats without a name here;
 * code takes the value from here and passes it on, so a library's default never decides.
 */

import { bodyLimits } from "./body-limits.ts";

const KiB = 1024;
const MiB = 1024 * KiB;

export const limits = {
  // What a client may send.

  ...bodyLimits,
  /** Parameters in the query of one request. No operation takes more than twenty. */
  queryParametersMax: 100,
  /** Nesting of a JSON body. Deeper is an attack on someone's recursive parser. */
  jsonDepthMax: 128,
  /** A model name, as sent by a client or written by an operator. */
  modelNameCharsMax: 256,
  /** What the console's API takes from whoever is signed in. */
  apiBodyBytesMax: 256 * KiB,
  /** And from administrators where it is about very many things: a whole configuration file, as text within JSON. */
  apiBulkBodyBytesMax: 33 * MiB,
  /** And from anybody else. */
  strangerBodyBytesMax: 64 * KiB,
  /** A client that stops sending its body in the middle is cut off. */
  bodyIdleTimeoutMs: 10_000,
  /** Files of one site (console, explorer, documentation) that stay in memory once they were asked for. */
  siteBytesKeptMax: 8 * MiB,
  /** Connections of clients. */
  connections: {
    headBytesMax: 64 * 1024,
    /** From the first byte of a request's head to its last. */
    headMs: 15_000,
    /** From accepting a connection to the first byte of its first request. */
    firstByteMs: 10_000,
    /** Open at once; fewer where the process may not have so many descriptors. Then the longest idle ones are closed. */
    max: 20_000,
    /** Of them, what one block of addresses (IPv4 /24, IPv6 /48) may have; a proxy of our own may have all. */
    blockShare: 1 / 2,
    /** Read of requests that come before their turn; the rest waits in the network until the answer before it is taken. */
    aheadBytesMax: 64 * KiB,
    /** Memory for partial requests and unread answers of all clients that have not authenticated. */
    strangerBytesMax: 32 * MiB,
    /** And for requests before their turn of all others. */
    clientBytesMax: 128 * MiB,
    /** Between two requests. Longer than proxies keep theirs, which is a minute for most: they close first. */
    idleMs: 75_000,
    /** A long body that nobody asks for is thrown away: it holds the connection up, and a client that left is not seen. */
    unaskedMs: 5_000,
    /** What a client sends after its answer is read for so long, and thrown away. */
    lingerMs: 30_000,
    /** A client that takes nothing of a finished answer. */
    stallMs: 60_000,
    /** How often all of them are looked at. */
    lookMs: 1_000,
  },

  // What a socket may do. A frame of one is no longer than a JSON body.

  /** Then its client is asked to open another, between two turns. */
  socketAgeMs: 3_600_000,
  /** A socket from which nothing comes, not even the answer to a ping, is closed; the ping is sent after two thirds of it. */
  socketIdleSeconds: 30,
  /** Open at once with one key. */
  socketsPerKeyMax: 1_000,
  /** Frames of one socket in a second; one that sends four times as many is closed. */
  socketMessagesPerSecondMax: 200,
  /** Free of charge, so not many. */
  socketWarmUpsPerSecondMax: 5,
  /** Settings of a warm-up, such as its tools, that are repeated in its answer. */
  socketWarmUpEchoBytesMax: 1 * MiB,
  socketLanesMax: 32,
  /** Turns of one lane that wait for the one before them. */
  socketTurnsWaitingMax: 16,
  /** Turns of one socket at the same time, on all of its lanes. */
  socketTurnsMax: 16,
  /** Bytes of frames that wait for their turn: on the sockets of one key, and on all sockets. */
  socketsWaitingKeyBytesMax: 64 * MiB,
  socketsWaitingBytesMax: 256 * MiB,
  /** The same for frames that are not complete yet. */
  socketsUnfinishedKeyBytesMax: 128 * MiB,
  socketsUnfinishedBytesMax: 512 * MiB,
  /** What one socket remembers of its conversations, those of one key, and all of them together. */
  socketMemoryBytesMax: 32 * MiB,
  socketMemoriesKeyBytesMax: 128 * MiB,
  socketMemoriesBytesMax: 512 * MiB,
  /** Bytes that a client has not taken yet; beyond it, its upstreams are held up. */
  socketBufferedBytesMax: 64 * KiB,
  /** How often sockets are looked at, for keys that were revoked and for age; see `policyPollMs`. */
  socketLookMs: 250,

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
  /** The status line and headers of an upstream's answer. */
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
    /** Sooner where the store fails, or PostgreSQL ends no transaction for this long: a slow one still ends some. */
    silenceMs: 500,
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
  /** Usage rows of unserved requests: see billing/engine/refusal-rows.ts. */
  refusalRows: { rowsPerMinute: 60, kindsMax: 10_000 },
  /** Requests that wait for their user's other requests to release money: see billing/engine/hold-queue.ts. */
  holdQueue: { waitMs: 5_000, waitingMax: 64, retryMs: 250 },
  /** The till's express lane, for the embedded store: see billing/write-behind/write-behind-billing.ts. */
  express: {
    /** So many holds within a tenth of a second make the lane worth its while. */
    busyHolds: 40,
    /** What has ended waits so long to be booked: where few came last time, and where many did. */
    bookMs: 50,
    bookBusyMs: 1_000,
    bookMany: 10,
    /** Requests of one transaction, which wait no longer, and of one that others wait for. */
    bookTogether: 5_000,
    bookAtLeast: 100,
    /** Rows of one batch: they share an entry, and are booked together unless the store refuses one of them. */
    batchRows: 128,
    /** Requests of one step of that transaction, which takes about half a millisecond. */
    bookAtOnce: 64,
    /** After so many the log of the store is moved into its file, by when it is some 10 MB. */
    moveLogAfter: 8_000,
    moveAfterMs: 5_000,
    idleMs: 12_000,
    lookMs: 800,
    /** A segment of the journal. Making one takes less than half a millisecond, for which everybody waits. */
    segmentBytes: 512 * 1024,
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
  /** How long the store may take to say that it takes what is written, and how long that holds. */
  readiness: { patienceMs: 1_000, freshMs: 1_000 },
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
    /** Rows of one transaction, which on SQLite holds everybody up. */
    rowsMax: 100,
    pauseMs: 25,
  },
  /** The shortest `retention.usage_rows`. */
  usageRowsKeptMsMin: 7 * 86_400_000,

  // How things end.

  /** At shutdown, requests in flight may finish for this long. */
  drainTimeoutMs: 120_000,
  /** Then what is left is cut, and may take this long to be settled. */
  settleTimeoutMs: 5_000,
  /** After that, how long the store may take to accept the last usage rows. */
  flushTimeoutMs: 10_000,
  /** A group with `on_disconnect: drain` reads the upstream on for this long after the client left. */
  drainOnDisconnectMs: 600_000,
  /** A stream that is paid for, and has all but ended when its client leaves, may tell its usage for this long. */
  lastWordsMs: 2_000,
  /** A response that is made in the background, and paid for, is asked after for this long: less than a hold may last. */
  backgroundMsMax: 3_600_000,
  /** So many upstreams may be read on at once without a client, and so many for one user; more are cut. */
  drainsMax: 1_000,
  drainsPerUserMax: 100,

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
  /** Passwords hashed at once: each takes 64 MB and a core. More than so many in line are sent away. */
  passwordsAtOnce: 2,
  passwordsWaitingMax: 64,
  signIn: {
    /** Wrong passwords and codes in a window: of one account from one address, and from one address of any. */
    accountTries: 10,
    addressTries: 30,
    /** Tries at one account from everywhere. Large, since anybody can use it up and keep the owner out. */
    accountTriesAnywhere: 200,
    windowMs: 900_000,
  },
  /** Active keys of one user, each of which every process keeps in memory. Administrators may make more. */
  keysPerUserMax: 1_000,
  /** Wrong redeem codes of one user in a window. */
  redeem: { tries: 10, windowMs: 900_000 },
  /** How long a secret may still work after its key was rotated. */
  rotationOverlapMsMax: 30 * 86_400_000,
  /** Secrets of one key that work beside its own, each of which every process keeps in memory. */
  formerSecretsMax: 5,
  /** Accounts that one address may open in a day. */
  registrationsPerDay: 5,
  /** Messages that somebody may ask to be sent to one address of mail. */
  lettersPerHour: 5,
  /** A session ends after so long without use, and after so long in any case. */
  sessionIdleMs: 12 * 3_600_000,
  sessionMs: 14 * 86_400_000,
  /** Sessions of one user; the one used longest ago gives way. */
  sessionsMax: 50,
  /** How often the last use of a session or token is written down. */
  lastUseMs: 60_000,
  /** How often sessions that are over are dropped. */
  sessionSweepMs: 3_600_000,
  /** Personal access tokens of one user. */
  accessTokensMax: 100,
  /** How long one-time links work. */
  linkTtlMs: {
    invite: 7 * 86_400_000,
    sign_in: 3_600_000,
    reset: 3_600_000,
    verify: 3 * 86_400_000,
  },
  /** The one-time administrator token of the first start. */
  adminClaimTtlMs: 3_600_000,

  // Alerts and mail.

  webhooksMax: 10,
  alerts: {
    /** How often the place is looked at. */
    lookMs: 2_000,
    /** From dialling to the last byte of the answer. */
    deliveryTimeoutMs: 10_000,
    /** After each failed try; then it is given up. */
    retriesMs: [2_000, 10_000, 60_000, 300_000, 900_000, 3_600_000],
    /** How long alerts that are over, and what became of them, can be looked up. */
    keptMs: 90 * 86_400_000,
    /** How long after the latest fault of the books its alert stays open. */
    billingFaultMs: 3_600_000,
  },
  /** For each step of a conversation with a mail server: connecting, its greeting, each answer. */
  mailTimeoutMs: 10_000,

  // The configuration file.

  configFileBytesMax: 16 * MiB,
  /** A YAML alias may be expanded this many times: beyond it a small file becomes a large memory. */
  configAliasesMax: 100,
  /** A cheap question to an account by `doctor`. */
  doctorTimeoutMs: 10_000,
  /** How much of the answer to it is read: a list of models. */
  probeBytesMax: 1 * MiB,

  // WebSockets to upstreams.

  upstreamSockets: {
    /** From the connection's opening to the upstream's consent. */
    handshakeTimeoutMs: 10_000,
    /** An older socket serves no further turn: OpenAI ends one after an hour, whatever is said on it. */
    ageMs: 3_300_000,
    /** One that no conversation waits for is closed after this long without use. */
    idleMs: 300_000,
    /** Silence before an upstream is asked whether it lives; as much again, and it does not. */
    pingMs: 30_000,
    /** Free ones that are kept for one account. */
    freeMax: 256,
    /** After a response, before a socket serves another conversation than its own. */
    restMs: 250,
    /** An account whose upstream refused to speak WebSocket is spoken to over HTTP for this long. */
    unspokenMs: 600_000,
  },
} as const;
