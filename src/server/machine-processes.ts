/** Asks the processes of one machine that serve the same port, through their operator sockets. */

import { readdirSync } from "node:fs";
import { join } from "node:path";

export interface ProcessResponse {
  readonly process: number;
  /** The body; null if the process did not respond in time or reported an error. */
  readonly body: string | null;
}

interface MachineProcessesOptions {
  /** Has one folder for each process, by number. */
  readonly folder: string;
  readonly timeoutMs: number;
}

/** The responses of all processes that run, by number. `except` is the number of the process that asks. */
export async function askProcesses(
  { folder, timeoutMs }: MachineProcessesOptions,
  { path, payload = {}, except }: { path: string; payload?: object; except?: number },
): Promise<ProcessResponse[]> {
  const numbers = listProcessNumbers(folder).filter((number) => number !== except);
  const responses = await Promise.all(
    numbers.map(async (process) => {
      const body = await askSocket(join(folder, String(process), "control.sock"), {
        path,
        payload,
        timeoutMs,
      });
      return body === NOT_RUNNING ? null : { process, body };
    }),
  );
  return responses.filter((response) => response !== null);
}

export function listProcessNumbers(folder: string): number[] {
  try {
    return readdirSync(folder)
      .filter((name) => /^\d+$/.test(name))
      .map(Number)
      .sort((a, b) => a - b);
  } catch {
    return [];
  }
}

export const NOT_RUNNING: unique symbol = Symbol("no process listens on the socket");

/** Null if the process did not respond in time or reported an error. */
export async function askSocket(
  unix: string,
  { path, payload, timeoutMs }: { path: string; payload: object; timeoutMs: number },
): Promise<string | null | typeof NOT_RUNNING> {
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    const response = await fetch(`http://localhost${path}`, {
      unix,
      method: "POST",
      body: JSON.stringify(payload),
      signal,
    });
    const text = await response.text();
    return response.ok ? text : null;
  } catch {
    return signal.aborted ? null : NOT_RUNNING;
  }
}
