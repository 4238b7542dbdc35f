/**
 * Detects silent and dead processes. The kernel gives certainty: the lock of the data folder, and the process id with its start
 * time. For other processes only a heartbeat that was observed unchanged for long counts. Its claimed age does not:
 * clocks are changed, and after a database outage every heartbeat is old.
 */

import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { isOnOtherMachine } from "../../store/engine/folder-lock.ts";
import type { ProcessRecord } from "../../store/money/processes.ts";

/** `startTicks` is null if the system does not provide it. */
export type ProcessLookup = { kind: "gone" } | { kind: "there"; startTicks: number | null };

interface ProcessWatchOptions {
  self: ProcessRecord;
  /** A process whose heartbeat was observed unchanged for this long is silent, and then dead. */
  silentAfterMs: number;
  deadAfterMs: number;
  /** The same for the process of this folder on another machine, from which the disk was moved or copied. */
  movedAfterMs: number;
  /** After a longer pause between two checks the observation starts again, because nothing was observed meanwhile. */
  pauseMsMax: number;
  monotonicMs(): number;
  lookUpProcess?(pid: number): ProcessLookup;
}

/** What is known of other processes, by their ids. A dead process is not listed as silent. */
interface WatchResult {
  /** It may still run, but uses none of its reserved money any more. */
  readonly silent: readonly string[];
  readonly dead: ReadonlySet<string>;
}

interface Heartbeat {
  beatAtMs: number;
  sinceMs: number;
}

export class ProcessWatch {
  readonly #options: ProcessWatchOptions;
  readonly #lookUp: (pid: number) => ProcessLookup;
  readonly #heartbeats = new Map<string, Heartbeat>();
  #checkedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: ProcessWatchOptions) {
    this.#options = options;
    this.#lookUp = options.lookUpProcess ?? lookUpProcess;
  }

  /**
   * Starts all observations again. Call when the database was unavailable or slow: no process could write its
   * heartbeat in time, and each gets the whole time again.
   */
  restart(): void {
    this.#heartbeats.clear();
  }

  /** `all` must have been read from the database just now. */
  check(all: readonly ProcessRecord[]): WatchResult {
    const { self, monotonicMs, pauseMsMax } = this.#options;
    const nowMs = monotonicMs();
    if (nowMs - this.#checkedAtMs > pauseMsMax) this.#heartbeats.clear();
    this.#checkedAtMs = nowMs;
    const ids = new Set(all.map(({ id }) => id));
    for (const id of this.#heartbeats.keys()) if (!ids.has(id)) this.#heartbeats.delete(id);
    const silent: string[] = [];
    const dead = new Set<string>();
    for (const record of all) {
      if (record.id === self.id) continue;
      const state = this.#judge(record, nowMs);
      if (state === "dead") dead.add(record.id);
      else if (state === "silent") silent.push(record.id);
    }
    return { silent, dead };
  }

  #judge(record: ProcessRecord, nowMs: number): "dead" | "silent" | "running" {
    const verdict = this.#checkKernel(record);
    if (verdict !== "unknown") return verdict;
    const observed = this.#heartbeats.get(record.id);
    if (observed === undefined || observed.beatAtMs !== record.beatAtMs) {
      this.#heartbeats.set(record.id, { beatAtMs: record.beatAtMs, sinceMs: nowMs });
      return "running";
    }
    const silenceMs = nowMs - observed.sinceMs;
    if (silenceMs >= this.#chooseTimeout(record)) return "dead";
    return silenceMs >= this.#options.silentAfterMs ? "silent" : "running";
  }

  /** A moved disk has left its process behind. A copied one has not: that process still sends heartbeats. */
  #chooseTimeout({ folderId }: ProcessRecord): number {
    const { self, deadAfterMs, movedAfterMs } = this.#options;
    const isMoved = folderId !== null && self.folderId !== null && isOnOtherMachine(folderId, self.folderId);
    return isMoved ? movedAfterMs : deadAfterMs;
  }

  #checkKernel({ host, pid, folderId, startTicks }: ProcessRecord): "dead" | "running" | "unknown" {
    const { self } = this.#options;
    // This process has locked the folder, so its previous owner is gone.
    if (folderId !== null && folderId === self.folderId) return "dead";
    if (host !== self.host) return "unknown";
    const lookup = this.#lookUp(pid);
    if (lookup.kind === "gone") return "dead";
    if (startTicks === null || lookup.startTicks === null) return "unknown";
    return lookup.startTicks === startTicks ? "running" : "dead";
  }
}

/** `folderId`: the data folder that this process has locked; null if it has locked none. */
export function describeProcess(id: string, nowMs: number, folderId: string | null = null): ProcessRecord {
  return {
    id,
    host: describeHost(),
    pid: process.pid,
    startedAtMs: nowMs,
    beatAtMs: nowMs,
    folderId,
    startTicks: readStartTicks(process.pid),
  };
}

/** A process id is meaningful only within one boot of one kernel and one PID namespace. */
function describeHost(): string {
  try {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    return `${hostname()} ${boot} ${readlinkSync("/proc/self/ns/pid")}`;
  } catch {
    return hostname();
  }
}

function lookUpProcess(pid: number): ProcessLookup {
  try {
    process.kill(pid, 0);
  } catch (error) {
    const isForbidden = error instanceof Error && "code" in error && error.code === "EPERM";
    if (!isForbidden) return { kind: "gone" };
  }
  return { kind: "there", startTicks: readStartTicks(pid) };
}

/** The process name may contain spaces and brackets: the 22nd field is the 20th of those after it. */
const START_TICKS_AT = 19;

/** Clock ticks since boot, which do not change with the clock. */
function readStartTicks(pid: number): number | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const ticks = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[START_TICKS_AT]);
    return Number.isSafeInteger(ticks) ? ticks : null;
  } catch {
    return null;
  }
}
