/** The numbers as text for a terminal. */

import { type Machine, median, quantile } from "./measure.ts";
import { nodeText } from "./node-table.ts";
import type { SocketResults, Way } from "./sockets.ts";
import { goals, loadRows, type Results, sequentialRows } from "./summary.ts";
import { TELEMETRY_SETTINGS, type TelemetryResults } from "./telemetry.ts";
import { fixed, megabytes, NONE, table } from "./text-table.ts";

export function machineText(machine: Machine): string {
  const { cpu, cores, memoryBytes, kernel, bun, nginx, wrk, loadBefore } = machine;
  const lines = [
    `${cpu}, ${cores} cores, ${(memoryBytes / 2 ** 30).toFixed(0)} GiB, Linux ${kernel}`,
    `Bun ${bun}, ${nginx}, ${wrk}, load before the run ${loadBefore.toFixed(2)}`,
  ];
  if (loadBefore > 0.5)
    lines.push("Something else is using this machine: trust the ratios, not the numbers.");
  if (cores < 2) lines.push("One core only: the load generator disturbs what it measures.");
  return lines.join("\n");
}

function loadTable(results: Results): string {
  const rows = results.loads.flatMap((measured) =>
    loadRows(measured).map((row) => [
      row.subject === "direct" ? row.title : "",
      row.subject,
      row.process === null ? NONE : `${fixed(row.process.cpuMicros, 1)} / ${row.unit}`,
      row.process === null ? NONE : `${fixed(row.process.ratio, 2)}×`,
      row.process === null ? NONE : row.process.ratioQuartiles.map((ratio) => fixed(ratio, 2)).join("–"),
      row.process === null ? NONE : `${fixed(row.process.busyShare * 100, 0)} %`,
      fixed(row.requestsPerSecond, 0),
      fixed(row.p50Ms, 2),
      fixed(row.p90Ms, 2),
      fixed(row.p99Ms, 2),
      megabytes(row.process?.rssBytes),
    ]),
  );
  const header = [
    "load",
    "",
    "CPU µs",
    "nginx",
    "half of rounds",
    "busy",
    "req/s",
    "p50 ms",
    "p90 ms",
    "p99 ms",
    "RSS MB max",
  ];
  return table(header, rows);
}

function sequentialTable(results: Results): string {
  const rows = sequentialRows(results.sequential).map((row, i) => [
    i === 0 ? "one at a time, 1 KB" : "",
    row.subject,
    fixed(row.p50Ms, 3),
    fixed(row.p99Ms, 3),
    fixed(row.addedP50Ms, 3),
    fixed(row.addedP99Ms, 3),
  ]);
  return table(["latency", "", "p50 ms", "p99 ms", "added p50", "added p99"], rows);
}

function socketTable({ turns, events, busy }: SocketResults): string {
  const at = (subject: "direct" | Way, pick: "p50Ms" | "p99Ms") =>
    fixed(median(turns.map((round) => round[subject][pick])), 3);
  const rows = (["direct", "bridge", "native"] as const).map((subject) => [
    subject === "direct" ? "sockets" : "",
    SOCKET_SUBJECTS[subject],
    at(subject, "p50Ms"),
    at(subject, "p99Ms"),
    subject === "direct" ? NONE : `${fixed(median(events.map((round) => round[subject])), 1)}`,
    fixed(median(busy.rounds.map((round) => round[subject].p50Ms)), 0),
    fixed(median(busy.rounds.map((round) => round[subject].p99Ms)), 0),
  ]);
  const sse = fixed(median(events.map((round) => round.sse)), 1);
  rows.push(["SSE", "gateway", NONE, NONE, sse, NONE, NONE]);
  const many = `${busy.sockets} busy p50 ms`;
  return table(["", "", "lone turn p50 ms", "p99 ms", "CPU µs / event", many, "p99 ms"], rows);
}

function telemetryTable({ cost, micros, exportedShare }: TelemetryResults): string {
  const rows = TELEMETRY_SETTINGS.map((setting) => [
    setting === "plain" ? "request of 1 KB" : "",
    setting,
    fixed(median(micros[setting]), 1),
    [0.25, 0.75].map((share) => fixed(quantile(micros[setting], share), 1)).join("–"),
    setting === "traced" ? `${fixed(exportedShare * 100, 1)} %` : NONE,
  ]);
  const { tracingMicros, tracingMainThreadMicros } = cost;
  return [
    table(["", "", "CPU µs", "half of rounds", "spans exported"], rows),
    `Tracing alone: ${fixed(tracingMicros, 1)} µs a request, ${fixed(tracingMainThreadMicros, 1)} µs of it on the thread that serves`,
  ].join("\n");
}

const SOCKET_SUBJECTS = {
  direct: "direct",
  bridge: "gateway, upstream by HTTP",
  native: "gateway, upstream socket",
} as const;

function singles({ memory, startup, sockets, eventsPerChunk }: Results): string[] {
  const lines: string[] = [];
  if (eventsPerChunk !== null) {
    lines.push(`Events in a chunk, seen by a reader in the gateway's place: ${eventsPerChunk.toFixed(2)}`);
  }
  if (memory !== null) {
    const { streams, idleBytes, openBytes } = memory;
    lines.push(
      `Memory: ${megabytes(idleBytes)} MB idle, ${megabytes(openBytes)} MB with ${streams} open streams`,
    );
  }
  if (sockets !== null) {
    const { sockets: count, beforeBytes, openBytes } = sockets.idle;
    lines.push(
      `Memory: ${megabytes(beforeBytes)} MB at first, ${megabytes(openBytes)} MB with ${count} idle sockets`,
    );
  }
  if (startup !== null) {
    const { keys, firstMs, sameFileMs, storedMs } = startup;
    lines.push(
      `Ready with ${keys} keys: ${fixed(median(storedMs), 0)} ms from the store, ` +
        `${fixed(median(sameFileMs), 0)} ms with the same file again, ${fixed(firstMs, 0)} ms the first time`,
    );
  }
  return lines;
}

function goalTable(results: Results): string {
  const rows = goals(results).map(({ title, limit, bound, measured, unit, met }) => {
    const digits = unit === "MB" || (unit === "ms" && limit >= 10) ? 0 : 2;
    return [
      title,
      `${fixed(measured, digits)} ${unit}`,
      `${bound} ${limit} ${unit}`,
      met ? "met" : "NOT MET",
    ];
  });
  return table(["goal", "measured", "limit", ""], rows, 1);
}

export function resultText(results: Results): string {
  const parts: string[] = [];
  if (results.loads.length > 0) parts.push(loadTable(results));
  if (results.sequential.length > 0) parts.push(sequentialTable(results));
  if (results.sockets !== null) parts.push(socketTable(results.sockets));
  if (results.nodes !== null) parts.push(nodeText(results.nodes));
  if (results.telemetry !== null) parts.push(telemetryTable(results.telemetry));
  const lines = singles(results);
  if (lines.length > 0) parts.push(lines.join("\n"));
  parts.push(goalTable(results));
  return parts.join("\n\n");
}
