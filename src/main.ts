/**
 * The composition root: installation → policy → gateway → server. The only file that knows all modules; it
 * distributes the limits to them.
 */

import { hostname } from "node:os";
import { join } from "node:path";
import { type Simulator, startSimulator } from "../simulator/simulator.ts";
import { openSocketClient } from "./accounts/websocket/client.ts";
import { startAlerts } from "./alerts/engine.ts";
import type { BillingEngine } from "./billing/engine/billing-engine.ts";
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
import { openWaitingQueue } from "./pool/waiting-queue.ts";
import { openSockets } from "./responses-websocket/sockets.ts";
import { openOperatorSocket } from "./server/operator-socket.ts";
import { type Server, type ServerOptions, startServer } from "./server/server.ts";
import { openSite } from "./server/site.ts";
import { VERSION } from "./version.ts";

export interface Running {
  readonly url: string;
  readonly port: number;
  readonly counts: { keys: number; groups: number };
  /** Lets requests in flight finish and writes all pending records. The database stays open. */
  stop(): Promise<void>;
}

type Limits = typeof productLimits;
/** Widens literal numbers, so that tests can change them. */
type WidenNumbers<T> = {
  readonly [name in keyof T]: T[name] extends number
    ? number
    : T[name] extends object
      ? WidenNumbers<T[name]>
      : T[name];
};

/** What tests can change: deadlines that are too long to wait for, the log output, and the folder of built pages. */
export interface StartOptions {
  limits?: Partial<WidenNumbers<Limits>>;
  writeLog?(line: string): void;
  builtDir?: string;
}

/** Output folder of `npm run build`. */
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
  /** Id of the data folder, if this process has locked it (`store/engine/folder-lock.ts`). */
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
  const billing = await openBilling({ ...installation, ...settings, log, limits }).catch(
    async (error: unknown) => {
      policy.close();
      await simulator.stop();
      throw error;
    },
  );
  // Only now is all usage of earlier processes booked.
  await seedWindows(db, policy, limiter, clock);
  const { till } = billing;
  const refusals = new RefusalRows(till.push, limits.refusalRows);
  const pulse = openKeepAliveTimer(limits.pulseMs, clock.monotonicMs);
  const alarms = openDeadlines(limits.alarmsMs, clock);
  // Reading the clock costs time: the age of an address or of an idle connection need not be exact to the
  // millisecond.
  const coarseClock = { ...clock, monotonicMs: alarms.lookedAtMs };
  const http = openHttpClient({
    alarms,
    clock: coarseClock,
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
  let retainedPolicy = policy.snapshot();
  pulse.add(() => {
    // The state of accounts survives a policy change, but is dropped for deleted accounts.
    if (policy.snapshot() === retainedPolicy) return;
    retainedPolicy = policy.snapshot();
    pool.retain(retainedPolicy.accounts);
    upstreamSockets.retain(retainedPolicy.accounts);
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
    idempotency: billing.idempotency,
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
        clock: coarseClock,
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
    // Before closing the components that requests in flight use, and before closing billing.
    const unfinished = await gateway.underWay.close(limits.settleTimeoutMs);
    if (unfinished > 0) log.warn("left_under_way", { requests: unfinished });
    gateway.requests.close();
    policy.close();
    http.close();
    upstreamSockets.close();
    pulse.stop();
    alarms.stop();
    refusals.writeCounted();
    const flushDeadlineMs = clock.monotonicMs() + limits.flushTimeoutMs;
    await flushUntilDeadline(till, log, () => clock.monotonicMs() >= flushDeadlineMs);
    await billing.close();
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
  // With port 0 the URL is known only once the server listens.
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
    billingFaults: billing.faults,
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
    isReady: billing.isReady,
    billingFaults: billing.faults,
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
      isStoreReady: billing.isReady,
    });
  } catch (error) {
    // The port is taken, for example. Components that already run would keep the process alive.
    sockets.stop();
    await close();
    throw error;
  }
  const operatorSocket = await openOperatorSocket(gateway, settings.controlSocketFile);
  const sessionSweeper = startSweepingSessions(installation, log);
  // Needed when a client disconnects or an upstream reports no usage. Loaded now, so that no request waits for it.
  const charges = [...policy.snapshot().groups.values()].some(({ billing }) => billing.charge !== "none");
  if (charges) void loadTokenizer();
  return {
    url: server.url,
    port: server.port,
    counts: { keys: policy.keys.size, groups: policy.snapshot().groups.size },
    async stop() {
      operatorSocket.close();
      sessionSweeper.stop();
      await server.drain(limits.drainTimeoutMs);
      await close();
    },
  };
}

/**
 * The console API with all its schemas is half of the code that a start would load, and model requests need none of
 * it. It is loaded with the first call.
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

/** If the database comes back in time, every row is written; otherwise the process still has to end. */
async function flushUntilDeadline(till: BillingEngine, log: Log, isTimeUp: () => boolean): Promise<void> {
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

/** Starts the simulator only when an account uses it. */
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
