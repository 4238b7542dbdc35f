/** How many processes serve the port: checks whether the machine and the database allow several. */

import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { Settings } from "../../config/installation/environment.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { misuse } from "../command.ts";

interface Machine {
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
  const limit = readCpuLimit({ cgroups: "/sys/fs/cgroup", membership: "/proc/self/cgroup" });
  return Math.max(1, Math.min(availableParallelism(), limit));
}

/**
 * The least limit of this process's control group and of those around it, in cores; infinite without one. A container
 * sees its own group as the root, a service is in a group below it.
 */
export function readCpuLimit({ cgroups, membership }: { cgroups: string; membership: string }): number {
  const [, own = "/"] = /^0::(.*)$/m.exec(readText(membership)) ?? [];
  const names = own.split("/").filter((name) => name !== "" && name !== "..");
  const groups = Array.from({ length: names.length + 1 }, (_, depth) =>
    join(cgroups, ...names.slice(0, depth)),
  );
  const cores = groups.map((group) => {
    const [quota, period] = readText(join(group, "cpu.max")).split(" ").map(Number);
    return quota && period ? Math.ceil(quota / period) : Number.POSITIVE_INFINITY;
  });
  return Math.min(...cores);
}

/** Empty if the file does not exist. */
function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
