/**
 * Recall of wallet reservations between nodes. A node whose hold is rejected or reduced because others have reserved the
 * money asks them to release it, and decides again. Nodes that are asked release their reservations of the user.
 */

import type { Nano } from "../../money/nano.ts";
import { isSharedServer } from "../../store/engine/dialect.ts";
import { storeNowMs } from "../../store/money/processes.ts";
import { insertRecall, listRecalledUsers } from "../../store/money/reservation-recalls.ts";
import { readFundsOfOthers, readOldestOwnerHeartbeat } from "../../store/money/wallet-reservations.ts";
import type { HoldOrder } from "../engine/batch-state.ts";
import type { HoldRequest, HoldResult } from "../engine/billing-types.ts";
import type { DirectBilling } from "../engine/direct-billing.ts";
import type { EngineServices } from "../engine/engine-services.ts";
import { BillingUnavailable, errorReason } from "../engine/store-faults.ts";
import type { ReservationStore } from "./reservation-store.ts";
import type { ReservationState } from "./wallet-reservations.ts";

export interface RecallLimits {
  /** How long a hold waits for other nodes to release their reservations. */
  recallTimeoutMs: number;
  /** The same if one of these nodes is silent: it may have ended. */
  silentRecallTimeoutMs: number;
  /** A node is silent if its last heartbeat is older. */
  silentAfterMs: number;
  /** How often the hold looks whether they have. */
  recallCheckMs: number;
}

interface ReservationRecallOptions extends EngineServices {
  reservationState: Pick<ReservationState, "reservations">;
  reservationStore: Pick<ReservationStore, "close">;
  directBilling: Pick<DirectBilling, "hold" | "replaceHold" | "release">;
  limits: RecallLimits;
}

/** Number of times that a hold is decided again. Each needs money that became available since the last decision. */
const DECISIONS_MAX = 3;

/** Owns the recalls that this node has sent, and the users that any node has recalled. */
export class ReservationRecall {
  readonly #options: ReservationRecallOptions;
  readonly #sent = new Map<string, Promise<boolean>>();
  #recalledUsers: ReadonlySet<string> = new Set();
  #responding: Promise<void> | null = null;
  #isAskedAgain = false;

  constructor(options: ReservationRecallOptions) {
    this.#options = options;
  }

  /** Whether a node has needed this user's money recently: then nothing is reserved. */
  isRecalled(userId: string): boolean {
    return this.#recalledUsers.has(userId);
  }

  /** Holds through direct billing. Money that other nodes have reserved counts as available. */
  hold(request: HoldRequest): Promise<HoldResult> {
    return this.#decide({ kind: "new", request });
  }

  /** The same for `replaceHold`. */
  replaceHold(request: HoldRequest): Promise<HoldResult> {
    return this.#decide({ kind: "replacement", request });
  }

  async #decide(order: HoldOrder): Promise<HoldResult> {
    const { db, directBilling, processId } = this.#options;
    const { request } = order;
    let result = await (order.kind === "new"
      ? directBilling.hold(request)
      : directBilling.replaceHold(request));
    if (!isSharedServer(db)) return result;
    try {
      for (let decision = 1; decision < DECISIONS_MAX; decision++) {
        const seenNano = availableWhenDecided(result, order);
        if (seenNano === null) return result;
        const funds = await readFundsOfOthers(db, request.userId, processId);
        if (funds.othersNano > 0n && !(await this.#send(request.userId))) return keepOrReject(result);
        if (funds.othersNano === 0n && funds.availableNano <= seenNano) return result;
        result = await this.#decideAgain(order, result);
      }
    } catch (error) {
      // The caller does not learn of this hold.
      if (result.kind === "held") directBilling.release(request.requestId, request.userId);
      throw error;
    }
    return result;
  }

  /** A reduced hold stays until a later decision replaces it. */
  async #decideAgain({ kind, request }: HoldOrder, before: HoldResult): Promise<HoldResult> {
    const { directBilling } = this.#options;
    if (kind === "new") {
      if (before.kind === "held") directBilling.release(request.requestId, request.userId);
      return directBilling.hold(request);
    }
    const result = await directBilling.replaceHold(request);
    return before.kind === "held" && result.kind !== "held" ? before : result;
  }

  /** Releases the reservations of recalled users. Call when a notification arrives, and periodically. */
  respond(): Promise<void> {
    if (this.#responding !== null) {
      this.#isAskedAgain = true;
      return this.#responding;
    }
    this.#responding = this.#respondAll().finally(() => {
      this.#responding = null;
    });
    return this.#responding;
  }

  async #respondAll(): Promise<void> {
    const { db, log, reservationState, reservationStore } = this.#options;
    if (!isSharedServer(db)) return;
    do {
      this.#isAskedAgain = false;
      try {
        this.#recalledUsers = new Set(await listRecalledUsers(db));
        const reserved = [...this.#recalledUsers].filter((userId) =>
          reservationState.reservations.has(userId),
        );
        await reservationStore.close(reserved);
      } catch (error) {
        log.error("wallet_reservation_failed", { reason: errorReason(error) });
      }
    } while (this.#isAskedAgain);
  }

  /** Resolves to whether all other nodes have released the user's reservations. Requests of one user share a recall. */
  #send(userId: string): Promise<boolean> {
    const sent = this.#sent.get(userId);
    if (sent !== undefined) return sent;
    const sending = this.#sendAndWait(userId).finally(() => this.#sent.delete(userId));
    this.#sent.set(userId, sending);
    return sending;
  }

  async #sendAndWait(userId: string): Promise<boolean> {
    const { db, clock, processId, limits } = this.#options;
    const startedMs = clock.monotonicMs();
    this.#recalledUsers = new Set([...this.#recalledUsers, userId]);
    await insertRecall(db, userId);
    for (;;) {
      await Bun.sleep(limits.recallCheckMs);
      if ((await readFundsOfOthers(db, userId, processId)).othersNano === 0n) return true;
      const waitedMs = clock.monotonicMs() - startedMs;
      if (waitedMs >= limits.recallTimeoutMs) return false;
      if (waitedMs >= limits.silentRecallTimeoutMs && (await this.#isOwnerSilent(userId))) return false;
    }
  }

  /** A node that gets no CPU time sends its heartbeats, and releases its reservations late. One that has ended does not. */
  async #isOwnerSilent(userId: string): Promise<boolean> {
    const { db, clock, processId, limits } = this.#options;
    const beatMs = await readOldestOwnerHeartbeat(db, userId, processId);
    return beatMs !== null && (await storeNowMs(db, clock)) - beatMs > limits.silentAfterMs;
  }
}

/**
 * What the payer had available after the decision, if more could have changed the result. Null if the request has all
 * that it wants. What a replacement sees includes its old hold, so any money of the wallet may be more.
 */
function availableWhenDecided(result: HoldResult, { kind, request }: HoldOrder): Nano | null {
  const { charge, wantedNano } = request;
  if (charge !== "balance") return null;
  switch (result.kind) {
    case "held":
      return result.amountNano < wantedNano ? 0n : null;
    case "in_debt":
      return -result.debtNano;
    default:
      return kind === "new" ? result.availableNano : 0n;
  }
}

/** The money of a node that does not respond stays reserved until recovery. The error must not call it spent. */
function keepOrReject(result: HoldResult): HoldResult {
  if (result.kind === "held") return result;
  throw new BillingUnavailable("another node does not release its wallet reservation");
}
