/** Whether this process can serve, and, if several processes serve the port, whether all of them can. */

import { z } from "zod";

export interface PortReadinessOptions {
  /** Whether the database responds. */
  isStoreReady(): Promise<boolean>;
  /** Whether the process is about to stop. */
  isDraining(): boolean;
  /** The number of this process, and the reports of the others on this port; null if it is the only one. */
  readonly others: { readonly number: number; ask(): Promise<OtherProcess[]> } | null;
}

interface OtherProcess {
  readonly process: number;
  /** Null if the process does not respond. */
  readonly state: ProcessReadiness | null;
}

export const processReadiness = z.object({ store: z.boolean(), draining: z.boolean() });
export type ProcessReadiness = z.infer<typeof processReadiness>;

interface ReadinessReport {
  readonly status: "ready" | "not_ready";
  readonly store: "ok" | "unavailable";
  readonly draining: boolean;
  readonly processes?: readonly { readonly process: number; readonly status: string }[];
}

export class Readiness {
  readonly #options: PortReadinessOptions;

  constructor(options: PortReadinessOptions) {
    this.#options = options;
  }

  async ofProcess(): Promise<ProcessReadiness> {
    const store = await this.#options.isStoreReady();
    return { store, draining: this.#options.isDraining() };
  }

  async report(): Promise<ReadinessReport> {
    const { others } = this.#options;
    const [own, other] = await Promise.all([this.ofProcess(), others?.ask() ?? []]);
    if (others === null) return summarize([own]);
    const processes = [{ process: others.number, state: own }, ...other].sort(
      (a, b) => a.process - b.process,
    );
    return {
      ...summarize(processes.map(({ state }) => state)),
      processes: processes.map(({ process, state }) => ({ process, status: describe(state) })),
    };
  }
}

/** A process that drains accepts no connections, so the others count. Every one of them may get the next connection. */
function summarize(states: readonly (ProcessReadiness | null)[]): ReadinessReport {
  const accepting = states.filter((state) => state?.draining !== true);
  const store = (accepting.length > 0 ? accepting : states).every((state) => state?.store === true);
  const draining = accepting.length === 0;
  return {
    status: store && !draining ? "ready" : "not_ready",
    store: store ? "ok" : "unavailable",
    draining,
  };
}

function describe(state: ProcessReadiness | null): string {
  if (state === null) return "silent";
  if (state.draining) return "draining";
  return state.store ? "ready" : "not_ready";
}
