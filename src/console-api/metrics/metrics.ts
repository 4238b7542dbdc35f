/** `GET /metrics`: metrics of this process, or of all processes on this port, in the text formats of Prometheus and OpenMetrics. */

import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { mergeMetrics } from "../../observe/merge-metrics.ts";
import { METRICS_TYPE, type MetricFamily, metricsText } from "../../observe/metrics-text.ts";
import { OPEN_METRICS_TYPE, openMetricsText } from "../../observe/open-metrics-text.ts";
import { VERSION } from "../../version.ts";
import type { ConsoleContext, ConsoleGateway } from "../context.ts";
import { forAdmins } from "../http/route.ts";
import { histogram, labelledHistogram, samples, single } from "./families.ts";
import { measuredFamilies, requestFamilies } from "./request-families.ts";

export const metricsRoutes = {
  "metrics.get": forAdmins({
    method: "GET",
    path: "/metrics",
    summary:
      "Get the metrics of all processes on this port in the Prometheus text format, or in the OpenMetrics format with exemplars if Accept names application/openmetrics-text",
    media: "text/plain",
    /** The text itself. */
    response: z.string(),
    async run(context, { headers }) {
      const families = await collectFamilies(context);
      const isOpenMetrics = (headers.get("accept") ?? "").includes("application/openmetrics-text");
      return new Response(isOpenMetrics ? openMetricsText(families) : metricsText(families), {
        headers: { "content-type": isOpenMetrics ? OPEN_METRICS_TYPE : METRICS_TYPE, vary: "accept" },
      });
    },
  }),
};

const NANO = 1e-9;

type MetricsContext = Pick<
  ConsoleContext,
  | "gateway"
  | "alerts"
  | "usageExport"
  | "isReady"
  | "billingFaults"
  | "billingMetrics"
  | "installation"
  | "otherMetrics"
>;

/** Of all processes that serve the port: a scraper reaches any of them. */
async function collectFamilies(context: MetricsContext): Promise<MetricFamily[]> {
  const { otherMetrics } = context;
  if (otherMetrics === null) return buildFamilies(context);
  const [families, others] = await Promise.all([buildFamilies(context), otherMetrics.ask()]);
  const all = [{ process: otherMetrics.number, families }, ...others];
  return mergeMetrics(all.sort((a, b) => a.process - b.process));
}

/** Of this process alone. */
export async function buildFamilies(context: MetricsContext): Promise<MetricFamily[]> {
  const { gateway, alerts, isReady, billingFaults, installation } = context;
  const isAccepting = (await isReady()) && gateway.billingEngine.hasCapacity();
  const spent = alerts.spentToday();
  return [
    ...requestFamilies(gateway.requestCounts),
    ...measuredFamilies(gateway.requestMetrics),
    ...accountFamilies(gateway),
    ...currentFamilies(gateway),
    single("gateway_paid_requests_taken", Number(isAccepting)),
    samples(
      "gateway_billing_faults_total",
      billingFaults.list().map(({ fault, count }) => [{ fault }, count]),
    ),
    ...billingFamilies(context),
    single("gateway_journal_bytes", sumFileSizes(join(installation.settings.nodeDir, "settlements"))),
    single("gateway_spent_today_usd", spent === null ? null : spent.nano * NANO),
    single("gateway_policy_age_seconds", gateway.policy.ageMs() / 1_000),
    single("gateway_coordinator_up", Number((gateway.limitBorrower?.contact ?? "up") === "up")),
    single("gateway_slow_turns_total", gateway.loop.slowTurns),
    ...translationFamilies(gateway),
    samples(
      "gateway_policy_actions_total",
      gateway.policyActions.series.map(({ rule, action, count }) => [{ rule, action }, count]),
    ),
    ...reportingFamilies(gateway),
    ...exportFamilies(context),
    ...processFamilies(),
  ];
}

function translationFamilies({ translation: { counts } }: ConsoleGateway): MetricFamily[] {
  return [
    samples(
      "gateway_translated_requests_total",
      counts.series.map(({ client, upstream, requests }) => [{ client, upstream }, requests]),
    ),
    samples(
      "gateway_dropped_fields_total",
      [...counts.droppedFields].map(([field, count]) => [{ field }, count]),
    ),
  ];
}

function accountFamilies({
  policy,
  dispatcher,
  requestCounts,
  requestMetrics,
}: ConsoleGateway): MetricFamily[] {
  const { accounts } = policy.snapshot();
  const reports = [...accounts.values()].map((account) => ({
    id: account.id,
    labels: { account: account.name },
    report: dispatcher.pool.report(account),
  }));
  const findAccountName = (id: string) => accounts.get(id)?.name ?? null;
  return [
    samples(
      "gateway_account_requests_total",
      reports.flatMap(({ id, labels }) =>
        [...(requestCounts.accounts.get(id) ?? [])].map(
          ([outcome, count]) => [{ ...labels, outcome }, count] as const,
        ),
      ),
    ),
    samples(
      "gateway_upstream_attempts_total",
      reports.flatMap(({ id, labels }) =>
        [...requestMetrics.attempts.forFirst(id)].map(
          ([failureClass, count]) => [{ ...labels, class: failureClass }, count] as const,
        ),
      ),
    ),
    labelledHistogram("gateway_upstream_seconds", requestMetrics.upstream, (id) => {
      const account = findAccountName(id);
      return account === null ? null : { account };
    }),
    samples(
      "gateway_account_usable",
      reports.map(({ labels, report }) => [labels, Number(report.condition === "well")]),
    ),
    samples(
      "gateway_account_attempts_in_flight",
      reports.map(({ labels, report }) => [labels, report.inFlight]),
    ),
  ];
}

function currentFamilies({
  policy,
  dispatcher,
  concurrencyQueue,
  bodyBudget,
}: ConsoleGateway): MetricFamily[] {
  const groups = [...policy.snapshot().groups.values()];
  const { heldBytes, bytesMax, refused } = bodyBudget.report();
  return [
    samples(
      "gateway_requests_waiting",
      groups.map(({ id, name }) => [{ group: name }, dispatcher.waitingQueue.countWaiting(id)]),
    ),
    samples(
      "gateway_requests_waiting_for_slot",
      groups.map(({ id, name }) => [{ group: name }, concurrencyQueue.waiting(id)]),
    ),
    single("gateway_large_bodies_bytes", heldBytes),
    single("gateway_large_bodies_bytes_max", bytesMax),
    single("gateway_large_bodies_rejected_total", refused),
  ];
}

/** What reports about requests could not be passed on. Absent for what is off. */
function reportingFamilies({ tracer, accessLog, captures }: ConsoleGateway): MetricFamily[] {
  const families: MetricFamily[] = [
    single("gateway_captures_total", captures.stored),
    single("gateway_capture_bytes_total", captures.storedBytes),
    single("gateway_capture_memory_bytes", captures.heldBytes),
    samples(
      "gateway_captures_dropped_total",
      [...captures.dropped].map(([reason, count]) => [{ reason }, count]),
    ),
  ];
  if (tracer !== null) {
    const { exported, dropped } = tracer.exporter;
    families.push(
      single("gateway_telemetry_exported_total", exported),
      samples(
        "gateway_telemetry_dropped_total",
        [...dropped].map(([reason, count]) => [{ reason }, count]),
      ),
    );
  }
  if (accessLog !== null) families.push(single("gateway_access_log_dropped_total", accessLog.dropped));
  return families;
}

function billingFamilies({ billingMetrics }: Pick<MetricsContext, "billingMetrics">): MetricFamily[] {
  const { commits, overdueSettlements } = billingMetrics;
  return [
    histogram("gateway_store_commit_seconds", commits.bounds, [[{}, commits]]),
    single("gateway_overdue_settlements", overdueSettlements),
  ];
}

function exportFamilies({ usageExport: { counts } }: Pick<MetricsContext, "usageExport">): MetricFamily[] {
  return [
    samples("gateway_usage_export_deliveries_total", [
      [{ result: "delivered" }, counts.delivered],
      [{ result: "failed" }, counts.failed],
    ]),
    single("gateway_usage_export_rows_total", counts.rows),
    samples(
      "gateway_usage_export_lag_seconds",
      counts.lags().map(([webhook, seconds]) => [{ webhook }, seconds]),
    ),
  ];
}

/** Under the standard names of Prometheus clients. */
function processFamilies(): MetricFamily[] {
  const { user, system } = process.cpuUsage();
  return [
    samples("gateway_info", [[{ version: VERSION, bun: Bun.version }, 1]]),
    single("process_start_time_seconds", performance.timeOrigin / 1_000),
    single("process_cpu_seconds_total", (user + system) / 1e6),
    single("process_resident_memory_bytes", process.memoryUsage.rss()),
    single("process_open_fds", countFiles("/proc/self/fd")),
  ];
}

/** Returns null if the folder cannot be read. */
function countFiles(folder: string): number | null {
  try {
    return readdirSync(folder).length;
  } catch {
    return null;
  }
}

/** The folder has few files, of which some may be deleted meanwhile. Null if it cannot be read. */
function sumFileSizes(folder: string): number | null {
  try {
    return readdirSync(folder).reduce(
      (sum, name) => sum + (statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0),
      0,
    );
  } catch {
    return null;
  }
}
