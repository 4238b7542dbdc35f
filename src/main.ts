/**
 * The composition root: an installation → policy → gateway → server. The one file that knows all modules, and
 * where the limits are handed out.
 */

import { join } from "node:path";
import { openAlarms } from "./alarms.ts";
import type { Settings } from "./config/environment.ts";
import type { Installation } from "./config/installation.ts";
import { limits as productLimits } from "./config/limits.ts";
import { openBadKeyThrottle } from "./gateway/bad-keys.ts";
import type { Gateway } from "./gateway/gateway.ts";
import { openRequestReader } from "./gateway/read-request.ts";
import { openPulse } from "./gateway/relay.ts";
import { openResponseRoutes } from "./gateway/response-routes.ts";
import { openRetryBudget } from "./gateway/retry-budget.ts";
import { seedWindows } from "./gateway/seed-windows.ts";
import { openUsageWriter, type UsageWriter } from "./gateway/settle.ts";
import { sweepSpool } from "./gateway/spool.ts";
import { openLimiter } from "./limits/limiter.ts";
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

/** What a test may change: deadlines too long to wait for, and where log lines go. */
export interface StartOptions {
  limits?: { readonly [name in keyof Limits]?: Limits[name] extends number ? number : Limits[name] };
  writeLog?(line: string): void;
}

export async function startGateway(
  installation: Installation,
  settings: Pick<Settings, "host" | "port" | "dataDir" | "controlSocketFile">,
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
  const usage = openUsageWriter({ db, log, ...limits.usageWriter });
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
    usage,
    responses: openResponseRoutes(db, limits.rememberedResponsesMax),
    dispatcher: {
      ...clock,
      alarms,
      log,
      pool,
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
    policy.close();
    http.close();
    pulse.stop();
    alarms.stop();
    const giveUpAtMs = clock.monotonicMs() + limits.flushTimeoutMs;
    await writeTheRest(usage, log, () => clock.monotonicMs() >= giveUpAtMs);
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

/** A store that comes back in time gets every row; one that does not must not keep the process for ever. */
async function writeTheRest(usage: UsageWriter, log: Log, isTimeUp: () => boolean): Promise<void> {
  for (;;) {
    try {
      return await usage.flush();
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
