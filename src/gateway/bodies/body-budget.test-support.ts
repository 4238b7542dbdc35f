/** Test support: a body budget of this size with a short timeout. */

import { systemClock } from "../../base/clock.ts";
import { openDeadlines } from "../../base/deadlines.ts";
import { type BodyBudget, openBodyBudget } from "./body-budget.ts";

const deadlines = openDeadlines(10, systemClock);

export function openTestBudget(bytesMax: number): BodyBudget {
  return openBodyBudget({
    bytesMax,
    ownerBytesMax: bytesMax / 2,
    waitingMax: 10,
    ownerWaitingMax: 5,
    waitTimeoutMs: 60,
    deadlines,
    monotonicMs: systemClock.monotonicMs,
  });
}
