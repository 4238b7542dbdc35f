/** Evaluates the alert rules: which alerts to open, and which are over. */

import { usdText } from "../money/nano.ts";
import type { BillingFault } from "../observe/billing-faults.ts";
import type { AlertRecord } from "../store/alerts/alerts.ts";
import type { AlertsRecord } from "../store/settings/settings-records.ts";
import type { AlertCondition, AlertView } from "./alert-view.ts";
import type { SpentToday } from "./daily-spending.ts";
import { findNodeConditions } from "./node-conditions.ts";

export function findConditions(view: AlertView, rules: AlertsRecord): AlertCondition[] {
  return [
    ...findParked(view, rules),
    ...findEmptyPools(view, rules),
    ...findOverspending(view, rules),
    ...findFailing(view, rules),
    ...findFallback(view, rules),
    ...findBillingFaults(view),
    ...findOverruns(view, rules),
    ...findSlowTurns(view),
    ...findDirectoryLosses(view),
    ...findNodeConditions(view),
  ];
}

function findParked({ accounts }: AlertView, { accountParked }: AlertsRecord): AlertCondition[] {
  if (!accountParked.enabled) return [];
  return accounts
    .filter(({ report }) => report.condition === "parked")
    .map(({ id, name, report }) => ({
      rule: "account_parked",
      subject: id,
      seenBy: "node",
      message: `Account ${name} is parked because the upstream rejected its credential. Replace the credential to use the account again.`,
      details: { account_id: id, account: name, cause: report.cause ?? "credential" },
    }));
}

function findEmptyPools({ groups, nowMs }: AlertView, { poolEmpty }: AlertsRecord): AlertCondition[] {
  if (!poolEmpty.enabled) return [];
  return groups
    .filter(({ emptySinceMs }) => emptySinceMs !== null && nowMs - emptySinceMs >= poolEmpty.forMs)
    .map(({ id, name, accountIds }) => ({
      rule: "pool_empty",
      subject: id,
      seenBy: "node",
      message: `Group ${name} has no available account: all ${accountIds.length} are parked or cooling down.`,
      details: { group_id: id, group: name, accounts: accountIds.length },
    }));
}

function findOverspending({ spent }: AlertView, { spend }: AlertsRecord): AlertCondition[] {
  if (!spend.enabled || spent === null || !isOverBudget(spent, spend.usdPerDay)) return [];
  const day = formatDay(spent);
  const usd = usdText(BigInt(Math.round(spent.nano)));
  return [
    {
      rule: "spend",
      subject: buildSpendSubject(spent, spend),
      seenBy: "all",
      message: `The cost of requests on ${day} is $${usd}, above the threshold of $${spend.usdPerDay} per day.`,
      details: { day, usd, usd_per_day: spend.usdPerDay },
    },
  ];
}

/** A different threshold on the same day is a separate alert. */
function buildSpendSubject(spent: SpentToday, { usdPerDay }: AlertsRecord["spend"]): string {
  return `${formatDay(spent)} ${usdPerDay}`;
}

function formatDay({ dayMs }: SpentToday): string {
  return new Date(dayMs).toISOString().slice(0, 10);
}

function isOverBudget({ nano }: SpentToday, usdPerDay: string): boolean {
  return nano >= Number(usdPerDay) * 1e9;
}

function findFailing({ recent }: AlertView, { errorRate }: AlertsRecord): AlertCondition[] {
  const { enabled, percent, overMs, requestsMin } = errorRate;
  const { requests, errors } = recent;
  if (!enabled || requests < requestsMin || errors * 100 < requests * percent) return [];
  const share = Math.round((errors * 100) / requests);
  const minutes = Math.round(overMs / 60_000);
  return [
    {
      rule: "error_rate",
      subject: "",
      seenBy: "node",
      message: `${share} % of ${requests} requests failed in the last ${minutes} min, above the threshold of ${percent} %.`,
      details: { requests, errors, percent: share, percent_allowed: percent, minutes },
    },
  ];
}

function findFallback({ fallback }: AlertView, { fallbackRate }: AlertsRecord): AlertCondition[] {
  const { enabled, percent, overMs, requestsMin } = fallbackRate;
  const { requests, fallbacks } = fallback;
  if (!enabled || requests < requestsMin || fallbacks * 100 < requests * percent) return [];
  const share = Math.round((fallbacks * 100) / requests);
  const minutes = Math.round(overMs / 60_000);
  return [
    {
      rule: "fallback_rate",
      subject: "",
      seenBy: "node",
      message: `Fallback steps served ${share} % of ${requests} requests in the last ${minutes} min, above the threshold of ${percent} %. The metric gateway_fallbacks_total names the groups and the reasons.`,
      details: { requests, fallbacks, percent: share, percent_allowed: percent, minutes },
    },
  ];
}

const FAULT_TEXT: Readonly<Record<BillingFault, (count: number) => string>> = {
  unpaid_row: (count) =>
    `${count} paid requests were recorded without a payer. Run model-gateway audit to list them.`,
  journal_damaged: (count) =>
    `${count} journal segments are damaged, so requests may be missing. Run model-gateway audit.`,
  hold_set_aside: (count) =>
    `${count} requests of an ended process could not be charged, and their money stays held. Run model-gateway wallet holds to list and resolve them.`,
  reconciliation_failed: (count) =>
    `${count} hourly reconciliations found that ledger, wallets, usage rows or roll-ups disagree. Run model-gateway audit to list the contradictions.`,
  charge_bounded: (count) =>
    `${count} requests cost far more than was held for them, and the rest was not charged. The log lines charge_bounded name the requests and their accounts: check what the upstream reports, the prices, and context_tokens.`,
  searches_bounded: (count) =>
    `${count} requests searched the web more often than was paid for, and the rest was not charged. The log lines searches_bounded name the requests and their accounts: raise web_searches_max of the group, or check what the upstream reports.`,
};

/** Always enabled: these faults cost the operator money. */
function findBillingFaults({ billingFaults: found }: AlertView): AlertCondition[] {
  return found.map(({ fault, count }) => ({
    rule: "billing_fault",
    subject: fault,
    seenBy: "node",
    message: FAULT_TEXT[fault](count),
    details: { fault, count },
  }));
}

function findOverruns({ overruns: users }: AlertView, { overruns: rule }: AlertsRecord): AlertCondition[] {
  if (!rule.enabled || users === null) return [];
  const minutes = Math.round(rule.overMs / 60_000);
  return users.map(({ userId, email, overruns, overNano }) => {
    const usd = usdText(overNano);
    const user = email ?? userId;
    return {
      rule: "overruns",
      subject: userId,
      seenBy: "all",
      message: `${overruns} requests of ${user} cost more than their holds in the last ${minutes} min, $${usd} in total. Check the user's requests with the flag overrun.`,
      details: { user_id: userId, user, overruns, usd, minutes },
    };
  });
}

/** Always enabled: a wrong group at the provider ends the access of many people, who cannot work until it is noticed. */
function findDirectoryLosses({ directoryLosses }: AlertView): AlertCondition[] {
  return (directoryLosses ?? []).map(({ provider, suspended, people }) => ({
    rule: "directory_shrinks",
    subject: provider,
    seenBy: "all",
    message: `${suspended} of ${people} people of the provider ${provider} lost their access within minutes, and their keys are suspended. If this is a mistake, restore them on the page Directory.`,
    details: { provider, suspended, people },
  }));
}

/** Always enabled: every client waits meanwhile. */
function findSlowTurns({ slowTurns }: AlertView): AlertCondition[] {
  if (slowTurns === 0) return [];
  return [
    {
      rule: "slow_turns",
      subject: "",
      seenBy: "node",
      message: `The event loop was held repeatedly: at least ${slowTurns} times in the last minutes. The log lines slow_turn name the requests.`,
      details: { turns: slowTurns },
    },
  ];
}

/**
 * Whether an alert whose condition no longer holds is over. For an alert from before this process started, that is
 * not known at once: health state starts empty with each process, so an account must be tried first.
 */
export function isOver(alert: AlertRecord, view: AlertView, rules: AlertsRecord): boolean {
  const isOurs = alert.startedAtMs >= view.startedAtMs;
  switch (alert.rule) {
    case "account_parked": {
      const account = view.accounts.find(({ id }) => id === alert.subject);
      return isOurs || !rules.accountParked.enabled || account === undefined || account.report.isTried;
    }
    case "pool_empty": {
      const group = view.groups.find(({ id }) => id === alert.subject);
      if (!rules.poolEmpty.enabled || group === undefined) return true;
      // A pool that lost its last account is still empty.
      if (group.accountIds.length === 0 || group.emptySinceMs !== null) return false;
      const tried = view.accounts.filter(({ id, report }) => group.accountIds.includes(id) && report.isTried);
      return isOurs || tried.some(({ report }) => report.condition === "well");
    }
    case "spend":
      // The cost of a day never decreases. After a restart only its last minute is not counted yet.
      if (!rules.spend.enabled) return true;
      return view.spent !== null && alert.subject !== buildSpendSubject(view.spent, rules.spend);
    case "billing_fault":
      return isOurs || view.nowMs - alert.startedAtMs >= view.billingFaultMs;
    case "error_rate":
      return isOurs || !rules.errorRate.enabled || view.nowMs - view.startedAtMs >= rules.errorRate.overMs;
    case "fallback_rate":
      return (
        isOurs || !rules.fallbackRate.enabled || view.nowMs - view.startedAtMs >= rules.fallbackRate.overMs
      );
    case "slow_turns":
    // It is stored with its end; this one was not, because the process ended first.
    case "database_away":
      return true;
    case "node_silent":
    case "coordinator_lost":
    case "limits_closed":
    case "clock_skew":
      return view.nodes !== null;
    case "database_failover":
      // A process that started later has not noticed it.
      return view.nowMs - alert.startedAtMs >= view.failoverMs;
    case "directory_shrinks":
      return view.directoryLosses !== null;
    case "overruns":
      return !rules.overruns.enabled || view.overruns !== null;
  }
}
