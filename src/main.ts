/**
 * The composition root: opens all services in order and distributes the limits to them. Each step is a file in
 * `composition/`; services are closed in the reverse order.
 */

import { join } from "node:path";
import { openBillingServices } from "./composition/billing.ts";
import { startCaptureRetention } from "./composition/captures.ts";
import { CloseStack } from "./composition/close-stack.ts";
import { openConsoleApi } from "./composition/console-api.ts";
import { divideBudgets } from "./composition/divide-budgets.ts";
import { openGateway, spoolFolder } from "./composition/gateway.ts";
import { openLimits } from "./composition/limits.ts";
import { NodeAddress } from "./composition/node-address.ts";
import { openHealthSharing, openThrottleSharing, startListening } from "./composition/node-sharing.ts";
import { openPolicy } from "./composition/policy.ts";
import type { ProcessContext, ProcessLimits, ServerSettings } from "./composition/process-context.ts";
import { startHttpServer } from "./composition/server.ts";
import { withStoreClock } from "./composition/store-clock.ts";
import { startRemovingResponses } from "./composition/stored-responses.ts";
import { openTracer } from "./composition/telemetry.ts";
import { openThisNode, startFinishingMigrations, type ThisNode } from "./composition/this-node.ts";
import { openTimers } from "./composition/upstream.ts";
import { openUsageExport } from "./composition/usage-export.ts";
import type { Installation } from "./config/installation/installation.ts";
import { limits as productLimits } from "./config/limits/product-limits.ts";
import { startSweepingSessions } from "./console-api/auth/delete-expired-sessions.ts";
import { applyWholeDirectory } from "./console-api/scim/apply-directory.ts";
import { suspendOverduePeople } from "./console-api/sign-in/end-access.ts";
import { sweepSpool } from "./gateway/bodies/spool.ts";
import type { Gateway } from "./gateway/gateway.ts";
import { loadTokenizer } from "./gateway/metering/tokenizer.ts";
import { openLog } from "./observe/log.ts";
import { openOperatorSocket, type ProcessReports } from "./server/operator-socket.ts";

export type { ServerSettings } from "./composition/process-context.ts";

export interface Running {
  readonly url: string;
  readonly port: number;
  readonly counts: { keys: number; groups: number };
  /**
   * Reports that it is not ready, serves on for the drain delay, lets requests in flight finish, and writes all pending
   * records. The database stays open.
   */
  stop(drainDelayMs?: number): Promise<void>;
}

/** What tests can change: deadlines that are too long to wait for, the log output, and the folder of built pages. */
export interface StartOptions {
  limits?: Partial<ProcessLimits>;
  writeLog?(line: string): void;
  writeAccess?(text: string, onWritten: () => void): void;
  builtDir?: string;
}

/** Output folder of `npm run build`. The single executable has its folders beside its modules. */
export const BUILT_DIR = Bun.isStandaloneExecutable ? import.meta.dir : join(import.meta.dir, "../dist");

export async function startGateway(
  installation: Installation,
  settings: ServerSettings,
  options: StartOptions = {},
): Promise<Running> {
  const closers = new CloseStack();
  const { process: place } = settings;
  const limits = divideBudgets({ ...productLimits, ...options.limits }, place?.count ?? 1);
  const writeLog = options.writeLog ?? ((line) => process.stderr.write(line));
  const log = openLog(installation.clock.nowMs, writeLog, place === null ? {} : { process: place.number });
  const writeAccess = options.writeAccess ?? ((text, onWritten) => process.stdout.write(text, onWritten));
  try {
    const context = await withStoreClock({
      installation,
      settings,
      limits,
      log,
      writeAccess,
      closers,
    });
    return await openServices(context, options.builtDir ?? BUILT_DIR);
  } catch (error) {
    // The port is taken, for example. Services that already run would keep the process alive.
    await closers.closeAll();
    throw error;
  }
}

async function openServices(context: ProcessContext, builtDir: string): Promise<Running> {
  const { settings, closers } = context;
  await sweepSpool(spoolFolder(context));
  const policy = await openPolicy(context);
  const node = await openThisNode(context);
  const billing = await openBillingServices(context, node);
  // Only now is all usage of earlier processes booked.
  const opened = await openLimits(context, { node, policy, billing });
  const timers = openTimers(context);
  const address = new NodeAddress(settings);
  const tracer = openTracer(context, timers, address);
  const throttles = openThrottleSharing(context, node);
  const gateway = openGateway(context, { policy, ...opened, billing, timers, tracer, throttles });
  const health = await openHealthSharing(context, node, gateway);
  startListening(context, { policy, health, billingEngine: billing.billingEngine });
  const usageExport = openUsageExport(context, gateway, node);
  const { status } = node;
  const api = openConsoleApi(context, { gateway, billing, address, throttles, usageExport, status });
  const server = startHttpServer(context, {
    gateway,
    billing,
    api: api.handle,
    tools: api.tools,
    builtDir,
    status,
  });
  address.setServer(server);
  startRemovingResponses(context, node);
  await startBackgroundJobs(context, gateway, node);
  await openSocketOfOperator(context, gateway, {
    readiness: () => server.readiness.ofProcess(),
    metrics: api.metrics,
  });
  gateway.loop.start();
  await node.status.update({ address: address.node, state: "ready" });
  return {
    url: server.url,
    port: server.port,
    counts: { keys: policy.keys.size, groups: policy.snapshot().groups.size },
    async stop(drainDelayMs = settings.drainDelayMs) {
      server.announceClose();
      void node.status.update({ state: "draining" });
      // Load balancers notice it with a delay and send requests meanwhile.
      await Bun.sleep(drainDelayMs);
      await closers.closeAll();
    },
  };
}

async function openSocketOfOperator(
  { settings, closers }: ProcessContext,
  gateway: Gateway,
  reports: ProcessReports,
): Promise<void> {
  const socket = await openOperatorSocket({ gateway, socketFile: settings.controlSocketFile, reports });
  closers.add(() => socket.close());
}

async function startBackgroundJobs(context: ProcessContext, gateway: Gateway, node: ThisNode): Promise<void> {
  const { jobs } = node;
  const { installation, limits, log, closers } = context;
  const sessionSweeper = startSweepingSessions(installation, {
    log,
    sweepMs: limits.sessionSweepMs,
    runJob: jobs.forJob("sessions", limits.sessionSweepMs),
    suspendOverduePeople: () => suspendOverduePeople(installation),
    applyWholeDirectory: () => applyWholeDirectory(installation),
  });
  closers.add(() => sessionSweeper.stop());
  startCaptureRetention(context, node);
  startFinishingMigrations(context);
  // Needed when a client disconnects or an upstream reports no usage. Loaded now, so that no request waits for it.
  const charges = [...gateway.policy.snapshot().groups.values()].some(
    ({ billing }) => billing.charge !== "none",
  );
  if (charges) void loadTokenizer();
}
