/**
 * The composition root: settings → store → policy → gateway → server. The one file that knows all modules,
 * and the only place where the real clock, randomness and limits are chosen.
 */

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type Clock, type NewId, systemClock, uuidV7 } from "./clock.ts";
import type { Settings } from "./config/environment.ts";
import { limits } from "./config/limits.ts";
import { furnishDemo } from "./demo.ts";
import { openBadKeyThrottle } from "./gateway/bad-keys.ts";
import type { Gateway } from "./gateway/gateway.ts";
import { openRequestReader } from "./gateway/read-request.ts";
import { openPulse } from "./gateway/relay.ts";
import { openResponseRoutes } from "./gateway/response-routes.ts";
import { openUsageWriter } from "./gateway/settle.ts";
import { type Log, openLog } from "./observe/log.ts";
import { openLivePolicy } from "./policy/live-policy.ts";
import { openDigester } from "./secrets/api-key.ts";
import { type Keyring, openKeyring } from "./secrets/keyring.ts";
import { startServer } from "./server/server.ts";
import { type Db, openDb } from "./store/db.ts";
import { migrate } from "./store/migrate.ts";
import { loadPepper } from "./store/pepper.ts";
import { readPolicy } from "./store/policy.ts";
import { readRevisions } from "./store/revisions.ts";
import { openDialer } from "./upstreams/dial.ts";
import { openReach } from "./upstreams/dial-reach.ts";
import { type Simulator, startSimulator } from "./upstreams/simulator/simulator.ts";
import { VERSION } from "./version.ts";

export interface Installation {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly newId: NewId;
  readonly log: Log;
  readonly db: Db;
  readonly keyring: Keyring;
  digest(secret: string): string;
}

/** The store, opened and brought up to date, and what is needed to read its secrets. */
export async function openInstallation(settings: Settings): Promise<Installation> {
  mkdirSync(settings.dataDir, { recursive: true, mode: 0o700 });
  const keyring = openKeyring({
    file: settings.masterKeyFile,
    fromEnv: Bun.env["MODEL_GATEWAY_MASTER_KEY"],
  });
  const db = await openDb(settings.databaseUrl);
  await migrate(db);
  const pepper = await loadPepper(db, keyring);
  return {
    settings,
    clock: systemClock,
    newId: uuidV7,
    log: openLog(systemClock.nowMs, (line) => process.stderr.write(line)),
    db,
    keyring,
    digest: openDigester(pepper),
  };
}

export interface Running {
  readonly url: string;
  readonly port: number;
  /** Lets requests under way finish, writes what is to be written, closes the store. */
  stop(): Promise<void>;
}

export function demoKeyFile(settings: Settings): string {
  return join(settings.dataDir, "demo.key");
}

/** Puts the demo into an empty installation. */
export function furnish(installation: Installation): Promise<boolean> {
  return furnishDemo({
    ...installation,
    randomBytes: (count) => crypto.getRandomValues(new Uint8Array(count)),
    keyFile: demoKeyFile(installation.settings),
  });
}

export async function startGateway(installation: Installation): Promise<Running> {
  const { settings, clock, log, db, keyring } = installation;
  const simulator = await startSimulatorIfUsed(db);
  const policy = await openLivePolicy({
    db,
    keyring,
    simulatorUrl: simulator?.url ?? null,
    log,
    pollMs: limits.policyPollMs,
  });
  const usage = openUsageWriter({ db, log, ...limits.usageWriter });
  const pulse = openPulse(limits.pulseMs, clock.monotonicMs);
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
    usage,
    responses: openResponseRoutes(db, limits.rememberedResponsesMax),
    dispatcher: {
      ...clock,
      log,
      random: Math.random,
      dialer: openDialer({ clock, lookupTimeoutMs: limits.lookupTimeoutMs, cacheMs: limits.addressCacheMs }),
      reach: openReach({ clock, connectTimeoutMs: limits.connectTimeoutMs }),
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
    readRequest: openRequestReader({ ...limits, spoolDir: join(settings.dataDir, "spool") }),
  };
  const server = startServer({
    gateway,
    newId: installation.newId,
    hostname: settings.host,
    port: settings.port,
    bodyBytesMax: limits.imageBodyBytesMax,
    idleTimeoutSeconds: limits.connectionIdleSeconds,
    isStoreReady: () =>
      readRevisions(db).then(
        () => true,
        () => false,
      ),
  });
  return {
    url: server.url,
    port: server.port,
    async stop() {
      await server.drain(limits.drainTimeoutMs);
      policy.close();
      pulse.stop();
      await usage.flush();
      await simulator?.stop();
      await db.close();
    },
  };
}

/** The simulator costs nothing when no account asks for it. */
async function startSimulatorIfUsed(db: Db): Promise<Simulator | null> {
  const { accounts } = await readPolicy(db);
  return accounts.some(({ kind }) => kind === "simulator") ? startSimulator({}) : null;
}
