/** `GET /metrics`: metrics of this process in the Prometheus text format. */

import { readdirSync } from "node:fs";
import { z } from "zod";
import type { Gateway } from "../../gateway/gateway.ts";
import {
  METRICS_TYPE,
  type MetricFamily,
  type MetricSample,
  metricsText,
} from "../../observe/metrics-text.ts";
import {
  DURATION_BOUNDS,
  type EndpointTimes,
  type RequestCounts,
  type RequestSeries,
} from "../../observe/request-counts.ts";
import { VERSION } from "../../version.ts";
import type { ConsoleContext } from "../context.ts";
import { forAdmins, TAKES_NOTHING } from "../http/route.ts";

export const metricsRoutes = {
  "metrics.get": forAdmins({
    ...TAKES_NOTHING,
    method: "GET",
    path: "/metrics",
    summary: "Get the metrics of this process in the Prometheus text format",
    media: "text/plain",
    /** The text itself. */
    answer: z.string(),
    async run(context) {
      return new Response(metricsText(await buildFamilies(context)), {
        headers: { "content-type": METRICS_TYPE },
      });
    },
  }),
};

const NANO = 1e-9;

async function buildFamilies({
  gateway,
  alerts,
  isReady,
  billingFaults,
}: ConsoleContext): Promise<MetricFamily[]> {
  const isAccepting = (await isReady()) && gateway.till.hasRoom();
  const spent = alerts.spentToday();
  return [
    ...requestFamilies(gateway.requestCounts),
    ...accountFamilies(gateway),
    ...currentFamilies(gateway),
    gauge(
      "gateway_paid_requests_taken",
      "0 while the disk or the store takes nothing: paid requests are refused.",
      [{ value: Number(isAccepting) }],
    ),
    counter(
      "gateway_billing_faults_total",
      "Paid requests recorded without a payer, and damaged segments of journals.",
      billingFaults.list().map(({ fault, count }) => ({ labels: { fault }, value: count })),
    ),
    gauge(
      "gateway_spent_today_usd",
      "What requests have cost by their prices since midnight UTC; absent until that is known.",
      spent === null ? [] : [{ value: spent.nano * NANO }],
    ),
    ...processFamilies(),
  ];
}

function requestFamilies(counts: RequestCounts): MetricFamily[] {
  const all = [...counts.series.values()].flat();
  return [
    counter(
      "gateway_requests_total",
      "Requests that have ended, of callers with a key. An empty model is one that is not published.",
      all.map(({ endpoint, model, outcome, status, requests }) => ({
        labels: { endpoint, model, outcome, status: String(status) },
        value: requests,
      })),
    ),
    counter(
      "gateway_errors_total",
      "Requests that ended with an error, by its code.",
      [...counts.errors].flatMap(([endpoint, codes]) =>
        [...codes].map(([code, value]) => ({ labels: { endpoint, code }, value })),
      ),
    ),
    counter("gateway_retries_total", "Attempts after the first one of a request.", byModel(all, "retries")),
    counter(
      "gateway_tokens_total",
      "Tokens used. Cached ones are counted within the input as well, reasoning within the output.",
      [
        ...byModel(all, "inputTokens", { kind: "input" }),
        ...byModel(all, "cachedTokens", { kind: "cached" }),
        ...byModel(all, "outputTokens", { kind: "output" }),
        ...byModel(all, "reasoningTokens", { kind: "reasoning" }),
      ],
    ),
    counter("gateway_images_total", "Images made.", byModel(all, "images")),
    counter(
      "gateway_cost_usd_total",
      "Dollars: what requests cost by their prices, what was charged, and what the accounts will ask.",
      [
        ...byModel(all, "costNano", { of: "price" }, NANO),
        ...byModel(all, "chargedNano", { of: "charged" }, NANO),
        ...byModel(all, "upstreamNano", { of: "upstream" }, NANO),
      ],
    ),
    times("gateway_request_duration_seconds", "From a request's arrival to its end.", counts, "whole"),
    times(
      "gateway_first_byte_seconds",
      "From a request's arrival to an account's first byte.",
      counts,
      "firstByte",
    ),
  ];
}

type SummedField = Exclude<keyof RequestSeries, "endpoint" | "model" | "outcome" | "status">;

function byModel(all: readonly RequestSeries[], field: SummedField, labels = {}, unit = 1): MetricSample[] {
  const sums = new Map<string, number>();
  for (const series of all) {
    if (series.model !== "") sums.set(series.model, (sums.get(series.model) ?? 0) + series[field]);
  }
  return [...sums].map(([model, sum]) => ({ labels: { model, ...labels }, value: sum * unit }));
}

function times(name: string, help: string, counts: RequestCounts, timing: keyof EndpointTimes): MetricFamily {
  const histograms = [...counts.times].map(([endpoint, of]) => ({ labels: { endpoint }, ...of[timing] }));
  return { name, help, type: "histogram", bounds: DURATION_BOUNDS, histograms };
}

function accountFamilies({ policy, dispatcher, requestCounts }: Gateway): MetricFamily[] {
  const accounts = [...policy.snapshot().accounts.values()].map((account) => ({
    labels: { account: account.name },
    outcomes: [...(requestCounts.accounts.get(account.id) ?? [])],
    report: dispatcher.pool.report(account),
  }));
  return [
    counter(
      "gateway_account_requests_total",
      "Requests that have ended, by the account that was asked last.",
      accounts.flatMap(({ labels, outcomes }) =>
        outcomes.map(([outcome, value]) => ({ labels: { ...labels, outcome }, value })),
      ),
    ),
    gauge(
      "gateway_account_usable",
      "1 for an account that is asked, 0 for one that is left alone: it cools down, is tried again, or waits for somebody.",
      accounts.map(({ labels, report }) => ({ labels, value: Number(report.condition === "well") })),
    ),
    gauge(
      "gateway_account_attempts_in_flight",
      "Attempts under way.",
      accounts.map(({ labels, report }) => ({ labels, value: report.inFlight })),
    ),
  ];
}

function currentFamilies({ policy, dispatcher, slots, bodies }: Gateway): MetricFamily[] {
  const snapshot = policy.snapshot();
  const waiting = [...snapshot.groups.values()].map(({ id, name }) => ({
    labels: { group: name },
    value: dispatcher.room.waiting(id),
  }));
  const waitingForSlot = [...snapshot.groups.values()].map(({ id, name }) => ({
    labels: { group: name },
    value: slots.waiting(id),
  }));
  const { heldBytes, bytesMax, refused } = bodies.report();
  return [
    gauge(
      "gateway_requests_waiting",
      "Requests in the group's queue: for a free account, or for a slot of a concurrency limit.",
      waiting,
    ),
    gauge(
      "gateway_requests_waiting_for_slot",
      "Those of them that wait for a slot of their key's, user's or group's concurrency.",
      waitingForSlot,
    ),
    gauge("gateway_large_bodies_bytes", "Memory that request bodies above 1 MiB take.", [
      { value: heldBytes },
    ]),
    gauge("gateway_large_bodies_bytes_max", "Memory there is for them.", [{ value: bytesMax }]),
    counter("gateway_large_bodies_refused_total", "Requests for whose body there was none.", [
      { value: refused },
    ]),
  ];
}

/** Under the standard names of Prometheus clients. */
function processFamilies(): MetricFamily[] {
  const { user, system } = process.cpuUsage();
  const descriptors = openDescriptors();
  return [
    gauge("gateway_info", "The program that this is.", [
      { labels: { version: VERSION, bun: Bun.version }, value: 1 },
    ]),
    gauge("process_start_time_seconds", "When the process began, in seconds since 1970.", [
      { value: performance.timeOrigin / 1_000 },
    ]),
    counter("process_cpu_seconds_total", "Processor time used.", [{ value: (user + system) / 1e6 }]),
    gauge("process_resident_memory_bytes", "Memory used.", [{ value: process.memoryUsage.rss() }]),
    gauge(
      "process_open_fds",
      "Files and sockets open.",
      descriptors === null ? [] : [{ value: descriptors }],
    ),
  ];
}

/** Returns null if the system does not report it. */
function openDescriptors(): number | null {
  try {
    return readdirSync("/proc/self/fd").length;
  } catch {
    return null;
  }
}

function counter(name: string, help: string, samples: readonly MetricSample[]): MetricFamily {
  return { name, help, type: "counter", samples };
}

function gauge(name: string, help: string, samples: readonly MetricSample[]): MetricFamily {
  return { name, help, type: "gauge", samples };
}
