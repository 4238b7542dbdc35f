/** The check of `doctor` about several processes on one port: whether the kernel keeps connections when one leaves it. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { PROCESSES_FOLDER, type Settings } from "../config/installation/environment.ts";
import { listProcessNumbers } from "../server/machine-processes.ts";
import { type Finding, passed, warned } from "./finding.ts";

/** Of the network namespace: a container has its own. Missing before Linux 5.14. */
const SWITCH_FILE = "/proc/sys/net/ipv4/tcp_migrate_req";

/** Empty for an installation that runs one process. */
export function checkProcesses(
  { dataDir }: Pick<Settings, "dataDir">,
  readSwitch: () => string | null = readKernelSwitch,
): Finding[] {
  if (listProcessNumbers(join(dataDir, PROCESSES_FOLDER)).length === 0) return [];
  const what = "processes";
  const value = readSwitch();
  if (value === "1") return [passed(what, "a process can be replaced without a lost connection")];
  return [
    value === null
      ? warned(
          what,
          "the kernel cannot move connections to another process, so a few are reset when a process is replaced",
          "Use Linux 5.14 or later.",
        )
      : warned(
          what,
          "net.ipv4.tcp_migrate_req is 0, so a few connections are reset when a process is replaced",
          "Run sysctl -w net.ipv4.tcp_migrate_req=1, and write it to a file in /etc/sysctl.d. In a container, set the sysctl of the container.",
        ),
  ];
}

function readKernelSwitch(): string | null {
  try {
    return readFileSync(SWITCH_FILE, "utf8").trim();
  } catch {
    return null;
  }
}
