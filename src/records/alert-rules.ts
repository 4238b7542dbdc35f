/**
 * Declares the alert rules. The settings of a rule, their stored form, their rules in gateway.yaml and the form of the
 * console are derived from here; `alerts/conditions.ts` has the condition of each rule.
 */

import { camelCase, snakeCase } from "../base/name-case.ts";
import type { FileName, RecordOf, SectionField, SnakeCase } from "./fields.ts";
import * as field from "./fields.ts";

const COUNT = { min: 1, max: 1_000_000 };
const SPAN_MS_MAX = 3_600_000;

const enabled = (byDefault: boolean) => field.flag(byDefault, "whether the alert is sent");
const countedOver = (byDefaultMs: number) =>
  field.named(
    "over",
    field.boundedDuration(
      byDefaultMs,
      { min: 60_000, max: SPAN_MS_MAX },
      "the time window of the count, a [duration](#durations)",
    ),
  );

/** A rule about the share of some requests. `counted`: these, with a link to where they are explained. */
const rate = (percent: number, counted: string) => ({
  enabled: enabled(true),
  percent: field.bounded(percent, { min: 1, max: 100 }, `the threshold: ${counted} in percent`),
  overMs: countedOver(300_000),
  requestsMin: field.named(
    "min_requests",
    field.bounded(20, COUNT, "minimum number of requests in the time window"),
  ),
});

/** The rules that operators configure. In the order of the file. */
export const ALERT_RULE_FIELDS = {
  accountParked: field.section("an account was parked because its credential was rejected", {
    enabled: enabled(true),
  }),
  poolEmpty: field.section("a group has no available account", {
    enabled: enabled(true),
    forMs: field.named(
      "for",
      field.boundedDuration(
        60_000,
        { min: 1_000, max: SPAN_MS_MAX },
        "how long no account must be available, a [duration](#durations)",
      ),
    ),
  }),
  spend: field.section("the cost of a day (UTC) exceeds a threshold", {
    enabled: enabled(false),
    usdPerDay: field.usd(
      "100",
      "the threshold in USD: the cost of all requests at their prices, charged or not",
    ),
  }),
  errorRate: field.section("the share of failed requests exceeds a threshold", rate(20, "failed requests")),
  fallbackRate: field.section(
    "the share of requests that fallback steps served exceeds a threshold",
    rate(50, "requests that [fallback](routing.md) steps served,"),
  ),
  overruns: field.section("requests of one user repeatedly cost more than their holds", {
    enabled: enabled(true),
    count: field.bounded(3, COUNT, "the threshold: number of such requests of one user"),
    overMs: countedOver(3_600_000),
  }),
};

/** The rules that are always enabled. */
const FIXED_ALERT_RULES = [
  "billing_fault",
  "slow_turns",
  "directory_shrinks",
  "node_silent",
  "coordinator_lost",
  "limits_closed",
  "clock_skew",
  "database_failover",
  "database_away",
] as const;

type RuleFields = typeof ALERT_RULE_FIELDS;
export interface AlertRuleSettings extends RecordOf<RuleFields> {}

export type ConfiguredAlertRule = SnakeCase<keyof RuleFields>;
export type AlertRule = ConfiguredAlertRule | (typeof FIXED_ALERT_RULES)[number];

type FieldName<Fields> = { [Name in keyof Fields]: FileName<Name, Fields[Name]> }[keyof Fields];
type RuleFieldName = { [Rule in keyof RuleFields]: FieldName<RuleFields[Rule]["fields"]> }[keyof RuleFields];
/** The fields beside `enabled`. */
export type AlertThresholdName = Exclude<RuleFieldName, "enabled">;

/** With the names of the file. */
export const CONFIGURED_ALERT_RULES = Object.entries<SectionField>(ALERT_RULE_FIELDS).map(
  ([name, { means, fields }]) => ({
    rule: snakeCase(name) as ConfiguredAlertRule,
    means,
    fields: Object.entries(fields).map(([name, field]) => ({
      name: (field.file ?? snakeCase(name)) as RuleFieldName,
      field,
    })),
  }),
);
export const ALERT_RULES: readonly AlertRule[] = [
  ...CONFIGURED_ALERT_RULES.map(({ rule }) => rule),
  ...FIXED_ALERT_RULES,
];

type SettingsByRule = { [Name in keyof RuleFields as SnakeCase<Name>]: AlertRuleSettings[Name] };
const ALWAYS_ENABLED = { enabled: true };
export type SettingsOfRule<Rule extends AlertRule> = Rule extends ConfiguredAlertRule
  ? SettingsByRule[Rule]
  : typeof ALWAYS_ENABLED;

export function readRuleSettings<Rule extends AlertRule>(
  settings: AlertRuleSettings,
  rule: Rule,
): SettingsOfRule<Rule> {
  const byName: Readonly<Record<string, unknown>> = { ...settings };
  return (byName[camelCase(rule)] ?? ALWAYS_ENABLED) as SettingsOfRule<Rule>;
}
