/**
 * Keeps conversations for a time on the fallback step that has served them, because its account has their prompt in its
 * cache. In the memory of this node: after a restart, or on another node, a conversation begins at the first step again.
 */

import type { PublishedFallbackStep } from "../../policy/snapshot.ts";
import type { FallbackCondition } from "../../records/fallback.ts";

interface StickyEntry {
  readonly groupId: string;
  readonly modelId: string;
  readonly reason: FallbackCondition;
  readonly untilMs: number;
}

export interface StickyStep {
  readonly step: PublishedFallbackStep;
  readonly reason: FallbackCondition;
}

/** Holds at most twice `halfMax` conversations: when the newer half is full, the older half is dropped. */
export class StickySteps {
  readonly #halfMax: number;
  readonly #monotonicMs: () => number;
  #newer = new Map<string, StickyEntry>();
  #older = new Map<string, StickyEntry>();

  constructor(halfMax: number, monotonicMs: () => number) {
    this.#halfMax = halfMax;
    this.#monotonicMs = monotonicMs;
  }

  /** Null if the conversation may begin at the first step. */
  find(conversation: string, steps: readonly PublishedFallbackStep[]): StickyStep | null {
    const entry = this.#newer.get(conversation) ?? this.#older.get(conversation);
    if (entry === undefined || entry.untilMs <= this.#monotonicMs()) return null;
    const step = steps.find(
      ({ group, model, when, stayMs }) =>
        stayMs !== null && group.id === entry.groupId && model.id === entry.modelId && when.has(entry.reason),
    );
    return step === undefined ? null : { step, reason: entry.reason };
  }

  record(conversation: string, { step, reason }: StickyStep): void {
    if (step.stayMs === null) return;
    if (this.#newer.size >= this.#halfMax && !this.#newer.has(conversation)) {
      this.#older = this.#newer;
      this.#newer = new Map();
    }
    const untilMs = this.#monotonicMs() + step.stayMs;
    this.#newer.set(conversation, { groupId: step.group.id, modelId: step.model.id, reason, untilMs });
  }
}
