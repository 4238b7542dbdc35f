/** The turns of the event loop that a gateway logged as too long. */

export interface SlowTurn {
  readonly cpuMs: number;
  /** Null if the turn belongs to no known request. */
  readonly endpoint: string | null;
  readonly requestId: string | null;
}

interface SlowTurnLine {
  readonly event?: unknown;
  readonly cpu_ms: number;
  readonly endpoint: string | null;
  readonly request_id: string | null;
}

/** Reads the log of a gateway: everything that its process has printed, or the lines that `writeLog` received. */
export function readSlowTurns(output: string): SlowTurn[] {
  return output
    .split("\n")
    .filter((line) => line.includes('"event":"slow_turn"'))
    .map((line) => JSON.parse(line.slice(line.indexOf("{"))) as SlowTurnLine)
    .map(({ cpu_ms, endpoint, request_id }) => ({ cpuMs: cpu_ms, endpoint, requestId: request_id }));
}
