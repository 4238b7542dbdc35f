/**
 * Queues requests whose hold is blocked by their user's own requests in flight: these hold the money that the upper
 * estimate of an uncountable input needs. The wait is bounded in time and in requests per user; a request without
 * money at its deadline is rejected. A queue is retried when a request of its user settles, and periodically because
 * other nodes settle requests too.
 */

import type { BillingEngine } from "./billing-engine.ts";
import type { HoldRequest, HoldResult, Settlement } from "./billing-types.ts";
import { ForwardingBilling } from "./forwarding-billing.ts";

export interface HoldQueueLimits {
  /** Maximum time a request waits for its hold. */
  waitMs: number;
  /** Maximum number of waiting requests per user. Further requests are rejected without a wait. */
  waitingMax: number;
  /** Interval of retries without a settlement of this node. */
  retryMs: number;
}

interface Waiter {
  readonly request: HoldRequest;
  readonly resolve: (result: HoldResult | PromiseLike<HoldResult>) => void;
  blockedResult: HoldResult;
  deadline: ReturnType<typeof setTimeout>;
  state: "waiting" | "asking" | "expired";
}

interface UserQueue {
  readonly waiters: Waiter[];
  readonly retry: ReturnType<typeof setInterval>;
  state: "idle" | "running" | "running_again";
}

class HoldQueue {
  readonly #billingEngine: Pick<BillingEngine, "hold">;
  readonly #limits: HoldQueueLimits;
  readonly #queues = new Map<string, UserQueue>();

  constructor(billingEngine: Pick<BillingEngine, "hold">, limits: HoldQueueLimits) {
    this.#billingEngine = billingEngine;
    this.#limits = limits;
  }

  hold(request: HoldRequest): HoldResult | Promise<HoldResult> {
    const result = this.#billingEngine.hold(request);
    // Nearly every request has only text, which can be counted, and never waits.
    if (request.firmNano === undefined || request.firmNano === request.leastNano) return result;
    if (result instanceof Promise) return result.then((held) => this.#admit(request, held));
    return this.#admit(request, result);
  }

  isEmpty(): boolean {
    return this.#queues.size === 0;
  }

  /** Call when a request of this user has ended. */
  retryUser(userId: string): void {
    const queue = this.#queues.get(userId);
    if (queue !== undefined) this.#run(userId, queue);
  }

  /** Call when the money of an unknown user was released. */
  retryAll(): void {
    for (const userId of this.#queues.keys()) this.retryUser(userId);
  }

  stop(): void {
    for (const { waiters } of this.#queues.values()) for (const waiter of [...waiters]) this.#expire(waiter);
  }

  #admit(request: HoldRequest, result: HoldResult): HoldResult | Promise<HoldResult> {
    if (result.kind !== "blocked") return result;
    const queue = this.#getOrCreateQueue(request.userId);
    if (queue.waiters.length >= this.#limits.waitingMax) return result;
    const { promise, resolve } = Promise.withResolvers<HoldResult>();
    const waiter: Waiter = {
      request,
      resolve,
      blockedResult: result,
      deadline: setTimeout(() => this.#expire(waiter), this.#limits.waitMs),
      state: "waiting",
    };
    queue.waiters.push(waiter);
    return promise;
  }

  #getOrCreateQueue(userId: string): UserQueue {
    const known = this.#queues.get(userId);
    if (known !== undefined) return known;
    const retry = setInterval(() => this.retryUser(userId), this.#limits.retryMs);
    const queue: UserQueue = { waiters: [], retry, state: "idle" };
    this.#queues.set(userId, queue);
    return queue;
  }

  /** While a hold is being requested, its result decides: a hold that is made must have an owner. */
  #expire(waiter: Waiter): void {
    if (waiter.state === "waiting") this.#end(waiter, waiter.blockedResult);
    else waiter.state = "expired";
  }

  #end(waiter: Waiter, result: HoldResult | Promise<HoldResult>): void {
    clearTimeout(waiter.deadline);
    const { userId } = waiter.request;
    const queue = this.#queues.get(userId);
    const index = queue?.waiters.indexOf(waiter) ?? -1;
    if (queue !== undefined && index >= 0) queue.waiters.splice(index, 1);
    if (queue !== undefined && queue.waiters.length === 0) {
      clearInterval(queue.retry);
      this.#queues.delete(userId);
    }
    waiter.resolve(result);
  }

  #run(userId: string, queue: UserQueue): void {
    if (queue.state !== "idle") {
      queue.state = "running_again";
      return;
    }
    queue.state = "running";
    void this.#retryAll(queue).then(() => {
      const isDue = queue.state === "running_again";
      queue.state = "idle";
      if (isDue && this.#queues.get(userId) === queue) this.#run(userId, queue);
    });
  }

  /** Retries in the order of arrival. If the first waiter stays blocked, the ones behind it do not overtake it. */
  async #retryAll({ waiters }: UserQueue): Promise<void> {
    for (let next = waiters[0]; next !== undefined; next = waiters[0]) {
      next.state = "asking";
      const result = await this.#requestHold(next);
      if (result.kind === "blocked" && next.state === "asking") {
        next.blockedResult = result;
        next.state = "waiting";
        return;
      }
    }
  }

  async #requestHold(waiter: Waiter): Promise<HoldResult> {
    try {
      const result = await this.#billingEngine.hold(waiter.request);
      if (result.kind !== "blocked" || waiter.state === "expired") this.#end(waiter, result);
      return result;
    } catch (error) {
      this.#end(waiter, Promise.reject(error));
      return waiter.blockedResult;
    }
  }
}

/** A billing engine whose blocked holds wait for the user's other requests. */
export class HoldQueueBilling extends ForwardingBilling {
  readonly #queue: HoldQueue;

  constructor(inner: BillingEngine, limits: HoldQueueLimits) {
    super(inner);
    this.#queue = new HoldQueue(inner, limits);
  }

  override hold(request: HoldRequest): HoldResult | Promise<HoldResult> {
    return this.#queue.hold(request);
  }

  /** A replacement never waits: two requests that wait with their holds could wait for each other. */
  override async replaceHold(request: HoldRequest): Promise<HoldResult> {
    const result = await this.inner.replaceHold(request);
    if (result.kind === "held") this.#retryUser(request.userId);
    return result;
  }

  override async releaseHold(requestId: string): Promise<void> {
    await this.inner.releaseHold(requestId);
    this.#queue.retryAll();
  }

  override settle(settlement: Settlement): Promise<void> | null {
    const settled = this.inner.settle(settlement);
    // A request that starts to wait after this check is retried by the timer.
    if (this.#queue.isEmpty()) return settled;
    const { userId } = settlement.row;
    if (settled === null) this.#retryUser(userId);
    else
      void settled.then(
        () => this.#retryUser(userId),
        () => {},
      );
    return settled;
  }

  override async book(settlement: Settlement): Promise<void> {
    await this.inner.book(settlement);
    this.#retryUser(settlement.row.userId);
  }

  override async stop(): Promise<void> {
    this.#queue.stop();
    await this.inner.stop();
  }

  #retryUser(userId: string | null): void {
    if (userId !== null) this.#queue.retryUser(userId);
  }
}
