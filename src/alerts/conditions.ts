/** The conditions of the alert rules (`records/alert-rules.ts`): which alerts to open, and which are over. */

import { usdText } from "../money/nano.ts";
import type { BillingFault } from "../observe/billing-faults.ts";
import {
  ALERT_RULES,
  type AlertRule,
  type AlertRuleSettings,
  readRuleSettings,
  type SettingsOfRule,
} from "../records/alert-rules.ts";
import type { AlertRecord } from "../store/alerts/alerts.ts";
import type { AlertCondition, AlertView } from "./alert-view.ts";
import { type Condition, type FoundCondition, isOwnAlert } from "./condition.ts";
import type { SpentToday } from "./daily-spending.ts";
import {
  CLOCK_SKEW,
  COORDINATOR_LOST,
  DATABASE_FAILOVER,
  LIMITS_CLOSED,
  NODE_SILENT,
} from "./node-conditions.ts";

/** In the order in which alerts of one check are opened. */
const CONDITIONS: { readonly [Rule in AlertRule]: Condition<SettingsOfRule<Rule>> } = {
  account_parked: {
    seenBy: "node",
    find: ({ accounts }) =>
      accounts
        .filter(({ report }) => report.condition === "parked")
        .map(({ id, name, report }) => ({
          subject: id,
          message: `Account ${name} is parked because the upstream rejected its credential. Replace the credential to use the account again.`,
          details: { account_id: id, account: name, cause: report.cause ?? "credential" },
        })),
    isOver(alert, view) {
      const account = view.accounts.find(({ id }) => id === alert.subject);
      return isOwnAlert(alert, view) || account === undefined || account.report.isTried;
    },
  },

  pool_empty: {
    seenBy: "node",
    find: ({ groups, nowMs }, { forMs }) =>
      groups
        .filter(({ emptySinceMs }) => emptySinceMs !== null && nowMs - emptySinceMs >= forMs)
        .map(({ id, name, accountIds }) => ({
          subject: id,
          message: `Group ${name} has no available account: all ${accountIds.length} are parked or cooling down.`,
          details: { group_id: id, group: name, accounts: accountIds.length },
        })),
    isOver(alert, view) {
      const group = view.groups.find(({ id }) => id === alert.subject);
      if (group === undefined) return true;
      // A pool that lost its last account is still empty.
      if (group.accountIds.length === 0 || group.emptySinceMs !== null) return false;
      const tried = view.accounts.filter(({ id, report }) => group.accountIds.includes(id) && report.isTried);
      return isOwnAlert(alert, view) || tried.some(({ report }) => report.condition === "well");
    },
  },

  spend: {
    seenBy: "all",
    find({ spent }, { usdPerDay }) {
      if (spent === null || spent.nano < Number(usdPerDay) * 1e9) return [];
      const day = formatDay(spent);
      const usd = usdText(BigInt(Math.round(spent.nano)));
      return [
        {
          subject: buildSpendSubject(spent, usdPerDay),
          message: `The cost of requests on ${day} is $${usd}, above the threshold of $${usdPerDay} per day.`,
          details: { day, usd, usd_per_day: usdPerDay },
        },
      ];
    },
    // The cost of a day never decreases. After a restart only its last minute is not counted yet.
    isOver: ({ subject }, { spent }, { usdPerDay }) =>
      spent !== null && subject !== buildSpendSubject(spent, usdPerDay),
  },

  error_rate: {
    seenBy: "node",
    find(view, settings) {
      const { requests, errors } = view.countTraffic(settings.overMs);
      return findRate({ requests, counted: errors }, settings, ({ share, minutes }) => ({
        message: `${share} % of ${requests} requests failed in the last ${minutes} min, above the threshold of ${settings.percent} %.`,
        details: { requests, errors },
      }));
    },
    isOver: isRateOver,
  },

  fallback_rate: {
    seenBy: "node",
    find(view, settings) {
      const { requests, fallbacks } = view.countTraffic(settings.overMs);
      return findRate({ requests, counted: fallbacks }, settings, ({ share, minutes }) => ({
        message: `Fallback steps served ${share} % of ${requests} requests in the last ${minutes} min, above the threshold of ${settings.percent} %. The metric gateway_fallbacks_total names the groups and the reasons.`,
        details: { requests, fallbacks },
      }));
    },
    isOver: isRateOver,
  },

  // These faults cost the operator money.
  billing_fault: {
    seenBy: "node",
    find: ({ billingFaults }) =>
      billingFaults.map(({ fault, count }) => ({
        subject: fault,
        message: FAULT_TEXT[fault](count),
        details: { fault, count },
      })),
    isOver: (alert, view) => isOwnAlert(alert, view) || view.nowMs - alert.startedAtMs >= view.billingFaultMs,
  },

  overruns: {
    seenBy: "all",
    find({ overruns: users }, { overMs }) {
      const minutes = Math.round(overMs / 60_000);
      return (users ?? []).map(({ userId, email, overruns, overNano }) => {
        const usd = usdText(overNano);
        const user = email ?? userId;
        return {
          subject: userId,
          message: `${overruns} requests of ${user} cost more than their holds in the last ${minutes} min, $${usd} in total. Check the user's requests with the flag overrun.`,
          details: { user_id: userId, user, overruns, usd, minutes },
        };
      });
    },
    isOver: (_, { overruns }) => overruns !== null,
  },

  // Every client waits meanwhile.
  slow_turns: {
    seenBy: "node",
    find: ({ slowTurns }) =>
      slowTurns === 0
        ? []
        : [
            {
              subject: "",
              message: `The event loop was held repeatedly: at least ${slowTurns} times in the last minutes. The log lines slow_turn name the requests.`,
              details: { turns: slowTurns },
            },
          ],
    isOver: () => true,
  },

  // A wrong group at the provider ends the access of many people, who cannot work until it is noticed.
  directory_shrinks: {
    seenBy: "all",
    find: ({ directoryLosses }) =>
      (directoryLosses ?? []).map(({ provider, suspended, people }) => ({
        subject: provider,
        message: `${suspended} of ${people} people of the provider ${provider} lost their access within minutes, and their keys are suspended. If this is a mistake, restore them on the page Directory.`,
        details: { provider, suspended, people },
      })),
    isOver: (_, { directoryLosses }) => directoryLosses !== null,
  },

  node_silent: NODE_SILENT,
  coordinator_lost: COORDINATOR_LOST,
  limits_closed: LIMITS_CLOSED,
  clock_skew: CLOCK_SKEW,
  database_failover: DATABASE_FAILOVER,

  // `database-away.ts` finds it, and stores it with its end. One without was not stored in time by its process.
  database_away: { seenBy: "node", find: () => [], isOver: () => true },
};

export function findConditions(view: AlertView, rules: AlertRuleSettings): AlertCondition[] {
  return ALERT_RULES.flatMap((rule) => findRuleConditions(rule, view, rules));
}

function findRuleConditions<Rule extends AlertRule>(
  rule: Rule,
  view: AlertView,
  rules: AlertRuleSettings,
): AlertCondition[] {
  const settings = readRuleSettings(rules, rule);
  const condition: Condition<SettingsOfRule<Rule>> = CONDITIONS[rule];
  if (!settings.enabled) return [];
  return condition.find(view, settings).map((found) => ({ rule, seenBy: condition.seenBy, ...found }));
}

/** Whether an alert whose condition no longer holds is over. */
export function isOver(alert: AlertRecord, view: AlertView, rules: AlertRuleSettings): boolean {
  return isOverBy(alert.rule, alert, { view, rules });
}

function isOverBy<Rule extends AlertRule>(
  rule: Rule,
  alert: AlertRecord,
  { view, rules }: { view: AlertView; rules: AlertRuleSettings },
): boolean {
  const settings = readRuleSettings(rules, rule);
  const condition: Condition<SettingsOfRule<Rule>> = CONDITIONS[rule];
  return !settings.enabled || condition.isOver(alert, view, settings);
}

/** A different threshold on the same day is a separate alert. */
function buildSpendSubject(spent: SpentToday, usdPerDay: string): string {
  return `${formatDay(spent)} ${usdPerDay}`;
}

function formatDay({ dayMs }: SpentToday): string {
  return new Date(dayMs).toISOString().slice(0, 10);
}

type RateSettings = AlertRuleSettings["errorRate"];

function findRate(
  { requests, counted }: { requests: number; counted: number },
  { percent, overMs, requestsMin }: RateSettings,
  describe: (rate: { share: number; minutes: number }) => Omit<FoundCondition, "subject">,
): FoundCondition[] {
  if (requests < requestsMin || counted * 100 < requests * percent) return [];
  const share = Math.round((counted * 100) / requests);
  const minutes = Math.round(overMs / 60_000);
  const { message, details } = describe({ share, minutes });
  return [
    { subject: "", message, details: { ...details, percent: share, percent_allowed: percent, minutes } },
  ];
}

function isRateOver(alert: AlertRecord, view: AlertView, { overMs }: RateSettings): boolean {
  return isOwnAlert(alert, view) || view.nowMs - view.startedAtMs >= overMs;
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
