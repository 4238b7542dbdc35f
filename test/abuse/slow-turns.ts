/** The turns of the event loop that a gateway logged as too long. */

export interface SlowTurn {
  /** When it was logged, by the clock. */
  readonly atMs: number;
  readonly cpuMs: number;
  /** Null if the turn belongs to no known request. */
  readonly endpoint: string | null;
  readonly requestId: string | null;
}

interface SlowTurnLine {
  readonly time: string;
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
    .map(({ time, cpu_ms, endpoint, request_id }) => ({
      atMs: Date.parse(time),
      cpuMs: cpu_ms,
      endpoint,
      requestId: request_id,
    }));
}

/** One of several requests that follow each other. */
export interface TimedRequest {
  readonly requestId: string | null;
  readonly startedAtMs: number;
  /** When the next request began; infinite for the last one. */
  readonly endedAtMs: number;
}

/** Reads a log that grows, each line once. */
export class SlowTurnLog {
  readonly #readOutput: () => string;
  readonly #turns: SlowTurn[] = [];
  #readChars = 0;

  constructor(readOutput: () => string) {
    this.#readOutput = readOutput;
  }

  /** The longest slow turn that belongs to the request, by its id or else by the time. 0 if there is none. */
  findLongestMs({ requestId, startedAtMs, endedAtMs }: TimedRequest): number {
    this.#read();
    const own = this.#turns.filter((turn) =>
      turn.requestId === null
        ? turn.atMs >= startedAtMs && turn.atMs < endedAtMs
        : turn.requestId === requestId,
    );
    return Math.max(0, ...own.map(({ cpuMs }) => cpuMs));
  }

  #read(): void {
    const output = this.#readOutput();
    const end = output.lastIndexOf("\n") + 1;
    this.#turns.push(...readSlowTurns(output.slice(this.#readChars, end)));
    this.#readChars = Math.max(this.#readChars, end);
  }
}
