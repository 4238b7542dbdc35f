/** How many processes serve the port: checks whether the machine and the database allow several. */

import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import type { Settings } from "../../config/installation/environment.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { misuse } from "../command.ts";

export interface Machine {
  readonly platform: NodeJS.Platform;
  countCores(): number;
}

export const thisMachine: Machine = { platform: process.platform, countCores };

/** Null for one process without a supervisor. */
export function countProcesses(
  { processes, databaseUrl }: Pick<Settings, "processes" | "databaseUrl">,
  { platform, countCores }: Machine,
): number | null {
  if (processes === 1) return null;
  if (platform !== "linux")
    misuse(
      "Several processes on one port need Linux: other systems do not divide connections between processes.",
      "Remove --processes, PROCESSES and server.processes, or run several nodes behind a load balancer.",
    );
  if (databaseUrl.startsWith("sqlite:"))
    misuse(
      "Several processes need PostgreSQL: only one process can use a SQLite database.",
      "Set DATABASE_URL to a PostgreSQL database, or remove --processes, PROCESSES and server.processes.",
    );
  return processes === "auto" ? Math.min(countCores(), limits.processes.max) : processes;
}

/** The CPU limit of a container or service counts, rounded up. */
function countCores(): number {
  return Math.max(1, Math.min(availableParallelism(), readCpuLimit() ?? Number.POSITIVE_INFINITY));
}

function readCpuLimit(): number | null {
  try {
    const [quota, period] = readFileSync("/sys/fs/cgroup/cpu.max", "utf8").split(" ").map(Number);
    return quota === undefined || period === undefined || Number.isNaN(quota)
      ? null
      : Math.ceil(quota / period);
  } catch {
    return null;
  }
}
