/** How long a request waits for a limit of its group before it leaves the group. */

import type { PublishedFallbackStep } from "../../policy/snapshot.ts";
import type { QueueSettings } from "../../records/group.ts";
import type { Caller } from "../admission/authenticate.ts";

type LeavingStep = Pick<PublishedFallbackStep, "when" | "leaveAfterMs">;

/** Null: as long as the queue of the key's group. The requested target itself is the step null. */
export function findLeaveAfterMs(steps: readonly (LeavingStep | null)[]): number | null {
  return steps.find((step) => step?.when.has("busy"))?.leaveAfterMs ?? null;
}

/** The queue of the first step for a limit of its group. */
export function leavingQueue(queue: QueueSettings, steps: readonly LeavingStep[]): QueueSettings {
  const leaveAfterMs = findLeaveAfterMs(steps) ?? queue.timeoutMs;
  return { maxWaiting: queue.maxWaiting, timeoutMs: Math.min(queue.timeoutMs, leaveAfterMs) };
}

/** Before a long body is read its model is not known, so this is the longest wait of all models. */
export function leavingQueueBeforeBody({ key, group }: Caller): QueueSettings {
  const { queue, models } = group;
  if (key.fallback === "deny") return queue;
  const waitsMs = [...models.values()].map(({ fallback }) => leavingQueue(queue, fallback).timeoutMs);
  return waitsMs.length === 0
    ? queue
    : { maxWaiting: queue.maxWaiting, timeoutMs: waitsMs.reduce((a, b) => Math.max(a, b)) };
}
