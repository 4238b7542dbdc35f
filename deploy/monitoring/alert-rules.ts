/** Alert rules for Prometheus, for conditions that need a person. */

import { Queries } from "./query.ts";

export interface AlertRule {
  readonly name: string;
  readonly query: string;
  /** How long the condition must hold. */
  readonly for: string;
  readonly severity: "critical" | "warning";
  readonly summary: string;
  readonly action: string;
}

const q = new Queries({ matchers: {}, range: "5m" });
const slow = new Queries({ matchers: {}, range: "10m" });

/** A rate over fewer requests is not significant. */
const REQUESTS_MIN = 0.1;

const failures = `(${q.sumRate("gateway_requests_total", [], { status: '=~"5.."' })} or vector(0)) + (${q.sumRate("gateway_requests_total", [], { outcome: '="upstream_cut"' })} or vector(0))`;
const requests = q.sumRate("gateway_requests_total", []);

export const ALERT_RULES: readonly AlertRule[] = [
  {
    name: "GatewayDown",
    query: 'up{job="model-gateway"} == 0',
    for: "2m",
    severity: "critical",
    summary: "{{ $labels.instance }} does not respond.",
    action: "Check the process and its log. The job must be named model-gateway in prometheus.yml.",
  },
  {
    name: "GatewayPaidRequestsRejected",
    query: `${q.series("gateway_paid_requests_taken")} == 0`,
    for: "1m",
    severity: "critical",
    summary: "{{ $labels.instance }} rejects paid requests.",
    action: "Check the disk of the data folder and the database; readyz names the one that fails.",
  },
  {
    name: "GatewayBillingFault",
    query: `increase(${q.series("gateway_billing_faults_total")}[1h]) > 0`,
    for: "0m",
    severity: "critical",
    summary: "Billing fault {{ $labels.fault }} on {{ $labels.instance }}.",
    action: "Run `model-gateway audit` and read the log of the process.",
  },
  {
    name: "GatewaySlowTurns",
    query: `increase(${q.series("gateway_slow_turns_total")}[10m]) > 2`,
    for: "0m",
    severity: "warning",
    summary: "The event loop of {{ $labels.instance }} was held for more than 50 ms, repeatedly.",
    action:
      "The log lines slow_turn name the requests. Report them with the endpoint and the size of the body.",
  },
  {
    name: "GatewayAccountUnusable",
    query: `${q.series("gateway_account_usable")} == 0`,
    for: "5m",
    severity: "warning",
    summary: "Account {{ $labels.account }} is not used by {{ $labels.instance }}.",
    action: "The account page of the console shows the reason. A parked account needs another credential.",
  },
  {
    name: "GatewayErrorRate",
    query: `(${failures}) / ${requests} > 0.05 and ${requests} > ${REQUESTS_MIN}`,
    for: "5m",
    severity: "critical",
    summary: "{{ $value | humanizePercentage }} of the requests fail.",
    action: "Look at errors by code and attempts by class.",
  },
  {
    name: "GatewaySlowFirstToken",
    query: `${slow.quantile(0.95, "gateway_first_token_seconds", ["model"])} > 30`,
    for: "10m",
    severity: "warning",
    summary: "The first token of {{ $labels.model }} takes {{ $value | humanizeDuration }} (p95).",
    action: "Look at the duration of attempts by account and at the time in the queue.",
  },
  {
    name: "GatewayQueueRejecting",
    query: `${q.sumRate("gateway_queue_rejected_total", ["group"])} > ${REQUESTS_MIN}`,
    for: "10m",
    severity: "warning",
    summary: "The queue of group {{ $labels.group }} rejects requests.",
    action: "Add accounts, raise their limits, or raise the limits of the group.",
  },
  {
    name: "GatewayJournalGrowing",
    query: `delta(${q.series("gateway_journal_bytes")}[15m]) > 100e6`,
    for: "5m",
    severity: "warning",
    summary: "The journal of {{ $labels.instance }} grows.",
    action: "The database accepts less than arrives. Check its load and its disk.",
  },
  {
    name: "GatewaySettlementsOverdue",
    query: `${q.series("gateway_overdue_settlements")} > 0`,
    for: "5m",
    severity: "warning",
    summary: "{{ $value }} settlements of {{ $labels.instance }} are not in the database.",
    action: "They are saved in the data folder. Check the database and the log (billing_write_failed).",
  },
  {
    name: "GatewayPolicyStale",
    query: `${q.series("gateway_policy_age_seconds")} > 60`,
    for: "1m",
    severity: "warning",
    summary: "{{ $labels.instance }} has not read the policy for {{ $value | humanizeDuration }}.",
    action: "Revoked keys still work there. Check the database and the log (policy_refresh_failed).",
  },
  {
    name: "GatewayCoordinatorLost",
    query: `${q.series("gateway_coordinator_up")} == 0`,
    for: "1m",
    severity: "warning",
    summary: "{{ $labels.instance }} cannot borrow limits.",
    action:
      "Each node serves its share, or rejects requests with limits. Check Redis or PostgreSQL and the log (coordinator_lost, limits_closed).",
  },
  {
    name: "GatewayUsageExportBehind",
    query: `${q.series("gateway_usage_export_lag_seconds")} > 900`,
    for: "5m",
    severity: "warning",
    summary: "Webhook {{ $labels.webhook }} is {{ $value | humanizeDuration }} behind the usage feed.",
    action:
      "Settings, Usage export in the console shows the last response of the webhook. No record is lost.",
  },
  {
    name: "GatewayTelemetryDropped",
    query: `${q.sumRate("gateway_telemetry_dropped_total", ["reason"])} > 0`,
    for: "10m",
    severity: "warning",
    summary: "Spans are dropped: {{ $labels.reason }}.",
    action: "Check the OpenTelemetry collector.",
  },
];
