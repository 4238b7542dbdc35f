/** The other processes of this machine that serve the same port. */

import { dirname } from "node:path";
import { askProcesses, type ProcessResponse } from "../server/machine-processes.ts";
import type { ProcessContext } from "./process-context.ts";

interface OtherProcesses<Response> {
  /** The number of this process. */
  readonly number: number;
  ask(): Promise<Response[]>;
}

/** Asks them for one path. Null if this process serves its port alone. */
export function openOtherProcesses<Response>(
  { settings, limits }: Pick<ProcessContext, "settings" | "limits">,
  path: string,
  read: (response: ProcessResponse) => Response | Response[],
): OtherProcesses<Response> | null {
  const { process, nodeDir } = settings;
  if (process === null) return null;
  const machine = { folder: dirname(nodeDir), timeoutMs: limits.processes.askTimeoutMs };
  return {
    number: process.number,
    ask: async () => (await askProcesses(machine, { path, except: process.number })).flatMap(read),
  };
}
