/**
 * The composition root: an installation → policy → gateway → server. The one file that knows all modules, and
 * where the limits are handed out.
 */

import { hostname } from "node:os";
import { join } from "node:path";
import { type Simulator, startSimulator } from "../simulator/simulator.ts";
import { openSocketClient } from "./accounts/websocket/client.ts";
import { startAlerts } from "./alerts/engine.ts";
import type { BillingEngine } from "./billing/engine/direct-billing.ts";
import { RefusalRows } from "./billing/engine/refusal-rows.ts";
import { openBilling } from "./billing/open-billing.ts";
import type { Settings } from "./config/installation/environment.ts";
import type { Installation } from "./config/installation/installation.ts";
import { limits as productLimits } from "./config/product-limits.ts";
import { startSweepingSessions } from "./console-api/auth/sweep.ts";
import type { ConsoleContext } from "./console-api/context.ts";
import type { ApiHandler } from "./console-api/handler.ts";
import { openLive } from "./console-api/live/live.ts";
import { openAuthThrottles } from "./console-api/throttling/auth-throttles.ts";
import { openThrottle } from "./console-api/throttling/throttle.ts";
import { openBadKeyThrottle } from "./gateway/admission/bad-keys.ts";
import { seedWindows } from "./gateway/admission/seed-windows.ts";
import { openResponseRoutes } from "./gateway/endpoints/response-routes.ts";
import type { Gateway } from "./gateway/gateway.ts";
import { createInputEstimates } from "./gateway/metering/input-estimate.ts";
import { ReasoningEstimates } from "./gateway/metering/reasoning-estimate.ts";
import { loadTokenizer } from "./gateway/metering/tokenizer.ts";
import { openBodyBudgets } from "./gateway/request/body-budgets.ts";
import { openInFlightRequests } from "./gateway/request/in-flight-requests.ts";
import { openRequestReader } from "./gateway/request/read-request.ts";
import { sweepSpool } from "./gateway/request/spool.ts";
import { openDrains } from "./gateway/stream/drains.ts";
import { openKeepAliveTimer } from "./gateway/stream/relay.ts";
import { openRetryBudget } from "./gateway/upstream/retry-budget.ts";
import { ConcurrencyQueue } from "./limits/concurrency-queue.ts";
import { openLimiter } from "./limits/limiter.ts";
import { QueueOccupancy } from "./limits/queue-occupancy.ts";
import { openMail } from "./mail/mail.ts";
import { openHttpClient } from "./net/http-client/client.ts";
import { openDialer } from "./net/http-client/dial.ts";
import { type Deadlines, openDeadlines } from "./net/wire/deadlines.ts";
import { type Log, openLog } from "./observe/log.ts";
import { openRequestCounts } from "./observe/request-counts.ts";
import { openTraffic } from "./observe/traffic.ts";
import { openLivePolicy } from "./policy/live-policy.ts";
import { openPool } from "./pool/pool.ts";
import { openWaitingQueue } from "./pool/waiting.ts";
import { openSockets } from "./responses-websocket/sockets.ts";
import { openOperatorSocket } from "./server/operator-socket.ts";
import { type Server, type ServerOptions, startServer } from "./server/server.ts";
import { openSite } from "./server/site.ts";
import { VERSION } from "./version.ts";

export interface Running {
  readonly url: string;
  readonly port: number;
  readonly counts: { keys: number; groups: number };
  /** Lets requests under way finish and writes what is to be written. The store stays open. */
  stop(): Promise<void>;
}

type Limits = typeof productLimits;
/** Numbers that a test may have changed. */
type Widened<T> = {
  readonly [name in keyof T]: T[name] extends number
    ? number
    : T[name] extends object
      ? Widened<T[name]>
      : T[name];
};

/** What a test may change: deadlines too long to wait for, where log lines go, and where pages were built. */
export interface StartOptions {
  limits?: Partial<Widened<Limits>>;
  writeLog?(line: string): void;
  builtDir?: string;
}

/** What `npm run build` makes. */
const BUILT_DIR = join(import.meta.dir, "../dist");

export type ServerSettings = Pick<
  Settings,
  | "host"
  | "port"
  | "publicUrl"
  | "allowedOrigins"
  | "allowedHosts"
  | "largeBodiesBytes"
  | "dataDir"
  | "controlSocketFile"
  | "databaseUrl"
  | "durability"
> & {
  /** Of the data folder, if this process has locked it (`store/engine/folder-lock.ts`). */
  readonly folderId?: string;
};

export async function startGateway(
  installation: Installation,
  settings: ServerSettings,
  options: StartOptions = {},
): Promise<Running> {
  const limits = { ...productLimits, ...options.limits };
  const { clock, db, keyring } = installation;
  const log = openLog(clock.nowMs, options.writeLog ?? ((line) => process.stderr.write(line)));
  const spoolDir = join(settings.dataDir, "spool");
  await sweepSpool(spoolDir);
  const simulator = openSimulator();
  const policy = await openLivePolicy({
    db,
    clock,
    keyring,
    simulatorUrl: simulator.url,
    log,
    pollMs: limits.policyPollMs,
  });
  const limiter = openLimiter(clock);
  const pool = openPool({ clock, random: Math.random, limiter });
  const books = await openBilling({ ...installation, ...settings, log, limits }).catch(
    async (error: unknown) => {
      policy.close();
      await simulator.stop();
      throw error;
    },
  );
  // Only now is everything booked that earlier processes have used.
  await seedWindows(db, policy, limiter, clock);
  const { till } = books;
  const refusals = new RefusalRows(till.push, limits.refusalRows);
  const pulse = openKeepAliveTimer(limits.pulseMs, clock.monotonicMs);
  const alarms = openDeadlines(limits.alarmsMs, clock);
  // Reading the clock is not free: how old an address or an idle connection is need not be known to the millisecond.
  const coarse = { ...clock, monotonicMs: alarms.lookedAtMs };
  const http = openHttpClient({
    alarms,
    clock: coarse,
    connectTimeoutMs: limits.connectTimeoutMs,
    idleMs: limits.upstreamIdleMs,
    idlePerOriginMax: limits.upstreamIdleConnectionsMax,
    headBytesMax: limits.upstreamHeadBytesMax,
  });
  const upstreamSockets = openSocketClient({
    ...limits.upstreamSockets,
    alarms,
    monotonicMs: clock.monotonicMs,
    connectTimeoutMs: limits.connectTimeoutMs,
    headBytesMax: limits.upstreamHeadBytesMax,
    messageBytesMax: limits.eventBytesMax,
    errorBytesMax: limits.upstreamErrorBytesMax,
    noteUnspoken: ({ id }, status) => log.warn("websocket_unspoken", { account_id: id, status }),
  });
  const bodies = openBodyBudgets(limits, settings.largeBodiesBytes, { ...clock, alarms });
  let retained = policy.snapshot();
  pulse.add(() => {
    // What is known of accounts outlives a change of policy, but not the accounts themselves.
    if (policy.snapshot() === retained) return;
    retained = policy.snapshot();
    pool.retain(retained.accounts);
    upstreamSockets.retain(retained.accounts);
  });
  const occupancy = new QueueOccupancy();
  const gateway: Gateway = {
    clock,
    log,
    db,
    policy,
    auth: {
      keys: policy.keys,
      digest: installation.digest,
      badKeys: openBadKeyThrottle(limits.badKeyTriesPerMinute, clock.monotonicMs),
      nowMs: clock.nowMs,
    },
    limiter,
    slots: new ConcurrencyQueue(limiter, occupancy, clock),
    till,
    refusals,
    idempotency: books.idempotency,
    estimates: createInputEstimates(),
    reasoning: new ReasoningEstimates(),
    drains: openDrains(limits.drainsMax, limits.drainsPerUserMax),
    underWay: openInFlightRequests(),
    traffic: openTraffic(),
    requestCounts: openRequestCounts(),
    responses: openResponseRoutes(db, limits.rememberedResponsesMax),
    dispatcher: {
      ...clock,
      alarms,
      log,
      pool,
      till,
      room: openWaitingQueue(clock, occupancy),
      retries: openRetryBudget(),
      dialer: openDialer({
        clock: coarse,
        lookupTimeoutMs: limits.lookupTimeoutMs,
        cacheMs: limits.addressCacheMs,
      }),
      http,
      sockets: upstreamSockets,
      userAgent: `model-gateway/${VERSION}`,
      errorBytesMax: limits.upstreamErrorBytesMax,
      responseBytesMax: limits.responseBytesMax,
      eventBytesMax: limits.eventBytesMax,
      jsonDepthMax: limits.jsonDepthMax,
      attemptsMax: limits.attemptsMax,
      timing: limits,
    },
    pulse,
    timing: limits,
    bodies: bodies.large,
    requests: openRequestReader({ ...limits, spoolDir, alarms }, bodies),
  };
  const close = async () => {
    await alerts.stop();
    // Before what it uses on its way is closed, and before the books are.
    const left = await gateway.underWay.close(limits.settleTimeoutMs);
    if (left > 0) log.warn("left_under_way", { requests: left });
    gateway.requests.close();
    policy.close();
    http.close();
    upstreamSockets.close();
    pulse.stop();
    alarms.stop();
    refusals.writeCounted();
    const giveUpAtMs = clock.monotonicMs() + limits.flushTimeoutMs;
    await writeTheRest(till, log, () => clock.monotonicMs() >= giveUpAtMs);
    await books.close();
    await simulator.stop();
  };
  const { newId } = installation;
  const sockets = openSockets({
    gateway,
    newId,
    allowedOrigins: settings.allowedOrigins,
    publicUrl: settings.publicUrl,
    limits,
  });
  let server: Server;
  // With port 0 the address is known once the server listens.
  const publicUrl = () => (settings.port === 0 ? server.url : settings.publicUrl);
  const node = () => `${hostname()}:${server.port}`;
  const alerts = startAlerts({
    db,
    clock,
    log,
    keyring,
    newId: installation.newId,
    policy,
    pool,
    traffic: gateway.traffic,
    dialer: gateway.dispatcher.dialer,
    http,
    origin: () => ({ node: node(), publicUrl: publicUrl() }),
    billingFaults: books.faults,
    limits: limits.alerts,
  });
  const live = openLive(gateway, alerts, node);
  const control: ConsoleContext = {
    installation,
    gateway,
    get publicUrl() {
      return publicUrl();
    },
    identity: openAuthThrottles(clock),
    redeemTries: openThrottle({ ...limits.redeem, monotonicMs: clock.monotonicMs }),
    mail: () => openMail({ db, keyring, dialer: gateway.dispatcher.dialer, timeoutMs: limits.mailTimeoutMs }),
    alerts,
    isReady: books.isReady,
    billingFaults: books.faults,
    live,
  };
  try {
    server = startServer({
      gateway,
      api: openLazily(control, alarms),
      sites: openSites(options.builtDir ?? BUILT_DIR),
      newId,
      hostname: settings.host,
      port: settings.port,
      connections: limits.connections,
      publicUrl: settings.publicUrl,
      allowedHosts: settings.allowedHosts,
      sockets,
      frameBytesMax: limits.jsonBodyBytesMax,
      unfinishedFrames: {
        bytesMax: limits.socketsUnfinishedBytesMax,
        keyBytesMax: limits.socketsUnfinishedKeyBytesMax,
      },
      socketIdleSeconds: limits.socketIdleSeconds,
      isStoreReady: books.isReady,
    });
  } catch (error) {
    // A port that is taken: whatever runs already would keep the process from ending.
    sockets.stop();
    await close();
    throw error;
  }
  const controlDoor = await openOperatorSocket(gateway, settings.controlSocketFile);
  const sweeping = startSweepingSessions(installation, log);
  // Needed when a client leaves or an upstream tells no usage: better read before than while somebody waits.
  const charges = [...policy.snapshot().groups.values()].some(({ billing }) => billing.charge !== "none");
  if (charges) void loadTokenizer();
  return {
    url: server.url,
    port: server.port,
    counts: { keys: policy.keys.size, groups: policy.snapshot().groups.size },
    async stop() {
      controlDoor.close();
      sweeping.stop();
      await server.drain(limits.drainTimeoutMs);
      await close();
    },
  };
}

/**
 * The console's API with all its schemas is half of what a start would have to read, and the path of a request needs
 * none of it: it is read with the first call.
 */
function openLazily(control: ConsoleContext, alarms: Deadlines): ApiHandler {
  let opening: Promise<ApiHandler> | null = null;
  async function open(): Promise<ApiHandler> {
    const [{ openApiHandler }, { ROUTES }] = await Promise.all([
      import("./console-api/handler.ts"),
      import("./console-api/routes.ts"),
    ]);
    return openApiHandler(control, ROUTES, alarms);
  }
  return async (call) => {
    opening ??= open();
    return (await opening)(call);
  };
}

function openSites(builtDir: string): ServerOptions["sites"] {
  const keptBytesMax = productLimits.siteBytesKeptMax;
  return {
    console: openSite({
      base: "/console/",
      folder: join(builtDir, "console"),
      isOnePage: true,
      keptBytesMax,
    }),
    explorer: openSite({
      base: "/explorer/",
      folder: join(builtDir, "explorer"),
      isOnePage: true,
      keptBytesMax,
    }),
    docs: openSite({ base: "/docs/", folder: join(builtDir, "docs"), isOnePage: false, keptBytesMax }),
  };
}

/** A store that comes back in time gets every row; one that does not must not keep the process for ever. */
async function writeTheRest(till: BillingEngine, log: Log, isTimeUp: () => boolean): Promise<void> {
  for (;;) {
    try {
      return await till.flush();
    } catch (error) {
      if (!isTimeUp()) continue;
      log.error("usage_lost", { reason: error instanceof Error ? error.message : "unknown" });
      return;
    }
  }
}

/** The simulator costs nothing until an account asks for it. */
function openSimulator(): { url(): string; stop(): Promise<void> } {
  let running: Simulator | null = null;
  return {
    url() {
      running ??= startSimulator({});
      return running.url;
    },
    async stop() {
      await running?.stop();
    },
  };
}
