/** The rows and panels of the dashboard. */

import { Queries } from "./query.ts";

export interface PanelQuery {
  readonly query: string;
  readonly legend: string;
}

export interface Panel {
  readonly title: string;
  readonly about?: string;
  /** A unit of Grafana. */
  readonly unit: string;
  readonly queries: readonly PanelQuery[];
  readonly kind?: "timeseries" | "stat";
}

export interface Row {
  readonly title: string;
  readonly panels: readonly Panel[];
}

const q = new Queries({
  matchers: { instance: '=~"$node"', model: '=~"$model"', group: '=~"$group"' },
  range: "$__rate_interval",
});

const one = (query: string, legend: string): readonly PanelQuery[] => [{ query, legend }];

const TRAFFIC: Row = {
  title: "Traffic",
  panels: [
    {
      title: "Requests by model",
      unit: "reqps",
      queries: one(q.sumRate("gateway_requests_total", ["model"]), "{{model}}"),
    },
    {
      title: "Requests by outcome",
      unit: "reqps",
      queries: one(q.sumRate("gateway_requests_total", ["outcome"]), "{{outcome}}"),
    },
    {
      title: "Tokens",
      unit: "short",
      queries: one(q.sumRate("gateway_tokens_total", ["kind"]), "{{kind}}"),
    },
    {
      title: "Cached share of the input",
      unit: "percentunit",
      queries: one(`avg by (model) (${q.series("gateway_cache_hit_ratio")})`, "{{model}}"),
    },
    {
      title: "Translated requests",
      unit: "reqps",
      queries: one(
        q.sumRate("gateway_translated_requests_total", ["client", "upstream"]),
        "{{client}} → {{upstream}}",
      ),
    },
    {
      title: "Fields dropped by translation",
      unit: "short",
      queries: one(q.sumRate("gateway_dropped_fields_total", ["field"]), "{{field}}"),
    },
    {
      title: "Changes by request policies",
      unit: "short",
      queries: one(q.sumRate("gateway_policy_actions_total", ["rule", "action"]), "{{rule}} {{action}}"),
    },
    {
      title: "Served by fallback steps",
      unit: "reqps",
      queries: one(
        q.sumRate("gateway_fallbacks_total", ["from", "to", "reason"]),
        "{{from}} → {{to}}: {{reason}}",
      ),
    },
    {
      title: "Images",
      unit: "short",
      queries: one(q.sumRate("gateway_images_total", ["model"]), "{{model}}"),
    },
    {
      title: "WebSockets",
      unit: "short",
      queries: [
        { query: `sum(${q.series("gateway_sockets_open")})`, legend: "open" },
        { query: q.sumRate("gateway_socket_turns_total", []), legend: "turns/s" },
      ],
    },
  ],
};

const LATENCY: Row = {
  title: "Latency",
  panels: [
    {
      title: "Time to first token",
      about: "Streams, from arrival to the first content.",
      unit: "s",
      queries: [
        { query: q.quantile(0.5, "gateway_first_token_seconds", ["model"]), legend: "{{model}} p50" },
        { query: q.quantile(0.95, "gateway_first_token_seconds", ["model"]), legend: "{{model}} p95" },
      ],
    },
    {
      title: "Output tokens per second",
      unit: "short",
      queries: one(q.quantile(0.5, "gateway_output_tokens_per_second", ["model"]), "{{model}} p50"),
    },
    {
      title: "Duration of requests",
      unit: "s",
      queries: [
        {
          query: q.quantile(0.5, "gateway_request_duration_seconds", ["endpoint"]),
          legend: "{{endpoint}} p50",
        },
        {
          query: q.quantile(0.95, "gateway_request_duration_seconds", ["endpoint"]),
          legend: "{{endpoint}} p95",
        },
      ],
    },
    {
      title: "Time to first byte",
      unit: "s",
      queries: one(q.quantile(0.95, "gateway_first_byte_seconds", ["endpoint"]), "{{endpoint}} p95"),
    },
  ],
};

const ERRORS: Row = {
  title: "Errors by cause",
  panels: [
    {
      title: "Errors by code",
      unit: "reqps",
      queries: one(q.sumRate("gateway_errors_total", ["code"]), "{{code}}"),
    },
    {
      title: "Failovers by failure class",
      unit: "ops",
      queries: one(q.sumRate("gateway_failovers_total", ["reason"]), "{{reason}}"),
    },
    {
      title: "Retries by model",
      unit: "ops",
      queries: one(q.sumRate("gateway_retries_total", ["model"]), "{{model}}"),
    },
  ],
};

const ACCOUNTS: Row = {
  title: "Accounts",
  panels: [
    {
      title: "Healthy accounts",
      about: "1 if the account is healthy; 0 while it is cooling down, probing or parked.",
      unit: "short",
      queries: one(`min by (account) (${q.series("gateway_account_usable")})`, "{{account}}"),
    },
    {
      title: "Attempts by class",
      unit: "ops",
      queries: one(
        q.sumRate("gateway_upstream_attempts_total", ["account", "class"]),
        "{{account}} {{class}}",
      ),
    },
    {
      title: "Duration of attempts",
      unit: "s",
      queries: one(q.quantile(0.95, "gateway_upstream_seconds", ["account"]), "{{account}} p95"),
    },
    {
      title: "Attempts in flight",
      unit: "short",
      queries: one(`sum by (account) (${q.series("gateway_account_attempts_in_flight")})`, "{{account}}"),
    },
    {
      title: "Requests by last account",
      unit: "reqps",
      queries: one(q.sumRate("gateway_account_requests_total", ["account"]), "{{account}}"),
    },
  ],
};

const LIMITS: Row = {
  title: "Limits and queue",
  panels: [
    {
      title: "Requests rejected by limits",
      unit: "reqps",
      queries: one(q.sumRate("gateway_limit_rejections_total", ["scope", "kind"]), "{{scope}} {{kind}}"),
    },
    {
      title: "Waits for other nodes",
      about: "Time that requests waited for other nodes to give a part of a limit.",
      unit: "s",
      queries: [
        { query: q.quantile(0.5, "gateway_limit_share_wait_seconds", []), legend: "p50" },
        { query: q.quantile(0.99, "gateway_limit_share_wait_seconds", []), legend: "p99" },
      ],
    },
    {
      title: "Requests in the queue",
      unit: "short",
      queries: [
        { query: `sum by (group) (${q.series("gateway_requests_waiting")})`, legend: "{{group}}" },
        {
          query: `sum by (group) (${q.series("gateway_requests_waiting_for_slot")})`,
          legend: "{{group}}, for concurrency",
        },
      ],
    },
    {
      title: "Time in the queue",
      unit: "s",
      queries: one(q.quantile(0.95, "gateway_queue_wait_seconds", ["group"]), "{{group}} p95"),
    },
    {
      title: "Requests rejected by the queue",
      unit: "reqps",
      queries: one(q.sumRate("gateway_queue_rejected_total", ["group"]), "{{group}}"),
    },
    {
      title: "Requests rejected for lack of memory",
      unit: "reqps",
      queries: one(q.sumRate("gateway_large_bodies_rejected_total", []), "large bodies"),
    },
    {
      title: "Slow turns of the event loop",
      unit: "short",
      queries: one(q.sumRate("gateway_slow_turns_total", []), "turns/s"),
    },
    {
      title: "Large bodies",
      unit: "bytes",
      queries: [
        { query: `sum(${q.series("gateway_large_bodies_bytes")})`, legend: "used" },
        { query: `sum(${q.series("gateway_large_bodies_bytes_max")})`, legend: "maximum" },
      ],
    },
  ],
};

const MONEY: Row = {
  title: "Money",
  panels: [
    {
      title: "Cost per hour",
      unit: "currencyUSD",
      queries: one(`3600 * ${q.sumRate("gateway_cost_usd_total", ["of"])}`, "{{of}}"),
    },
    {
      title: "Charged per hour by model",
      unit: "currencyUSD",
      queries: one(
        `3600 * ${q.sumRate("gateway_cost_usd_total", ["model"], { of: '="charged"' })}`,
        "{{model}}",
      ),
    },
    {
      title: "Cost today",
      unit: "currencyUSD",
      kind: "stat",
      queries: one(`max(${q.series("gateway_spent_today_usd")})`, "at list prices"),
    },
    {
      title: "Held for requests in flight",
      unit: "currencyUSD",
      queries: one(`sum(${q.series("gateway_held_usd")})`, "held"),
    },
    {
      title: "Paid requests accepted",
      about: "1 if paid requests are accepted; 0 if the disk or the database rejects writes.",
      unit: "short",
      queries: one(q.series("gateway_paid_requests_taken"), "{{instance}}"),
    },
    {
      title: "Billing faults",
      unit: "short",
      kind: "stat",
      queries: one(`sum by (fault) (${q.series("gateway_billing_faults_total")})`, "{{fault}}"),
    },
    {
      title: "Journal",
      unit: "bytes",
      queries: one(q.series("gateway_journal_bytes"), "{{instance}}"),
    },
    {
      title: "Billing transactions",
      about: "Time from the start of a transaction to its commit.",
      unit: "s",
      queries: [
        { query: q.quantile(0.5, "gateway_store_commit_seconds", []), legend: "p50" },
        { query: q.quantile(0.99, "gateway_store_commit_seconds", []), legend: "p99" },
      ],
    },
    {
      title: "Settlements",
      about: "Time that the end of a paid request waited for its settlement.",
      unit: "s",
      queries: [
        { query: q.quantile(0.5, "gateway_settlement_seconds", []), legend: "p50" },
        { query: q.quantile(0.99, "gateway_settlement_seconds", []), legend: "p99" },
      ],
    },
    {
      title: "Overdue settlements",
      about: "Settlements that the database did not accept in time.",
      unit: "short",
      queries: one(q.series("gateway_overdue_settlements"), "{{instance}}"),
    },
  ],
};

const PROCESS: Row = {
  title: "Process",
  panels: [
    {
      title: "CPU",
      unit: "percentunit",
      queries: one(q.rate("process_cpu_seconds_total"), "{{instance}}"),
    },
    {
      title: "Memory",
      unit: "bytes",
      queries: one(q.series("process_resident_memory_bytes"), "{{instance}}"),
    },
    {
      title: "Open files",
      unit: "short",
      queries: one(q.series("process_open_fds"), "{{instance}}"),
    },
    {
      title: "Age of the policy",
      unit: "s",
      queries: one(q.series("gateway_policy_age_seconds"), "{{instance}}"),
    },
    {
      title: "Reports that were dropped",
      about:
        "Spans that no collector received, lines of the access log that no reader took, and captures that did not fit.",
      unit: "ops",
      queries: [
        { query: q.sumRate("gateway_telemetry_dropped_total", ["reason"]), legend: "spans, {{reason}}" },
        { query: q.sumRate("gateway_access_log_dropped_total", []), legend: "access log" },
        { query: q.sumRate("gateway_captures_dropped_total", ["reason"]), legend: "captures, {{reason}}" },
      ],
    },
    {
      title: "Usage export, behind",
      about: "Age of the oldest request that a webhook of the usage export has not accepted.",
      unit: "s",
      queries: one(q.series("gateway_usage_export_lag_seconds"), "{{webhook}}"),
    },
    {
      title: "Usage export, deliveries",
      about: "Batches posted to webhooks by result, and the requests in accepted batches.",
      unit: "ops",
      queries: [
        { query: q.sumRate("gateway_usage_export_deliveries_total", ["result"]), legend: "{{result}}" },
        { query: q.sumRate("gateway_usage_export_rows_total", []), legend: "requests" },
      ],
    },
    {
      title: "Captured requests",
      about: "Captures that were stored, in a second.",
      unit: "ops",
      queries: one(q.sumRate("gateway_captures_total", []), "captures"),
    },
    {
      title: "Size of captures",
      about:
        "What captures add to the database in a second, and the memory of those that are not stored yet.",
      unit: "bytes",
      queries: [
        { query: q.sumRate("gateway_capture_bytes_total", []), legend: "stored in a second" },
        { query: q.series("gateway_capture_memory_bytes"), legend: "memory, {{instance}}" },
      ],
    },
    {
      title: "Versions",
      unit: "short",
      kind: "stat",
      queries: one(`count by (version) (${q.series("gateway_info")})`, "{{version}}"),
    },
  ],
};

export const ROWS: readonly Row[] = [TRAFFIC, LATENCY, ERRORS, ACCOUNTS, LIMITS, MONEY, PROCESS];
