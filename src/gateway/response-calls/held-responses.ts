/**
 * Follows the background responses that processes left when they ended. This process polls their upstreams, at a bounded
 * rate, and settles each response when it has ended. A client that retrieves a response from a node which does not
 * follow it settles it here as well; the database books it once.
 */

import { BillingUnavailable, errorReason } from "../../billing/engine/store-faults.ts";
import type { HoldFailures } from "../../billing/recovery/hold-failures.ts";
import { storeUnavailable } from "../../errors.ts";
import type { Log } from "../../observe/log.ts";
import type { EndedResponse } from "../../protocols/whole-response.ts";
import type { Db } from "../../store/engine/db.ts";
import { CorruptRow } from "../../store/engine/row.ts";
import { findHeldResponses, findHoldOwner, type HeldResponse } from "../../store/money/holds.ts";
import {
  callStored,
  type ResponseProgress,
  readProgress,
  type StoredCallServices,
} from "./background-response.ts";
import { type HeldSettlementServices, settleHeldResponse } from "./settle-held-response.ts";

interface HeldResponseLimits {
  readonly roundMs: number;
  readonly pollsPerRound: number;
  readonly pollTimeoutMs: number;
  /** The pause between two polls of one response: the first one, and the longest. */
  readonly firstPauseMs: number;
  readonly pauseMsMax: number;
}

interface HeldResponseServices extends HeldSettlementServices, StoredCallServices {
  readonly log: Pick<Log, "info" | "warn" | "error">;
  readonly failures: HoldFailures;
  /** How long a response may take from its request on. */
  readonly timing: { readonly backgroundMsMax: number };
  readonly limits: HeldResponseLimits;
  /** The requests of the responses that recovery has taken over; they are removed from it when they are followed. */
  readonly adopted: Set<string>;
}

interface Schedule {
  readonly dueAtMs: number;
  readonly pauseMs: number;
  /** The response took too long, and its upstream was asked to cancel it. */
  readonly isCancelled: boolean;
}

export class HeldResponses {
  readonly #services: HeldResponseServices;
  /** By request, the one that was polled last at the end. */
  readonly #schedules = new Map<string, Schedule>();
  #timer: ReturnType<typeof setInterval> | null = null;
  #round: Promise<void> | null = null;

  constructor(services: HeldResponseServices) {
    this.#services = services;
  }

  start(): void {
    this.#timer ??= setInterval(() => this.#startRound(), this.#services.limits.roundMs);
    this.#timer.unref();
  }

  /** Responses that are still in progress keep their holds, which recovery hands over. */
  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    await this.#round;
  }

  /** Follows a response of this process whose own follower has failed. */
  adopt(requestId: string): void {
    this.#services.adopted.add(requestId);
  }

  /** Settles the response if it has ended. Returns whether it is settled. */
  async checkSettled(requestId: string, ended?: EndedResponse): Promise<boolean> {
    const held = (await findHeldResponses(this.#services.db, [requestId])).get(requestId);
    if (held === undefined) return true;
    const progress =
      ended === undefined ? await this.#poll(held, "GET") : { kind: "ended" as const, ...ended };
    if (progress.kind === "running") return false;
    await settleHeldResponse(this.#services, held, progress).catch((error: unknown) => {
      throw error instanceof BillingUnavailable ? storeUnavailable() : error;
    });
    return true;
  }

  #startRound(): void {
    const { adopted, log } = this.#services;
    if (adopted.size + this.#schedules.size === 0) return;
    this.#round ??= this.#runRound()
      .catch((error: unknown) => log.warn("held_responses_failed", { reason: errorReason(error) }))
      .finally(() => {
        this.#round = null;
      });
  }

  async #runRound(): Promise<void> {
    const { adopted, clock, db, limits } = this.#services;
    const nowMs = clock.monotonicMs();
    for (const requestId of adopted) {
      this.#schedules.set(requestId, { dueAtMs: nowMs, pauseMs: limits.firstPauseMs, isCancelled: false });
    }
    adopted.clear();
    const due = [...this.#schedules]
      .filter(([, { dueAtMs }]) => dueAtMs <= nowMs)
      .slice(0, limits.pollsPerRound);
    const held = await findReadable(
      db,
      due.map(([requestId]) => requestId),
    );
    await Promise.all(
      due.map(([requestId, schedule]) => this.#follow(requestId, schedule, held.get(requestId))),
    );
  }

  async #follow(
    requestId: string,
    schedule: Schedule,
    held: HeldResponse | CorruptRow | undefined,
  ): Promise<void> {
    const { clock, limits, failures } = this.#services;
    this.#schedules.delete(requestId);
    // Without its hold it is settled.
    if (held === undefined) return;
    let isCancelled = schedule.isCancelled;
    try {
      if (held instanceof CorruptRow) throw held;
      const result = await this.#pollAndSettle(held, isCancelled);
      if (result === "settled") return failures.forget(requestId);
      isCancelled ||= result === "cancelled";
    } catch (error) {
      if (await this.#noteFailure(requestId, error)) return;
    }
    const { pauseMs } = schedule;
    this.#schedules.set(requestId, {
      dueAtMs: clock.monotonicMs() + pauseMs,
      pauseMs: Math.min(pauseMs * 1.5, limits.pauseMsMax),
      isCancelled,
    });
  }

  /** Returns whether it was the last attempt: the hold is set aside. */
  async #noteFailure(requestId: string, error: unknown): Promise<boolean> {
    const { db, log, failures } = this.#services;
    log.warn("held_response_failed", { request_id: requestId, reason: errorReason(error) });
    // The database is at fault, not the hold.
    if (error instanceof BillingUnavailable) return false;
    try {
      const processId = await findHoldOwner(db, requestId);
      return processId === null || (await failures.note({ requestId, processId }, error));
    } catch (failure) {
      log.warn("held_response_failed", { request_id: requestId, reason: errorReason(failure) });
      return false;
    }
  }

  async #pollAndSettle(
    held: HeldResponse,
    isCancelled: boolean,
  ): Promise<"settled" | "cancelled" | "running"> {
    const { clock, timing } = this.#services;
    const isLate = clock.nowMs() - held.atMs >= timing.backgroundMsMax;
    const mustCancel = isLate && !isCancelled;
    const progress = await this.#poll(held, mustCancel ? "POST" : "GET");
    // Many servers cannot cancel a response, so only its end counts.
    if (mustCancel && progress.kind !== "ended") return "cancelled";
    if (progress.kind === "running" && !isLate) return "running";
    await settleHeldResponse(
      this.#services,
      held,
      progress.kind === "running" ? { kind: "unknown" } : progress,
    );
    return "settled";
  }

  /** `POST` cancels the response. While its account is disabled, the response counts as running. */
  async #poll(held: HeldResponse, method: "GET" | "POST"): Promise<ResponseProgress> {
    const { policy, limits } = this.#services;
    const { responseId, publicModel } = held;
    const account = policy.snapshot().accounts.get(held.accountId ?? "");
    if (account === undefined) return { kind: "running" };
    const upstreamModel = held.upstreamModel ?? publicModel;
    const deadlineMs = limits.pollTimeoutMs;
    const result = await callStored(
      this.#services,
      { account, upstreamModel },
      { responseId, method, deadlineMs },
    );
    const audience = { publicModel, upstreamModel, account, mentions: (word: string) => word === responseId };
    return await readProgress(this.#services, audience, result);
  }
}

/** A row that this version cannot read does not hide the others. */
async function findReadable(
  db: Db,
  requestIds: readonly string[],
): Promise<ReadonlyMap<string, HeldResponse | CorruptRow>> {
  try {
    return await findHeldResponses(db, requestIds);
  } catch (error) {
    if (!(error instanceof CorruptRow)) throw error;
  }
  const found = new Map<string, HeldResponse | CorruptRow>();
  for (const requestId of requestIds) {
    try {
      for (const [id, held] of await findHeldResponses(db, [requestId])) found.set(id, held);
    } catch (error) {
      if (!(error instanceof CorruptRow)) throw error;
      found.set(requestId, error);
    }
  }
  return found;
}
