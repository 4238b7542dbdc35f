/** Opens alerts and the console API. */

import { type Alerts, startAlerts } from "../alerts/engine.ts";
import type { ConsoleContext } from "../console-api/context.ts";
import { FileThread } from "../console-api/files/file-thread.ts";
import type { ApiHandler } from "../console-api/handler.ts";
import { openLive } from "../console-api/live/live.ts";
import { openAuthThrottles } from "../console-api/throttling/auth-throttles.ts";
import { openThrottle } from "../console-api/throttling/throttle.ts";
import type { ToolEndpoints } from "../console-api/tools/oauth-endpoints.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { openMail } from "../mail/mail.ts";
import type { ThrottleSharing } from "../nodes/throttle-sharing.ts";
import type { MetricFamily } from "../observe/metrics-text.ts";
import { Providers } from "../openid/providers.ts";
import type { UsageExport } from "../usage-export/engine.ts";
import type { BillingServices } from "./billing.ts";
import type { NodeAddress } from "./node-address.ts";
import type { NodeStatus } from "./node-status.ts";
import { openOtherProcesses } from "./other-processes.ts";
import type { ProcessContext } from "./process-context.ts";

interface ConsoleServices {
  readonly gateway: Gateway;
  readonly billing: BillingServices;
  readonly address: NodeAddress;
  /** Null if there is one node. */
  readonly throttles: ThrottleSharing | null;
  readonly usageExport: UsageExport;
  readonly status: Pick<NodeStatus, "sinceWrittenMs">;
}

interface ConsoleApi {
  readonly handle: ApiHandler;
  /** The endpoints that tools call to sign in. */
  readonly tools: ToolEndpoints;
  /** The metrics of this process alone. */
  metrics(): Promise<MetricFamily[]>;
}

export function openConsoleApi(context: ProcessContext, services: ConsoleServices): ConsoleApi {
  const { installation, limits, closers } = context;
  const { clock, db, keyring } = installation;
  const { gateway, billing, address, throttles, usageExport } = services;
  const share = (name: string) => throttles?.share(name, { reportFrom: 1 });
  const alerts = openAlerts(context, services);
  const files = new FileThread({ installation, limits: limits.fileThread });
  closers.add(() => files.close());
  const consoleContext: ConsoleContext = {
    installation,
    gateway,
    get publicUrl() {
      return address.publicUrl;
    },
    identity: openAuthThrottles(limits, clock, share),
    redeemThrottle: openThrottle({
      ...limits.redeem,
      monotonicMs: clock.monotonicMs,
      shared: share("redeem"),
    }),
    changeThrottle: openThrottle({ ...limits.changesOfUser, monotonicMs: clock.monotonicMs }),
    mail: () => openMail({ db, keyring, dialer: gateway.dispatcher.dialer, timeoutMs: limits.mailTimeoutMs }),
    providers: new Providers({
      ...limits.companySignIn,
      dialer: gateway.dispatcher.dialer,
      http: gateway.dispatcher.http,
      keyring,
      clock,
    }),
    files,
    alerts,
    usageExport,
    isReady: billing.isReady,
    billingFaults: billing.faults,
    billingMetrics: billing.metrics,
    live: openLive({ gateway, alerts, node: () => address.node }),
    otherMetrics: openOtherProcesses(context, "/metrics", ({ process, body }) =>
      body === null ? [] : [{ process, families: JSON.parse(body) }],
    ),
  };
  return {
    handle: openLazily(consoleContext),
    tools: openToolsLazily(consoleContext),
    metrics: async () => (await import("../console-api/metrics/metrics.ts")).buildFamilies(consoleContext),
  };
}

function openAlerts(context: ProcessContext, { gateway, billing, address, status }: ConsoleServices): Alerts {
  const { installation, limits, log, closers } = context;
  const { dispatcher } = gateway;
  const alerts = startAlerts({
    db: installation.db,
    clock: installation.clock,
    log,
    keyring: installation.keyring,
    newId: installation.newId,
    policy: gateway.policy,
    pool: dispatcher.pool,
    traffic: gateway.traffic,
    dialer: dispatcher.dialer,
    http: dispatcher.http,
    origin: () => ({ node: address.node, publicUrl: address.publicUrl }),
    billingFaults: billing.faults,
    loop: gateway.loop,
    store: {
      sinceWrittenMs: () => status.sinceWrittenMs(),
      replacedAtMs: () => billing.storeReplacement.replacedAtMs,
    },
    limits: limits.alerts,
  });
  closers.add(() => alerts.stop());
  return alerts;
}

/**
 * The console API with all its schemas is half of the code that a start would load, and model requests need none of
 * it. It is loaded with the first call.
 */
function openLazily(context: ConsoleContext): ApiHandler {
  let opening: Promise<ApiHandler> | null = null;
  async function open(): Promise<ApiHandler> {
    const [{ openApiHandler }, { ROUTES }] = await Promise.all([
      import("../console-api/handler.ts"),
      import("../console-api/routes.ts"),
    ]);
    return openApiHandler(context, ROUTES, context.gateway.dispatcher.deadlines);
  }
  return async (call) => {
    opening ??= open();
    return (await opening)(call);
  };
}

function openToolsLazily(context: ConsoleContext): ToolEndpoints {
  let opening: Promise<ToolEndpoints> | null = null;
  async function open(): Promise<ToolEndpoints> {
    const { openToolEndpoints } = await import("../console-api/tools/oauth-endpoints.ts");
    return openToolEndpoints(context, context.gateway.dispatcher.deadlines);
  }
  return async (call, action) => {
    opening ??= open();
    return (await opening)(call, action);
  };
}
