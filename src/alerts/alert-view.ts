/** What the alert rules evaluate, what they find, and their limits. */

import type { BillingFault } from "../observe/billing-faults.ts";
import type { AccountReport } from "../pool/health-report.ts";
import type { AlertRule } from "../records/alert-rules.ts";
import type { AlertDetails } from "../store/alerts/alerts.ts";
import type { DirectoryLoss, LossBounds } from "../store/identity/directory-losses.ts";
import type { RepeatedOverruns } from "../store/money/overruns.ts";
import type { NodeRecord } from "../store/nodes/nodes.ts";
import type { SpentToday } from "./daily-spending.ts";
import type { TrafficSample } from "./traffic-history.ts";

/** The current state as seen by this process. */
export interface AlertView {
  nowMs: number;
  startedAtMs: number;
  accounts: readonly { id: string; name: string; report: AccountReport }[];
  /** `emptySinceMs`: since when none of its accounts is available; null while one is. */
  groups: readonly { id: string; name: string; accountIds: readonly string[]; emptySinceMs: number | null }[];
  /** Requests of the last time, how many of them failed, and how many fallback steps served. */
  countTraffic(spanMs: number): Pick<TrafficSample, "requests" | "errors" | "fallbacks">;
  /** Null until first read. */
  spent: SpentToday | null;
  /** Billing faults whose latest occurrence is younger than `billingFaultMs`. */
  billingFaults: readonly { fault: BillingFault; count: number }[];
  billingFaultMs: number;
  /** Users with at least as many overruns in the rule's span as it allows. Null until first read. */
  overruns: readonly RepeatedOverruns[] | null;
  /** Slow turns of the event loop, if there were several in a short time; otherwise 0. */
  slowTurns: number;
  /** The nodes of the database; null until first read. */
  nodes: readonly NodeRecord[] | null;
  /** The nodes that had lost their coordinator at the last two reads: a slow moment is none of them. */
  uncoordinatedNodeIds: ReadonlySet<string>;
  /** Providers that lost many people at once; null until first read. */
  directoryLosses: readonly DirectoryLoss[] | null;
  nodeSilentMs: number;
  /** When this process noticed that the database was replaced; null if it was not. */
  storeReplacedAtMs: number | null;
  /** How long an alert stays open after a replacement of the database. */
  failoverMs: number;
}

export interface AlertCondition {
  rule: AlertRule;
  subject: string;
  /** Whether only this node sees the condition, or every node. */
  seenBy: "node" | "all";
  message: string;
  details: AlertDetails;
}

export interface AlertLimits {
  checkIntervalMs: number;
  deliveryTimeoutMs: number;
  retriesMs: readonly number[];
  keptMs: number;
  /** How long an alert stays open after the latest billing fault. */
  billingFaultMs: number;
  /** The silence after which a node, or the database as this node sees it, is alerted. */
  nodeSilentMs: number;
  databaseAwayMs: number;
  /** How long an alert stays open after a replacement of the database. */
  failoverMs: number;
  directoryLoss: LossBounds;
}

export interface StoreSignals {
  /** Since the database last accepted a write of this node. */
  sinceWrittenMs(): number;
  /** When this process noticed that the database was replaced by another one; null if it was not. */
  replacedAtMs(): number | null;
}
