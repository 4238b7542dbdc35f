/** The memory and disk space that the bodies of all clients share: one budget for each kind of storage. */

import type { Clock } from "../../base/clock.ts";
import type { Deadlines } from "../../base/deadlines.ts";
import { type BodyBudget, openBodyBudget } from "./body-budget.ts";

export interface BodyBudgets {
  /** Memory for bodies above 1 MiB. */
  readonly large: BodyBudget;
  /** Memory for smaller bodies that are counted. */
  readonly small: BodyBudget;
  /** Disk space for multipart forms. */
  readonly disk: BodyBudget;
}

interface BudgetLimits {
  readonly bytesMax: number;
  readonly ownerShare: number;
  readonly waitTimeoutMs: number;
  readonly waitingMax: number;
}

interface MemoryLimits extends BudgetLimits {
  readonly memoryShare: number;
  readonly bytesMin: number;
}

interface BodyBudgetLimits {
  readonly largeBodies: MemoryLimits;
  readonly smallBodies: MemoryLimits;
  readonly spool: BudgetLimits;
}

type BudgetTime = Pick<Clock, "monotonicMs"> & { deadlines: Deadlines };

/** `largeBytes` is the operator's setting for large bodies; null uses a share of the machine's memory. */
export function openBodyBudgets(
  { largeBodies, smallBodies, spool }: BodyBudgetLimits,
  largeBytes: number | null,
  time: BudgetTime,
): BodyBudgets {
  return {
    large: openBudget(largeBytes ?? memoryBytes(largeBodies), largeBodies, time),
    small: openBudget(memoryBytes(smallBodies), smallBodies, time),
    disk: openBudget(spool.bytesMax, spool, time),
  };
}

function memoryBytes({ memoryShare, bytesMin, bytesMax }: MemoryLimits): number {
  return Math.min(bytesMax, Math.max(bytesMin, process.constrainedMemory() * memoryShare));
}

function openBudget(
  bytesMax: number,
  { ownerShare, waitingMax, waitTimeoutMs }: BudgetLimits,
  { deadlines, monotonicMs }: BudgetTime,
): BodyBudget {
  return openBodyBudget({
    bytesMax,
    ownerBytesMax: bytesMax * ownerShare,
    waitingMax,
    ownerWaitingMax: waitingMax * ownerShare,
    waitTimeoutMs,
    deadlines,
    monotonicMs,
  });
}
