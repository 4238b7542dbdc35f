/**
 * Every metric of the gateway, declared once: its type, help and labels. `/metrics`, the Grafana dashboard, the alert
 * rules and the table in docs/monitoring.md are checked against this list.
 */

interface MetricDescription {
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels: readonly string[];
}

export const METRICS = {
  gateway_requests_total: {
    type: "counter",
    help: "Completed requests with a valid API key. The model is empty if it is not published.",
    labels: ["endpoint", "model", "outcome", "status"],
  },
  gateway_errors_total: {
    type: "counter",
    help: "Requests that ended with an error, by error code.",
    labels: ["endpoint", "code"],
  },
  gateway_retries_total: {
    type: "counter",
    help: "Upstream attempts after the first attempt of a request.",
    labels: ["model"],
  },
  gateway_failovers_total: {
    type: "counter",
    help: "Failed attempts that another attempt followed, by failure class.",
    labels: ["model", "reason"],
  },
  gateway_fallbacks_total: {
    type: "counter",
    help: "Requests that a fallback step served, by group and model of the first step and of that one.",
    labels: ["from", "to", "reason"],
  },
  gateway_tokens_total: {
    type: "counter",
    help: "Tokens used. Input tokens include cached tokens and those written to a cache, and output tokens include reasoning tokens.",
    labels: ["model", "kind"],
  },
  gateway_cache_hit_ratio: {
    type: "gauge",
    help: "The cached share of the input tokens since the process started.",
    labels: ["model"],
  },
  gateway_translated_requests_total: {
    type: "counter",
    help: "Requests that were translated for an account of another dialect, by the dialects of client and account.",
    labels: ["client", "upstream"],
  },
  gateway_dropped_fields_total: {
    type: "counter",
    help: "Fields of requests that a translation dropped, because the account's dialect cannot express them.",
    labels: ["field"],
  },
  gateway_policy_actions_total: {
    type: "counter",
    help: "What request policies did to requests: changed or dropped members, and rejected requests, by rule.",
    labels: ["rule", "action"],
  },
  gateway_images_total: { type: "counter", help: "Generated images.", labels: ["model"] },
  gateway_cost_usd_total: {
    type: "counter",
    help: "Cost of requests in US dollars: at list prices, as charged, and at the upstream.",
    labels: ["model", "of"],
  },
  gateway_request_duration_seconds: {
    type: "histogram",
    help: "Time from the arrival of a request to its end, in seconds.",
    labels: ["endpoint"],
  },
  gateway_first_byte_seconds: {
    type: "histogram",
    help: "Time from the arrival of a request to the first byte from the upstream, in seconds.",
    labels: ["endpoint"],
  },
  gateway_first_token_seconds: {
    type: "histogram",
    help: "Time from the arrival of a streamed request to its first content, in seconds.",
    labels: ["model"],
  },
  gateway_output_tokens_per_second: {
    type: "histogram",
    help: "Output tokens of a stream in a second, from its first content to its end.",
    labels: ["model"],
  },
  gateway_queue_wait_seconds: {
    type: "histogram",
    help: "Time that requests waited in the queue of their group, in seconds. Requests that did not wait are not counted.",
    labels: ["group"],
  },
  gateway_queue_rejected_total: {
    type: "counter",
    help: "Requests rejected because the queue of their group was full or their wait timed out.",
    labels: ["group"],
  },
  gateway_limit_rejections_total: {
    type: "counter",
    help: "Requests rejected by a limit, by the subject of the limit and its kind.",
    labels: ["scope", "kind"],
  },
  gateway_upstream_attempts_total: {
    type: "counter",
    help: "Attempts at an account, by failure class; ok if the attempt served the request.",
    labels: ["account", "class"],
  },
  gateway_upstream_seconds: {
    type: "histogram",
    help: "Time from the start of an attempt to the end of its response or to its failure, in seconds.",
    labels: ["account"],
  },
  gateway_account_requests_total: {
    type: "counter",
    help: "Completed requests, by the account of the last attempt.",
    labels: ["account", "outcome"],
  },
  gateway_account_usable: {
    type: "gauge",
    help: "1 if the account is healthy, 0 if it is cooling down, probing or parked.",
    labels: ["account"],
  },
  gateway_account_attempts_in_flight: {
    type: "gauge",
    help: "Upstream attempts in flight.",
    labels: ["account"],
  },
  gateway_requests_waiting: {
    type: "gauge",
    help: "Requests in the queue of the group, waiting for an account or for a slot of a concurrency limit.",
    labels: ["group"],
  },
  gateway_requests_waiting_for_slot: {
    type: "gauge",
    help: "Requests in the queue that wait for a slot of the concurrency limit of their key, user or group.",
    labels: ["group"],
  },
  gateway_sockets_open: { type: "gauge", help: "Open WebSocket connections of clients.", labels: [] },
  gateway_socket_turns_total: { type: "counter", help: "Completed turns on WebSockets.", labels: [] },
  gateway_paid_requests_taken: {
    type: "gauge",
    help: "1 if paid requests are accepted, 0 if the disk or the database rejects writes.",
    labels: [],
  },
  gateway_held_usd: {
    type: "gauge",
    help: "Money held for the requests in flight of this process, in US dollars.",
    labels: [],
  },
  gateway_billing_faults_total: {
    type: "counter",
    help: "Paid requests recorded without a payer, damaged segments of journals, and failed hourly reconciliations.",
    labels: ["fault"],
  },
  gateway_store_commit_seconds: {
    type: "histogram",
    help: "Time of a billing transaction from its start to its commit, in seconds.",
    labels: [],
  },
  gateway_settlement_seconds: {
    type: "histogram",
    help: "Time that the end of a paid request waited for its settlement, in seconds.",
    labels: [],
  },
  gateway_overdue_settlements: {
    type: "gauge",
    help: "Settlements that the database did not accept in time. They are saved until it does.",
    labels: [],
  },
  gateway_journal_bytes: {
    type: "gauge",
    help: "Size of the journal and of saved settlements in the data folder, in bytes.",
    labels: [],
  },
  gateway_spent_today_usd: {
    type: "gauge",
    help: "Cost of requests at list prices since midnight UTC, in US dollars. Absent until it is known.",
    labels: [],
  },
  gateway_policy_age_seconds: {
    type: "gauge",
    help: "Time since the policy was last compared with the database, in seconds.",
    labels: [],
  },
  gateway_coordinator_up: {
    type: "gauge",
    help: "1 if the coordinator of limits lends, or if none is needed; 0 if this node does not reach it, or if it waits for declarations.",
    labels: [],
  },
  gateway_limit_share_wait_seconds: {
    type: "histogram",
    help: "Time that requests waited to borrow a part of a limit, in seconds. Requests that did not wait are not counted.",
    labels: [],
  },
  gateway_large_bodies_bytes: {
    type: "gauge",
    help: "Memory used by request bodies above 1 MiB, in bytes.",
    labels: [],
  },
  gateway_large_bodies_bytes_max: {
    type: "gauge",
    help: "Maximum memory for request bodies above 1 MiB, in bytes.",
    labels: [],
  },
  gateway_large_bodies_rejected_total: {
    type: "counter",
    help: "Requests rejected because the memory for request bodies was full.",
    labels: [],
  },
  gateway_slow_turns_total: {
    type: "counter",
    help: "Turns of the event loop that used more than 50 ms of CPU time. The log names the request of each.",
    labels: [],
  },
  gateway_telemetry_exported_total: {
    type: "counter",
    help: "Spans that the collector accepted. Absent if traces are not exported.",
    labels: [],
  },
  gateway_telemetry_dropped_total: {
    type: "counter",
    help: "Spans that were not exported: the queue was full, or the collector was unavailable or rejected them.",
    labels: ["reason"],
  },
  gateway_access_log_dropped_total: {
    type: "counter",
    help: "Lines of the access log that were dropped because their reader did not keep up. Absent if it is off.",
    labels: [],
  },
  gateway_captures_total: {
    type: "counter",
    help: "Captured requests that were stored.",
    labels: [],
  },
  gateway_capture_bytes_total: {
    type: "counter",
    help: "Size of the stored captures, in bytes, compressed and encrypted.",
    labels: [],
  },
  gateway_capture_memory_bytes: {
    type: "gauge",
    help: "Memory of captures in flight and of those that wait to be stored.",
    labels: [],
  },
  gateway_captures_dropped_total: {
    type: "counter",
    help: "Captures that were dropped: no memory, a full queue, or a failed write.",
    labels: ["reason"],
  },
  gateway_usage_export_deliveries_total: {
    type: "counter",
    help: "Batches of the usage export that this node posted to webhooks, by result: delivered or failed.",
    labels: ["result"],
  },
  gateway_usage_export_rows_total: {
    type: "counter",
    help: "Requests in the batches of the usage export that webhooks accepted from this node.",
    labels: [],
  },
  gateway_usage_export_lag_seconds: {
    type: "gauge",
    help: "Age of the oldest request that a webhook of the usage export has not accepted. Only on the node that delivers.",
    labels: ["webhook"],
  },
  gateway_info: {
    type: "gauge",
    help: "Version of the gateway and its runtime.",
    labels: ["version", "bun"],
  },
  process_start_time_seconds: {
    type: "gauge",
    help: "Start time of the process, in Unix seconds.",
    labels: [],
  },
  process_cpu_seconds_total: {
    type: "counter",
    help: "User and system CPU time, in seconds.",
    labels: [],
  },
  process_resident_memory_bytes: { type: "gauge", help: "Resident memory, in bytes.", labels: [] },
  process_open_fds: { type: "gauge", help: "Open file descriptors.", labels: [] },
} as const satisfies Readonly<Record<string, MetricDescription>>;

export type MetricName = keyof typeof METRICS;
