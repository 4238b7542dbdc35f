/**
 * The steps of one request: the requested model in the key's group, and the fallback steps that its policy names. Only
 * requests whose model has fallback steps have a run.
 */

import type { ApiError, TriedStep } from "../../errors.ts";
import type { Tariff } from "../../money/tariff.ts";
import type { ServedFallback } from "../../observe/request-metrics.ts";
import type { PublishedFallbackStep, PublishedModel } from "../../policy/snapshot.ts";
import type { PolicyChange } from "../../protocols/request-policy/policy-body.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import type { FallbackCondition } from "../../records/fallback.ts";
import type { QueueSettings } from "../../records/group.ts";
import { NO_FALLBACK, type UsageFallback } from "../../store/usage/usage-row.ts";
import type { ModelAccess } from "../admission/admit.ts";
import type { Caller } from "../admission/authenticate.ts";
import type { StepTrace, Trace } from "../request/trace.ts";
import type { DispatchStep } from "../upstream/dispatch-request.ts";
import type { Retries } from "../upstream/retry-budget.ts";
import { findLeaveAfterMs, leavingQueue } from "./leaving-queue.ts";
import type { StickyStep } from "./sticky-steps.ts";

/** The request as it was admitted, before any step. */
interface RequestedTarget extends ModelAccess {
  readonly caller: Caller;
  readonly request: ModelRequest;
  readonly outputTokensMax: number | null;
  readonly policyCap: number | null;
  readonly policyChanges: readonly PolicyChange[] | null;
}

/** The requested target itself is the step null. */
type StepOrRequested = PublishedFallbackStep | null;

interface FallbackRunOptions {
  readonly requested: RequestedTarget;
  readonly trace: Trace;
  readonly retries: Retries;
  readonly attemptsMax: number;
  /** The client's own maximum price; null if it sets none. */
  readonly maxPriceMillionths: bigint | null;
  /** The conversation that may stay on a step; null if the request names none. */
  readonly conversation: string | null;
  /** The group whose limits are reserved before the first step; null if none are. */
  readonly leaseGroupId: string | null;
  monotonicMs(): number;
}

const NO_WAIT: QueueSettings = { maxWaiting: 0, timeoutMs: 0 };

export class FallbackRun {
  readonly requested: RequestedTarget;
  readonly maxPriceMillionths: bigint | null;
  readonly conversation: string | null;
  /** Shared by all steps. */
  readonly retries: Retries;
  /** The step in progress. */
  step: StepOrRequested = null;
  /** The condition on which the request left the steps before; null for the requested target. */
  reason: FallbackCondition | null = null;
  /** What the step in progress is expected to cost, in USD; null if that is unknown. */
  forecast: string | null = null;
  /** The limits of the step in progress are reserved. */
  isReserved = false;
  /** The group whose limits are reserved. */
  leaseGroupId: string | null;
  /** Attempts of earlier steps. */
  attemptsBefore = 0;
  /** Upstreams have finished batches for a step that the request has left. They are the cost of the operator. */
  hasLeftWork = false;
  /** The request has left a step. */
  #hasMoved = false;
  readonly #remaining: StepOrRequested[];
  /** The only step that can serve the request; null if any can. */
  #holdingStep: PublishedFallbackStep | null = null;
  readonly #met = new Set<FallbackCondition>();
  readonly #tried: TriedStep[] = [];
  readonly #trace: Trace;
  readonly #attemptsMax: number;
  readonly #monotonicMs: () => number;
  #firstError: ApiError | null = null;

  constructor(options: FallbackRunOptions) {
    this.requested = options.requested;
    this.maxPriceMillionths = options.maxPriceMillionths;
    this.conversation = options.conversation;
    this.retries = options.retries;
    this.leaseGroupId = options.leaseGroupId;
    this.#remaining = [...options.requested.model.fallback];
    this.#trace = options.trace;
    this.#attemptsMax = options.attemptsMax;
    this.#monotonicMs = options.monotonicMs;
  }

  /** The conversation stays on this step: it is tried first, and then the requested target. */
  startAt({ step, reason }: StickyStep): void {
    this.#remaining.splice(this.#remaining.indexOf(step), 1);
    this.#remaining.unshift(step, null);
    this.#met.add(reason);
  }

  /** An account of this step holds the conversation, so no other step can serve the request. */
  restrictTo(step: PublishedFallbackStep): void {
    this.#remaining.splice(0, this.#remaining.length, step);
    this.#holdingStep = step;
  }

  enter(step: StepOrRequested): void {
    this.step = step;
    this.isReserved = false;
    this.attemptsBefore = this.#trace.attempts.length;
  }

  /** Limits are reserved for the step in progress. */
  noteReserved(groupId: string): void {
    this.isReserved = true;
    this.leaseGroupId = groupId;
  }

  /** The reservation that was made before the body was read is that of the requested target. */
  get isFirst(): boolean {
    return this.step === null && !this.#hasMoved;
  }

  /** No step serves the request: it ends as a request to the requested target. */
  abandon(): void {
    this.step = null;
    this.reason = null;
  }

  close(): void {
    this.retries.close();
  }

  /** The error of the requested target if it was tried; otherwise that of the step in progress. */
  get firstError(): ApiError | null {
    return this.#firstError;
  }

  get tried(): readonly TriedStep[] {
    return this.#tried;
  }

  /** Ends the step in progress: it could not serve the request. */
  leave(error: ApiError, conditions: readonly FallbackCondition[]): void {
    this.#hasMoved = true;
    if (this.step === null || this.#firstError === null) this.#firstError = error;
    for (const condition of conditions) {
      this.#met.delete(condition);
      this.#met.add(condition);
    }
    this.#record("failed", conditions[0] ?? error.code);
    this.hasLeftWork ||= this.#trace.batches?.some(({ hasWorked }) => hasWorked) === true;
    this.#trace.batches = null;
  }

  /** Skips the step in progress, or one that was not entered. */
  skip(step: StepOrRequested, reason: string): void {
    this.#record("skipped", reason, step);
  }

  /** The next step whose conditions have been met; undefined if there is none. */
  takeNext(): StepOrRequested | undefined {
    for (;;) {
      const step = this.#remaining.shift();
      if (step === undefined) return undefined;
      this.forecast = null;
      if (step === null) {
        this.#met.clear();
        this.reason = null;
        return null;
      }
      const reason = [...this.#met].findLast((condition) => step.when.has(condition));
      if (reason === undefined && step !== this.#holdingStep) continue;
      this.reason = reason ?? null;
      return step;
    }
  }

  /** The step in progress serves the request. */
  recordServed(): void {
    this.#record("served", this.reason);
  }

  /** The price of a step; null if its model has none. */
  findTariff(number: number): Tariff | null {
    const { model } = this.requested;
    return (model.fallback.find((step) => step.number === number)?.model ?? model).tariff;
  }

  /** For the usage row, which counts for the group and model of the step in progress. */
  describeServing(): UsageFallback {
    if (this.step === null) return NO_FALLBACK;
    const { caller, model } = this.requested;
    return {
      requestedGroup: caller.group.id,
      requestedModel: model.id,
      fallbackStep: this.step.number,
      fallbackReason: this.reason,
    };
  }

  /** For metrics: names of group and model. Null at the requested target. */
  describeMove(): ServedFallback | null {
    if (this.step === null || this.reason === null) return null;
    const { caller, model } = this.requested;
    return {
      from: `${caller.group.name}/${model.id}`,
      to: `${this.step.group.name}/${this.step.model.id}`,
      reason: this.reason,
    };
  }

  toDispatchStep(): DispatchStep {
    return {
      number: this.step?.number ?? 0,
      group: (this.step?.group ?? this.requested.caller.group).name,
      attemptsMax: this.countAttemptsLeft(),
      retries: this.retries,
    };
  }

  /** How many attempts the step in progress may make. One is kept for a later step that its failure can lead to. */
  countAttemptsLeft(): number {
    const left = this.#attemptsMax - this.#trace.attempts.length;
    const isOneKept = this.#remaining.some((step) => this.#mayFollowFailure(step));
    return isOneKept ? Math.max(Math.min(1, left), left - 1) : left;
  }

  /** Failed attempts do not use up the money or the windows of a step. */
  #mayFollowFailure(step: StepOrRequested): boolean {
    if (step === null || step.when.has("busy") || step.when.has("failing")) return true;
    return [...this.#met].some((condition) => step.when.has(condition));
  }

  /**
   * The queue of the key's group, for as long as no next step would serve sooner. A later step is used only if it needs no
   * wait for its limits.
   */
  limitQueue(isOfGroup: boolean): QueueSettings {
    const { caller, model } = this.requested;
    if (this.#holdingStep !== null) return caller.group.queue;
    if (!this.isFirst) return NO_WAIT;
    // A long body has waited for the same limit before it was read.
    return isOfGroup ? leavingQueue(caller.group.queue, model.fallback) : caller.group.queue;
  }

  /** The queue for accounts. The time includes what the request has waited before. */
  accountQueue(): QueueSettings {
    // Where a conversation stays, it does not wait: the requested target is next.
    if (this.#remaining.includes(null)) return NO_WAIT;
    const { queue } = this.requested.caller.group;
    const leaveAfterMs = findLeaveAfterMs(this.#remaining);
    if (leaveAfterMs === null) return queue;
    const timeoutMs = Math.min(queue.timeoutMs, this.#trace.endedWaitsMs + leaveAfterMs);
    return { maxWaiting: queue.maxWaiting, timeoutMs };
  }

  #record(result: StepTrace["result"], reason: string | null, step: StepOrRequested = this.step): void {
    const { caller, model } = this.requested;
    const group = (step?.group ?? caller.group).name;
    const publicModel: PublishedModel["id"] = (step?.model ?? model).id;
    if (result !== "served") this.#tried.push({ group, model: publicModel, reason: reason ?? "" });
    this.#trace.steps = [
      ...(this.#trace.steps ?? []),
      {
        number: step?.number ?? 0,
        group,
        model: publicModel,
        atMs: Math.round(this.#monotonicMs() - this.#trace.startedMs),
        result,
        reason,
        forecast: this.forecast,
      },
    ];
  }
}
