/** The other processes of this machine that serve the same port. */

import { dirname } from "node:path";
import { askProcesses, type ProcessResponse } from "../nodes/machine-processes.ts";
import type { ProcessContext } from "./process-context.ts";

export interface OtherProcesses {
  readonly number: number;
  ask(path: string): Promise<ProcessResponse[]>;
}

/** Null if this process serves its port alone. */
export function openOtherProcesses({
  settings,
  limits,
}: Pick<ProcessContext, "settings" | "limits">): OtherProcesses | null {
  const { process, nodeDir } = settings;
  if (process === null) return null;
  const machine = { folder: dirname(nodeDir), timeoutMs: limits.processes.askTimeoutMs };
  return {
    number: process.number,
    ask: (path) => askProcesses(machine, { path, except: process.number }),
  };
}
