/**
 * Every limit and deadline of the product, in one place. Every wait, buffer and repetition has a named bound
 * here. Code passes these values on explicitly, so that the default of a library never applies.
 */

import { JSON_DEPTH_MAX, requestCounts, responseBounds, usageLimits } from "../../count-limits.ts";
import { bodyLimits } from "./body-limits.ts";
import { clientSocketLimits } from "./client-socket-limits.ts";
import { nodeLimits } from "./node-limits.ts";
import { observationLimits } from "./observation-limits.ts";
import { signInLimits } from "./sign-in-limits.ts";
import { storedResponseLimits } from "./stored-response-limits.ts";
import { threadLimits } from "./thread-limits.ts";
import { toolSignInLimits } from "./tool-sign-in-limits.ts";
import { upstreamLimits } from "./upstream-limits.ts";
import { writeBehindLimits } from "./write-behind-limits.ts";

const KiB = 1024;
const MiB = 1024 * KiB;

export const limits = {
  // Client requests.

  ...bodyLimits,
  ...threadLimits,
  requestCounts,
  responseBounds,
  /** Parameters in the query of one request. No operation has more than twenty. */
  queryParametersMax: 100,
  jsonDepthMax: JSON_DEPTH_MAX,
  /** A model name, as sent by a client or configured by an operator. */
  modelNameCharsMax: 256,
  /** A body of the console API from a signed-in user. */
  apiBodyBytesMax: 256 * KiB,
  /** A body of bulk operations by administrators, and of directories. */
  apiBulkBodyBytesMax: 2 * MiB,
  /**
   * A configuration file or price list that is sent to the gateway, and the body with this text: parsing a longer one
   * holds the event loop. 10,000 keys of 5,000 users take 1 to 2 MiB. The command line reads files up to
   * `configFileBytesMax`.
   */
  apiFileBytesMax: 3 * MiB,
  apiFileBodyBytesMax: 3.5 * MiB,
  /** Values of such a file: entries, fields and elements of lists. 10,000 keys of 5,000 users have 60,000 to 120,000. */
  apiFileValuesMax: 131_072,
  /**
   * JSON values of such a body: elements, members and containers. A schema looks at each of them and describes each that
   * is wrong, which holds the event loop. The largest forms list the models of a group.
   */
  apiValuesMax: 8_192,
  /** JSON values of a body of bulk operations: 5,000 mappings of three fields are the most that one accepts. */
  apiBulkValuesMax: 24_576,
  /** Problems of a form or file that one response lists. */
  apiProblemsMax: 100,
  /** Older prices of a price list are reported when a list is imported: vendors change theirs several times a year. */
  priceAgeDaysMax: 90,
  /** A body of the console API from an anonymous client. */
  anonymousBodyBytesMax: 64 * KiB,
  /** A client that stops sending in the middle of its body is disconnected after this time. */
  bodyIdleTimeoutMs: 10_000,
  /** Files of one site (console, explorer, documentation) that stay in memory after their first request. */
  siteCacheBytesMax: 8 * MiB,
  /** Client connections. */
  connections: {
    headBytesMax: 64 * 1024,
    /** From the first to the last byte of a request head. */
    headMs: 15_000,
    /** From accepting a connection to the first byte of its first request. */
    firstByteMs: 10_000,
    /** Open connections, or fewer by the descriptor limit. Above it, those that were idle the longest are closed. */
    max: 20_000,
    /** Share of them for one block of addresses (IPv4 /24, IPv6 /48). The gateway's own proxy may use all. */
    blockShare: 1 / 2,
    /** Bytes of pipelined requests that are read ahead, until the client has read the previous response. */
    readAheadBytesMax: 64 * KiB,
    /** Memory for partial requests and unread responses of all clients that are not authenticated. */
    unauthenticatedBytesMax: 32 * MiB,
    /** Memory for pipelined requests of all authenticated clients. */
    authenticatedBytesMax: 128 * MiB,
    /** Memory for responses that authenticated clients do not read. The largest response fits. */
    unsentBytesMax: 256 * MiB,
    /** Keep-alive between two requests. Longer than that of most proxies (a minute), so that they close first. */
    idleMs: 75_000,
    /** An unread body is discarded after this time: while it blocks the connection, a disconnect goes unnoticed. */
    unreadBodyMs: 5_000,
    /** How long bytes that arrive after the response are read and discarded. */
    lingerMs: 30_000,
    /** A client that reads nothing of a finished response is disconnected after this time. */
    stallMs: 60_000,
    /** How often all connections are checked against these deadlines. */
    checkMs: 1_000,
  },

  ...clientSocketLimits,

  // Upstream requests.

  ...upstreamLimits,
  /** DNS lookup of a host name. */
  lookupTimeoutMs: 2_000,
  /** How long a checked address is used before its name is resolved again. */
  addressCacheMs: 30_000,
  /** TCP and TLS together. */
  connectTimeoutMs: 3_000,
  /** Keep-alive of an upstream connection: shorter than that of most upstreams. */
  upstreamIdleMs: 55_000,
  /** Idle connections that are kept for one address. More may be open while they are in use. */
  upstreamIdleConnectionsMax: 1_024,
  /** The status line and headers of an upstream response. */
  upstreamHeadBytesMax: 64 * KiB,
  /** From sending the request to the status line of the response. */
  firstByteTimeoutMs: 120_000,
  /** Silence in a stream. Only data events reset it: keep-alive comments do not prove that an upstream works. */
  idleTimeoutMs: 300_000,
  /** The whole response, if it is not streamed. */
  unaryTimeoutMs: 600_000,
  /** One server-sent event. It is this large because an image arrives as a single event. */
  eventBytesMax: 16 * MiB,
  /** A response that is not streamed. */
  responseBytesMax: 128 * MiB,
  /** How much of an upstream's error body is read before it is rewritten. */
  upstreamErrorBytesMax: 64 * KiB,
  /** Accounts tried for one request, including the first. Never the same account twice. */
  attemptsMax: 3,

  // Streams to clients.

  /** An SSE comment is sent after this much silence, below the usual 30 s and 60 s timeouts of proxies. */
  keepAliveMs: 15_000,
  /** During silent reasoning, `response.in_progress` is repeated at this interval, for clients that ignore comments. */
  silentReasoningMs: 60_000,
  /** A client that reads nothing for this long is treated as disconnected. */
  writeStallMs: 60_000,
  /** How often deadlines are checked: each may be exceeded by this much. */
  deadlineScanMs: 50,
  /**
   * How often open streams are checked for silence and for new output, with one timer for all of them. Below
   * one second, so that a crash loses at most one second of the output of each stream, including the time to
   * write it to the database.
   */
  keepAliveTickMs: 800,

  // Policy changes and stored responses.

  /** How often the database is polled for changes. It bounds how long a revoked key still works. */
  policyPollMs: 500,
  /** A check of the policy that takes longer is abandoned, so that the next one can succeed. */
  policyPollTimeoutMs: 5_000,
  /** How often a node measures the clock of a database that it shares with others. */
  clockSynchronizationMs: 10_000,
  ...storedResponseLimits,
  /** Recent responses whose account is known without a database query. */
  cachedResponseRoutesMax: 50_000,
  /**
   * The latest requests of a key among which a message that its thread continues from is searched, if it is not in
   * memory. A client whose thread is not found sends the whole conversation.
   */
  threadRowsMax: 1_000,

  // Billing.

  usage: usageLimits,
  billingEngine: {
    /** How long an unpaid usage row may wait to be written in a batch. */
    unpaidRowDelayMs: 50,
    /**
     * If the last transaction had at least `busyBatchMin` operations and is at most `batchDelayMs` old, the next one
     * is delayed by `batchDelayMs` to collect a batch.
     */
    busyBatchMin: 4,
    batchDelayMs: 1,
    /** Operations of one transaction. */
    batchMax: 400,
    /** While the database is down: above this number new requests are rejected, so that no row is lost. */
    waitingMax: 100_000,
    /** A request whose hold is not written after this time is rejected. */
    holdTimeoutMs: 10_000,
    /**
     * It is rejected sooner if PostgreSQL completes no transaction for this long. A server without CPU time is silent
     * for seconds and then continues, so the request waits.
     */
    storeSilenceMaxMs: 6_000,
    /** The same if the database also reports failures: it is down, and waiting is less likely to help. */
    storeFailureMaxMs: 2_000,
    /** A database that has accepted no billing transaction for this long makes the node unready. */
    stalledAfterMs: 2_000,
    /** A settlement that the database has not accepted by then goes to a file on disk, and its request continues. */
    settlementTimeoutMs: 500,
    /** The same with `DURABILITY=store`: a client must not see an end that only this machine knows. */
    storeSettlementTimeoutMs: 30_000,
    /** A PostgreSQL transaction that takes longer is aborted and retried. */
    transactionMs: 10_000,
    retryMs: 500,
    /** A change of the account is written after this long, unless the request has finished by then. */
    progressMs: 25,
    /** How often the output of a running stream is checkpointed; see `keepAliveTickMs`. */
    checkpointMs: 800,
    /** How long a commit of SQLite may exist only in the memory of the operating system. */
    flushMs: 50,
  },
  /** Usage rows of unserved requests: see billing/engine/rejection-rows.ts. */
  rejectionRows: { rowsPerMinute: 60, kindsMax: 10_000, modelsPerHour: 50 },
  /** Requests that wait for their user's other requests to release money: see billing/engine/hold-queue.ts. */
  holdQueue: { waitMs: 5_000, waitingMax: 64, retryMs: 250 },
  ...writeBehindLimits,
  /** Requests that were booked in PostgreSQL last, and are booked again after a failover that lost them. */
  recentBookings: { keptMs: 10_000, requestsMax: 50_000, checkIntervalMs: 1_000 },
  recovery: {
    heartbeatIntervalMs: 2_000,
    /**
     * The silence of a process after which others free its idempotency keys and the money that it had reserved: within
     * 20 seconds of a kill, with the interval of the checks. Above `writeBehind.heartbeatAgeMaxMs`.
     */
    silentAfterMs: 10_000,
    /** The silence after which it is considered dead: others settle its requests and remove it. */
    deadAfterMs: 60_000,
    /** The silence of the process whose data folder is now on this machine: more than two heartbeats. */
    movedAfterMs: 12_000,
    /** How often silent and dead processes, and their holds, are searched. */
    recoveryIntervalMs: 5_000,
    holdAttemptsMax: 3,
    holdsPerBatch: 100,
    /** When a hold of this process that it does not know is recovered: its confirmation was lost. */
    orphanMs: 60_000,
  },
  /** How long the database may take to confirm that it accepts writes, and how long the result is cached. */
  readiness: { timeoutMs: 1_000, cacheMs: 1_000 },
  /** How often the reconciliation runs. */
  reconciliationIntervalMs: 3_600_000,
  /** No request takes longer: an older hold is a fault. */
  holdAgeMaxMs: 7_200_000,

  // Requests with an `Idempotency-Key`.

  idempotency: {
    /** How long an idempotency key is stored. */
    keptMs: 86_400_000,
    /** A longer response is not stored for replay. */
    responseBytesMax: 64 * KiB,
  },
  /** How often expired idempotency keys are deleted. */
  idempotencySweepMs: 600_000,

  /** How often hourly roll-ups are folded into daily ones, for charts. */
  foldDaysMs: 60_000,
  usageRemoval: {
    /** How often expired usage rows are searched. */
    everyMs: 600_000,
    /** How long after the start the first search begins, and PostgreSQL gets its partitions. */
    firstAfterMs: 30_000,
    /** Rows of one transaction, which on SQLite blocks all other writers. */
    rowsMax: 100,
    pauseMs: 25,
  },
  /** The shortest `retention.usage_rows`. */
  usageRowsKeptMsMin: 7 * 86_400_000,

  ...nodeLimits,

  // Shutdown and disconnects.

  /** The default of `server.drain_delay` on PostgreSQL, and its maximum. */
  drainDelayMs: 5_000,
  drainDelayMsMax: 300_000,
  /** At shutdown, requests in flight may finish for this long. */
  drainTimeoutMs: 120_000,
  /** Then remaining requests are aborted and may take this long to be settled. */
  settleTimeoutMs: 5_000,
  /** After that, how long the database may take to accept the last usage rows. */
  flushTimeoutMs: 10_000,
  /** How long a group with `on_disconnect: drain` reads the upstream after the client disconnected. */
  drainOnDisconnectMs: 600_000,
  /** How long a paid stream that was almost complete when its client disconnected may still report its usage. */
  endingDrainMs: 2_000,
  /** How long a paid background response is polled: shorter than a hold may last. */
  backgroundMsMax: 3_600_000,
  /** Background responses whose process has ended: see gateway/response-calls/held-responses.ts. */
  heldResponses: {
    roundMs: 1_000,
    pollsPerRound: 20,
    pollTimeoutMs: 5_000,
    firstPauseMs: 1_000,
    pauseMsMax: 15_000,
  },
  /** Upstream responses that are drained at the same time, in total and for one user. Further ones are aborted. */
  drainsMax: 1_000,
  drainsPerUserMax: 100,

  // Queues.

  /** The longest `queue.timeout` a group may have. */
  queueTimeoutMsMax: 3_600_000,
  /** The longest `stay` of a fallback step. */
  fallbackStayMsMax: 86_400_000,
  /** Conversations that stay on a fallback step: at most twice this number are known to a node. */
  fallbackStaysMax: 20_000,

  // Authentication and abuse.

  ...signInLimits,
  ...toolSignInLimits,
  /** Wrong keys per minute from one address. Further attempts have to wait. */
  badKeyTriesPerMinute: 20,
  /** Token counts of one key. Clients send dozens at once. */
  tokenCountsOfKey: { inProgressMax: 4, waitingMax: 60 },
  /** Calls of one key for its models, usage, requests and stored inputs: programs that poll stay far below. */
  readsOfKey: { burst: 300, perSecond: 30 },
  /** Its other calls on stored responses: programs poll many background responses, each every one or two seconds. */
  storedResponseCallsOfKey: { burst: 1_000, perSecond: 300 },
  /** The secret of a key that was imported or chosen must not be guessable. */
  keySecretCharsMin: 32,
  keySecretCharsMax: 512,
  /** Keys that another gateway generated may be shorter than chosen ones. */
  importedSecretCharsMin: 24,
  /** Rows of one table of another gateway, and how many are read at once. */
  importRowsMax: 1_000_000,
  importPageRows: 1_000,
  /** One value of another gateway, such as the model list of a channel. */
  importTextCharsMax: 65_536,
  importTimeoutMs: 10_000,
  /** A plain hash of a secret can be guessed from a dump, so its first use must follow the import within this time. */
  importedHashLifeMs: 90 * 24 * 3_600_000,
  passwordCharsMin: 12,
  /** Hashing cost grows with the length. Nothing longer is typed by hand. */
  passwordCharsMax: 256,
  /**
   * Passwords hashed at the same time: each takes 64 MB and a core. If more than `waitingPasswordHashesMax` wait,
   * further ones are rejected.
   */
  concurrentPasswordHashesMax: 2,
  waitingPasswordHashesMax: 64,
  signIn: {
    /** Wrong passwords and codes in a window: for an account from an address, and from an address. */
    accountTries: 10,
    addressTries: 30,
    /** Attempts for one account from all addresses. High, because an attacker could lock the owner out. */
    accountTriesAllAddresses: 200,
    windowMs: 900_000,
  },
  /** Active keys of one user. Every process keeps each of them in memory. Administrators may create more. */
  keysPerUserMax: 1_000,
  /** Wrong redeem codes of one user in a window. */
  redeem: { tries: 10, windowMs: 900_000 },
  /** Requests of one user that add or change something. Revoked keys and entries of the audit log are kept. */
  changesOfUser: { tries: 600, windowMs: 600_000 },
  /** Reads of the console's API by one caller: those that run at once, and those that wait. */
  readsOfCaller: { runningMax: 2, waitingMax: 50 },
  /** How long the previous secret may still work after a key was rotated. */
  rotationOverlapMsMax: 30 * 86_400_000,
  /** Additional secrets of one key that still work. Every process keeps each of them in memory. */
  formerSecretsMax: 5,
  /** Secrets that a signed-in person gets for a page: of one key at a time, and how long each works. */
  temporarySecrets: { perKeyMax: 20, lifeMs: 900_000 },
  /** Accounts that one address may register in a day. */
  registrationsPerDay: 5,
  /** Requested e-mails to one address. */
  emailsPerHour: 5,
  /** A session expires after this time without use, and after this time in total. */
  sessionIdleMs: 12 * 3_600_000,
  sessionMs: 14 * 86_400_000,
  /** Sessions of one user. Above it, the least recently used session ends. */
  sessionsMax: 50,
  /** How often the last use of a session or token is recorded. */
  lastUseMs: 60_000,
  /** How often expired sessions are deleted. */
  sessionSweepMs: 3_600_000,
  /** Personal access tokens of one user. */
  accessTokensMax: 100,
  /** How long one-time links are valid. */
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
  ...observationLimits,
  /** For each step of an SMTP session: connecting, the greeting, each reply. */
  mailTimeoutMs: 10_000,

  // The configuration file.

  configFileBytesMax: 16 * MiB,
  /** Values that break the rules of their fields, of which one check of a file describes the first. */
  configProblemsMax: 1_000,
  /** Expansions of YAML aliases: above this number, a small file can occupy a lot of memory. */
  configAliasesMax: 100,
  /** Nesting of the values of a file. Its own fields are ten deep. */
  configDepthMax: 64,
  /** The inexpensive request with which `doctor` tests an account. */
  doctorTimeoutMs: 10_000,
  /** How much of its response, a list of models, is read. */
  probeBytesMax: 1 * MiB,
} as const;
