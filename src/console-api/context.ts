/** The dependencies of all operations of the console API, created once in `composition/console-api.ts`. */

import type { Alerts } from "../alerts/engine.ts";
import type { Installation } from "../config/installation/installation.ts";
import type { Gateway } from "../gateway/gateway.ts";
import type { Mail } from "../mail/mail.ts";
import type { BillingFaults } from "../observe/billing-faults.ts";
import type { BillingMetrics } from "../observe/billing-metrics.ts";
import type { ProcessMetrics } from "../observe/merge-metrics.ts";
import type { Providers } from "../openid/providers.ts";
import type { UsageExport } from "../usage-export/engine.ts";
import type { FileThread } from "./files/file-thread.ts";
import type { Live } from "./live/live.ts";
import type { AuthThrottles } from "./throttling/auth-throttles.ts";
import type { Throttle } from "./throttling/throttle.ts";

export type { Mail, MailMessage } from "../mail/mail.ts";

export type ConsoleGateway = Pick<
  Gateway,
  | "policy"
  | "log"
  | "loop"
  | "limiter"
  | "limitBorrower"
  | "billingEngine"
  | "dispatcher"
  | "bodyBudget"
  | "requestCounts"
  | "requestMetrics"
  | "policyActions"
  | "translation"
  | "tracer"
  | "accessLog"
  | "captures"
  | "concurrencyQueue"
>;

/** Only the handler and the routes see all of it. Each function below a route takes the members that it uses. */
export interface ConsoleContext {
  readonly installation: Installation;
  /** The running gateway: its policy, and data that only this process has (limits, health, requests in flight). */
  readonly gateway: ConsoleGateway;
  /** The URL of the console without a trailing slash. Links begin with it. */
  readonly publicUrl: string;
  /** Throttles that slow down password guessing without affecting other users. */
  readonly identity: AuthThrottles;
  readonly redeemThrottle: Throttle;
  readonly changeThrottle: Throttle;
  /** Null if no mail server is configured. Call it at each use, because the configuration can change. */
  mail(): Promise<Mail | null>;
  /** OpenID Connect providers at which people sign in. */
  readonly providers: Providers;
  readonly files: FileThread;
  readonly alerts: Alerts;
  readonly usageExport: UsageExport;
  /** Whether the database accepts writes now, as in `readyz`. */
  isReady(): Promise<boolean>;
  readonly billingFaults: Pick<BillingFaults, "list">;
  readonly billingMetrics: BillingMetrics;
  readonly live: Live;
  /** The number of this process, and the metrics of the others on its port; null if it is the only one. */
  readonly otherMetrics: { readonly number: number; ask(): Promise<ProcessMetrics[]> } | null;
}

/** For functions that read or write the database. */
export type StoreContext = Pick<ConsoleContext, "installation">;

/** Also with the policy in force, and with the limits, the health and the usage of this process. */
export type PolicyContext = Pick<ConsoleContext, "installation" | "gateway">;

/** For functions that verify the identity of a caller. */
export type IdentityContext = Pick<ConsoleContext, "installation" | "identity">;
