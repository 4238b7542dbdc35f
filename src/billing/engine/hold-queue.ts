/**
 * Queues requests whose hold is blocked by their user's own requests in flight: these hold the money that the upper
 * estimate of an uncountable input needs. The wait is bounded in time and in requests per user; a request without
 * money at its deadline is refused. A queue is retried when a request of its user settles, and periodically because
 * other nodes settle requests too.
 */

import type { BillingEngine } from "./billing-engine.ts";
import type { HoldRequest, HoldResult } from "./money-terms.ts";

export interface HoldQueueLimits {
  /** Maximum time a request waits for its hold. */
  waitMs: number;
  /** Maximum number of waiting requests per user. Further requests are refused without a wait. */
  waitingMax: number;
  /** Interval of retries without a settlement of this node. */
  retryMs: number;
}

interface Waiter {
  readonly asked: HoldRequest;
  readonly resolve: (result: HoldResult | PromiseLike<HoldResult>) => void;
  blocked: HoldResult;
  deadline: ReturnType<typeof setTimeout>;
  state: "waiting" | "asking" | "expired";
}

interface UserQueue {
  readonly waiters: Waiter[];
  readonly retry: ReturnType<typeof setInterval>;
  state: "idle" | "running" | "running_again";
}

export class HoldQueue {
  private readonly till: Pick<BillingEngine, "hold">;
  private readonly limits: HoldQueueLimits;
  private readonly queues = new Map<string, UserQueue>();

  constructor(till: Pick<BillingEngine, "hold">, limits: HoldQueueLimits) {
    this.till = till;
    this.limits = limits;
  }

  hold(request: HoldRequest): HoldResult | Promise<HoldResult> {
    const result = this.till.hold(request);
    // Nearly every request has only text, which can be counted, and never waits.
    if (request.firmNano === undefined || request.firmNano === request.leastNano) return result;
    if (result instanceof Promise) return result.then((held) => this.admit(request, held));
    return this.admit(request, result);
  }

  isEmpty(): boolean {
    return this.queues.size === 0;
  }

  /** Call when a request of this user has ended. */
  released(userId: string): void {
    const queue = this.queues.get(userId);
    if (queue !== undefined) this.run(userId, queue);
  }

  stop(): void {
    for (const { waiters } of this.queues.values()) for (const waiter of [...waiters]) this.expire(waiter);
  }

  private admit(asked: HoldRequest, result: HoldResult): HoldResult | Promise<HoldResult> {
    if (result.kind !== "blocked") return result;
    const queue = this.queueFor(asked.userId);
    if (queue.waiters.length >= this.limits.waitingMax) return result;
    const { promise, resolve } = Promise.withResolvers<HoldResult>();
    const waiter: Waiter = {
      asked,
      resolve,
      blocked: result,
      deadline: setTimeout(() => this.expire(waiter), this.limits.waitMs),
      state: "waiting",
    };
    queue.waiters.push(waiter);
    return promise;
  }

  private queueFor(userId: string): UserQueue {
    const known = this.queues.get(userId);
    if (known !== undefined) return known;
    const retry = setInterval(() => this.released(userId), this.limits.retryMs);
    const queue: UserQueue = { waiters: [], retry, state: "idle" };
    this.queues.set(userId, queue);
    return queue;
  }

  /** While a hold is being requested, its result decides: a hold that is made must have an owner. */
  private expire(waiter: Waiter): void {
    if (waiter.state === "waiting") this.end(waiter, waiter.blocked);
    else waiter.state = "expired";
  }

  private end(waiter: Waiter, result: HoldResult | Promise<HoldResult>): void {
    clearTimeout(waiter.deadline);
    const { userId } = waiter.asked;
    const queue = this.queues.get(userId);
    const index = queue?.waiters.indexOf(waiter) ?? -1;
    if (queue !== undefined && index >= 0) queue.waiters.splice(index, 1);
    if (queue !== undefined && queue.waiters.length === 0) {
      clearInterval(queue.retry);
      this.queues.delete(userId);
    }
    waiter.resolve(result);
  }

  private run(userId: string, queue: UserQueue): void {
    if (queue.state !== "idle") {
      queue.state = "running_again";
      return;
    }
    queue.state = "running";
    void this.tryAll(queue).then(() => {
      const isDue = queue.state === "running_again";
      queue.state = "idle";
      if (isDue && this.queues.get(userId) === queue) this.run(userId, queue);
    });
  }

  /** Retries in the order of arrival. If the first waiter stays blocked, the ones behind it do not overtake it. */
  private async tryAll({ waiters }: UserQueue): Promise<void> {
    for (let next = waiters[0]; next !== undefined; next = waiters[0]) {
      next.state = "asking";
      const result = await this.ask(next);
      if (result.kind === "blocked" && next.state === "asking") {
        next.blocked = result;
        next.state = "waiting";
        return;
      }
    }
  }

  private async ask(waiter: Waiter): Promise<HoldResult> {
    try {
      const result = await this.till.hold(waiter.asked);
      if (result.kind !== "blocked" || waiter.state === "expired") this.end(waiter, result);
      return result;
    } catch (error) {
      this.end(waiter, Promise.reject(error));
      return waiter.blocked;
    }
  }
}

/** Wraps a billing engine so that blocked holds wait for the user's other requests. */
export function withHoldQueue(till: BillingEngine, limits: HoldQueueLimits): BillingEngine {
  const queue = new HoldQueue(till, limits);
  const released = (userId: string | null) => {
    if (userId !== null) queue.released(userId);
  };
  const ignore = () => {};
  return {
    ...till,
    hold: (request) => queue.hold(request),
    settle(settlement) {
      const settled = till.settle(settlement);
      // A request that starts to wait after this check is retried by the timer.
      if (queue.isEmpty()) return settled;
      const { userId } = settlement.row;
      if (settled === null) released(userId);
      else void settled.then(() => released(userId), ignore);
      return settled;
    },
    async book(settlement) {
      await till.book(settlement);
      released(settlement.row.userId);
    },
    async stop() {
      queue.stop();
      await till.stop();
    },
  };
}
