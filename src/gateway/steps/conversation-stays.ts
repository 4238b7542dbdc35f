/**
 * Keeps conversations for a time on the fallback step that has served them, because its account has their prompt in its
 * cache. In the memory of this node: after a restart, or on another node, a conversation begins at the first step again.
 */

import type { PublishedFallbackStep } from "../../policy/snapshot.ts";
import type { FallbackCondition } from "../../records/fallback.ts";

interface Stay {
  readonly groupId: string;
  readonly modelId: string;
  readonly reason: FallbackCondition;
  readonly untilMs: number;
}

export interface StayingStep {
  readonly step: PublishedFallbackStep;
  readonly reason: FallbackCondition;
}

/** Holds at most twice `halfMax` conversations: when the newer half is full, the older half is dropped. */
export class ConversationStays {
  readonly #halfMax: number;
  readonly #monotonicMs: () => number;
  #newer = new Map<string, Stay>();
  #older = new Map<string, Stay>();

  constructor(halfMax: number, monotonicMs: () => number) {
    this.#halfMax = halfMax;
    this.#monotonicMs = monotonicMs;
  }

  /** Null if the conversation may begin at the first step. */
  find(conversation: string, steps: readonly PublishedFallbackStep[]): StayingStep | null {
    const stay = this.#newer.get(conversation) ?? this.#older.get(conversation);
    if (stay === undefined || stay.untilMs <= this.#monotonicMs()) return null;
    const step = steps.find(
      ({ group, model, when, stayMs }) =>
        stayMs !== null && group.id === stay.groupId && model.id === stay.modelId && when.has(stay.reason),
    );
    return step === undefined ? null : { step, reason: stay.reason };
  }

  keep(conversation: string, { step, reason }: StayingStep): void {
    if (step.stayMs === null) return;
    if (this.#newer.size >= this.#halfMax && !this.#newer.has(conversation)) {
      this.#older = this.#newer;
      this.#newer = new Map();
    }
    const untilMs = this.#monotonicMs() + step.stayMs;
    this.#newer.set(conversation, { groupId: step.group.id, modelId: step.model.id, reason, untilMs });
  }
}
