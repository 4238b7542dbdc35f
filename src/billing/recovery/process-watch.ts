/**
 * Which other processes have died. Certain is what the kernel says: the lock of the data folder, and the process number
 * with its start time. Of any other a heartbeat tells that was seen unchanged for long, never the age that it claims:
 * clocks are set, and after an outage of the store every heartbeat is old.
 */

import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import type { ProcessRecord } from "../../store/money/processes.ts";

/** `startTicks`: null where the system does not tell. */
export type ProcessLookup = { kind: "gone" } | { kind: "there"; startTicks: number | null };

export interface ProcessWatchOptions {
  self: ProcessRecord;
  /** A heartbeat that was seen unchanged for so long is that of a dead process. */
  deadAfterMs: number;
  /** After a longer pause between two looks the watch starts again: nothing was seen meanwhile. */
  pauseMsMax: number;
  monotonicMs(): number;
  lookUpProcess?(pid: number): ProcessLookup;
}

interface Heartbeat {
  beatAtMs: number;
  sinceMs: number;
}

export class ProcessWatch {
  private readonly options: ProcessWatchOptions;
  private readonly lookUp: (pid: number) => ProcessLookup;
  private readonly heartbeats = new Map<string, Heartbeat>();
  private lookedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: ProcessWatchOptions) {
    this.options = options;
    this.lookUp = options.lookUpProcess ?? lookUpProcess;
  }

  /** The ids of the dead among these, which were read from the store just now. */
  findDead(all: readonly ProcessRecord[]): Set<string> {
    const { self, monotonicMs, pauseMsMax } = this.options;
    const nowMs = monotonicMs();
    if (nowMs - this.lookedAtMs > pauseMsMax) this.heartbeats.clear();
    this.lookedAtMs = nowMs;
    const ids = new Set(all.map(({ id }) => id));
    for (const id of this.heartbeats.keys()) if (!ids.has(id)) this.heartbeats.delete(id);
    const others = all.filter(({ id }) => id !== self.id);
    return new Set(others.filter((one) => this.isDead(one, nowMs)).map(({ id }) => id));
  }

  private isDead(one: ProcessRecord, nowMs: number): boolean {
    const known = this.askKernel(one);
    if (known !== "unknown") return known === "dead";
    const seen = this.heartbeats.get(one.id);
    if (seen !== undefined && seen.beatAtMs === one.beatAtMs) {
      return nowMs - seen.sinceMs >= this.options.deadAfterMs;
    }
    this.heartbeats.set(one.id, { beatAtMs: one.beatAtMs, sinceMs: nowMs });
    return false;
  }

  private askKernel({ host, pid, folderId, startTicks }: ProcessRecord): "dead" | "running" | "unknown" {
    const { self } = this.options;
    // This process has locked the folder, so whichever process had it before is gone.
    if (folderId !== null && folderId === self.folderId) return "dead";
    if (host !== self.host) return "unknown";
    const found = this.lookUp(pid);
    if (found.kind === "gone") return "dead";
    if (startTicks === null || found.startTicks === null) return "unknown";
    return found.startTicks === startTicks ? "running" : "dead";
  }
}

/** `folderId`: of the data folder that this process has locked; null if it has locked none. */
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

/** A process number says something only within one kernel and one name space of processes. */
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

/** Fields after the name, which may contain spaces and brackets itself: the 22nd of all is the 20th of these. */
const START_TICKS_AT = 19;

/** Since boot, so that setting the clock changes nothing. */
function readStartTicks(pid: number): number | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const ticks = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[START_TICKS_AT]);
    return Number.isSafeInteger(ticks) ? ticks : null;
  } catch {
    return null;
  }
}
