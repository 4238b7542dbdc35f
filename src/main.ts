/**
 * The composition root: an installation → policy → gateway → server. The one file that knows all modules, and
 * where the limits are handed out.
 */

import { join } from "node:path";
import { openAlarms } from "./alarms.ts";
import { startFoldingDays } from "./billing/fold-days.ts";
import { startHourlyAudit } from "./billing/hourly-audit.ts";
import { type Idempotency, openIdempotency } from "./billing/idempotency.ts";
import { describeProcess, startRecovery } from "./billing/recovery.ts";
import { startRemovingRows } from "./billing/remove-rows.ts";
import { openSettlementSpool } from "./billing/settlement-spool.ts";
import { openTill, type Till } from "./billing/till.ts";
import type { Settings } from "./config/environment.ts";
import type { Installation } from "./config/installation.ts";
import { limits as productLimits } from "./config/limits.ts";
import { openBadKeyThrottle } from "./gateway/bad-keys.ts";
import { openDrains } from "./gateway/drains.ts";
import type { Gateway } from "./gateway/gateway.ts";
import { openRequestReader } from "./gateway/read-request.ts";
import { openPulse } from "./gateway/relay.ts";
import { openResponseRoutes } from "./gateway/response-routes.ts";
import { openRetryBudget } from "./gateway/retry-budget.ts";
import { seedWindows } from "./gateway/seed-windows.ts";
import { sweepSpool } from "./gateway/spool.ts";
import { openUnderWay } from "./gateway/under-way.ts";
import { openLimiter } from "./limits/limiter.ts";
import { createInputEstimates } from "./metering/input-estimate.ts";
import { loadTokenizer } from "./metering/tokenizer.ts";
import { type Log, openLog } from "./observe/log.ts";
import { openLivePolicy } from "./policy/live-policy.ts";
import { openPool } from "./pool/pool.ts";
import { openWaitingRoom } from "./pool/waiting.ts";
import { openControlDoor } from "./server/control-door.ts";
import { type Server, startServer } from "./server/server.ts";
import type { Db } from "./store/db.ts";
import { readPolicy } from "./store/policy.ts";
import { readRevisions } from "./store/revisions.ts";
import { openDialer } from "./upstreams/dial.ts";
import { openHttpClient } from "./upstreams/http/client.ts";
import { type Simulator, startSimulator } from "./upstreams/simulator/simulator.ts";
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
type Widened<T> = { readonly [name in keyof T]: T[name] extends number ? number : T[name] };

/** What a test may change: deadlines too long to wait for, and where log lines go. */
export interface StartOptions {
  limits?: Partial<Widened<Limits>>;
  writeLog?(line: string): void;
}

export type ServerSettings = Pick<
  Settings,
  "host" | "port" | "dataDir" | "controlSocketFile" | "databaseUrl" | "durability"
>;

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
  const simulator = await startSimulatorIfUsed(db);
  const policy = await openLivePolicy({
    db,
    keyring,
    simulatorUrl: simulator?.url ?? null,
    log,
    pollMs: limits.policyPollMs,
  });
  const limiter = openLimiter(clock);
  await seedWindows(db, policy, limiter, clock);
  const pool = openPool({ clock, random: Math.random, limiter });
  const books = await openBooks(installation, settings, log, limits);
  const { till } = books;
  const pulse = openPulse(limits.pulseMs, clock.monotonicMs);
  const alarms = openAlarms(limits.alarmsMs, clock);
  const http = openHttpClient({
    alarms,
    clock,
    connectTimeoutMs: limits.connectTimeoutMs,
    idleMs: limits.upstreamIdleMs,
    idlePerOriginMax: limits.upstreamIdleConnectionsMax,
    headBytesMax: limits.upstreamHeadBytesMax,
  });
  let retained = policy.snapshot();
  pulse.add(() => {
    // What is known of accounts outlives a change of policy, but not the accounts themselves.
    if (policy.snapshot() === retained) return;
    retained = policy.snapshot();
    pool.retain(retained.accounts);
  });
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
    till,
    idempotency: books.idempotency,
    estimates: createInputEstimates(),
    drains: openDrains(limits.drainsMax),
    underWay: openUnderWay(),
    responses: openResponseRoutes(db, limits.rememberedResponsesMax),
    dispatcher: {
      ...clock,
      alarms,
      log,
      pool,
      till,
      room: openWaitingRoom(clock),
      retries: openRetryBudget(),
      dialer: openDialer({ clock, lookupTimeoutMs: limits.lookupTimeoutMs, cacheMs: limits.addressCacheMs }),
      http,
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
    readRequest: openRequestReader({ ...limits, spoolDir, alarms }),
  };
  const close = async () => {
    // Before what it uses on its way is closed, and before the books are.
    const left = await gateway.underWay.close(limits.settleTimeoutMs);
    if (left > 0) log.warn("left_under_way", { requests: left });
    policy.close();
    http.close();
    pulse.stop();
    alarms.stop();
    const giveUpAtMs = clock.monotonicMs() + limits.flushTimeoutMs;
    await writeTheRest(till, log, () => clock.monotonicMs() >= giveUpAtMs);
    await books.close();
    await simulator?.stop();
  };
  let server: Server;
  try {
    server = startServer({
      gateway,
      newId: installation.newId,
      hostname: settings.host,
      port: settings.port,
      idleTimeoutSeconds: limits.connectionIdleSeconds,
      alarms,
      isStoreReady: () =>
        readRevisions(db).then(
          () => true,
          () => false,
        ),
    });
  } catch (error) {
    // A port that is taken: whatever runs already would keep the process from ending.
    await close();
    throw error;
  }
  const controlDoor = openControlDoor(gateway, settings.controlSocketFile);
  // Needed when a client leaves or an upstream tells no usage: better read before than while somebody waits.
  const charges = [...policy.snapshot().groups.values()].some(({ billing }) => billing.charge !== "none");
  if (charges) void loadTokenizer();
  return {
    url: server.url,
    port: server.port,
    counts: { keys: policy.keys.size, groups: policy.snapshot().groups.size },
    async stop() {
      controlDoor.close();
      await server.drain(limits.drainTimeoutMs);
      await close();
    },
  };
}

interface Books {
  till: Till;
  idempotency: Idempotency;
  /** After the last request, and after the till was flushed. */
  close(): Promise<void>;
}

/** The till, and everything that looks after what it wrote. The money of processes that died is settled first. */
async function openBooks(
  { db, clock, keyring, newId }: Installation,
  settings: ServerSettings,
  log: Log,
  limits: Widened<Limits>,
): Promise<Books> {
  const self = describeProcess(newId("inc"), clock.nowMs());
  const spoolDir = join(settings.dataDir, "settlements");
  const till = openTill({
    db,
    log,
    clock,
    incarnation: self.id,
    spool: openSettlementSpool(spoolDir, self.id),
    durability: settings.durability,
    limits: limits.till,
  });
  const recovery = await startRecovery({ db, log, clock, till, self, spoolDir, limits: limits.recovery });
  const idempotency = openIdempotency({ db, clock, keyring, incarnation: self.id, ...limits.idempotency });
  await idempotency.recover();
  const sweeping = setInterval(() => {
    Promise.all([idempotency.recover(), idempotency.sweep()]).catch((error: unknown) => {
      log.warn("idempotency_sweep_failed", { reason: error instanceof Error ? error.message : "unknown" });
    });
  }, limits.idempotencySweepMs);
  sweeping.unref();
  const folding = startFoldingDays({ db, log, clock, everyMs: limits.foldDaysMs });
  const removal = startRemovingRows({ db, log, clock, ...limits.usageRemoval });
  const audit = startHourlyAudit({
    databaseUrl: settings.databaseUrl,
    log,
    everyMs: limits.auditMs,
    holdLeaseMs: limits.holdLeaseMs,
  });
  return {
    till,
    idempotency,
    async close() {
      clearInterval(sweeping);
      audit.stop();
      await Promise.all([folding.stop(), removal.stop()]);
      // It books by the till, so it ends first. A store that is away now hears of it at the next start.
      await recovery.stop().catch(() => {});
      await till.stop();
    },
  };
}

/** A store that comes back in time gets every row; one that does not must not keep the process for ever. */
async function writeTheRest(till: Till, log: Log, isTimeUp: () => boolean): Promise<void> {
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

/** The simulator costs nothing when no account asks for it. */
async function startSimulatorIfUsed(db: Db): Promise<Simulator | null> {
  const { accounts } = await readPolicy(db);
  return accounts.some(({ kind }) => kind === "simulator") ? startSimulator({}) : null;
}
