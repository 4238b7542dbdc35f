/** The options of a fault, and the table of its findings. */

import type { Engine } from "../../src/store/engine/db.ts";

export interface FaultOptions {
  /** Kills, changes, or rounds of requests; null: as many as the promise is about. */
  times: number | null;
  store: Engine;
  /** How many nodes, for faults of several nodes. */
  nodes: number;
  /** Whether a Redis or Valkey coordinates their limits, instead of PostgreSQL. */
  withRedis: boolean;
  /** The root folder of another version, with which nodes are upgraded and rolled back; null: this one. */
  otherVersion: string | null;
  /** Of `fraud`, by their names; null: all of them. */
  scenarios: readonly string[] | null;
  /** Progress, a line at a time. */
  say(line: string): void;
}

export interface Finding {
  what: string;
  got: string | number | bigint;
  /** In words; null for a figure that is not checked. */
  wanted: string | null;
  isRight: boolean;
}

export interface Fault {
  name: string;
  promise: string;
  /** It changes network settings of the kernel, so it runs in a network namespace of its own. */
  needsOwnNetwork?: true;
  run(options: FaultOptions): Promise<Finding[]>;
}

export function figure(what: string, got: Finding["got"]): Finding {
  return { what, got, wanted: null, isRight: true };
}

export function checked(what: string, got: Finding["got"], wanted: string, isRight: boolean): Finding {
  return { what, got, wanted, isRight };
}

/** What must not happen at all; the first few that did are named. */
export function none(what: string, found: readonly string[]): Finding {
  const examples = found.length === 0 ? "" : ` (${found.slice(0, 3).join("; ")})`;
  return { what, got: `${found.length}${examples}`, wanted: "0", isRight: found.length === 0 };
}

export function percent(share: number): string {
  return `${(share * 100).toFixed(3)} %`;
}

export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

export function table(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ what }) => what.length));
  return findings
    .map(({ what, got, wanted, isRight }) => {
      const mark = wanted === null ? " " : isRight ? "✓" : "✗";
      const goal = wanted === null || wanted === String(got) ? "" : `   (wanted: ${wanted})`;
      return `   ${mark} ${what.padEnd(width)}  ${got}${goal}`;
    })
    .join("\n");
}
