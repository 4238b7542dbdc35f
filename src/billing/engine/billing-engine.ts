/** The billing of requests as the gateway uses it: holds, progress, settlements and usage rows. */

import type { UsageRow } from "../../store/usage/usage.ts";
import type { HoldRequest, HoldResult, Settlement } from "./billing-types.ts";

export interface BillingEngine {
  /** Durable when it returns or resolves. Rejects with `BillingUnavailable` if the database is unavailable. */
  hold(request: HoldRequest): HoldResult | Promise<HoldResult>;
  /**
   * Ends the hold of the request, if it has one, and makes a new one in one transaction: money of the old hold is
   * available to the new one. Unless the result is `held`, the old hold stays. Call while no account processes the
   * request; progress starts again. If it rejects, the request must end unsent, with `settle` if it had a hold: which
   * hold stands is not known.
   */
  replaceHold(request: HoldRequest): Promise<HoldResult>;
  /**
   * Ends the hold of a request that continues unpaid: no usage row, nothing charged. Does nothing without a hold. Call
   * while no account processes the request. If it rejects, the request must end unsent, with `settle`.
   */
  releaseHold(requestId: string): Promise<void>;
  /**
   * The first byte of the request is about to be written to a connection of this account. Saved within `progressMs`; the
   * caller does not wait.
   */
  recordDispatch(requestId: string, accountId: string, upstreamModel: string): void;
  /** The request is queued again: no account is processing it. */
  recordRequeue(requestId: string): void;
  /** Output tokens so far. The latest count is written about once a second. */
  checkpoint(requestId: string, outputTokens: number): void;
  /**
   * Books usage row, roll-up, entry, wallet or window and the end of the hold in one transaction, once per request.
   * Resolves when durable, or saved until the database is available; null if it is durable already.
   */
  settle(settlement: Settlement): Promise<void> | null;
  /** Like `settle`, for settlements that are saved elsewhere: resolves only when the database has it. */
  book(settlement: Settlement): Promise<void>;
  /** Queues an unpaid row; the caller does not wait. With a journal, the row survives the process from here on. */
  push(row: UsageRow): void;
  /** Resolves when all operations so far are in the database; rejects when the database does not accept them. */
  flush(): Promise<void>;
  /** Resolves when the database alone has the complete balance, holds and usage of this user. */
  flushUser(userId: string): Promise<void>;
  /** The usage row of a finished request that is not in the database yet. */
  findUnbookedRow(requestId: string): UsageRow | null;
  /** False while so many operations wait for the database that more would not fit in memory. */
  hasCapacity(): boolean;
  /** False while the disk fails or is full: no hold is made then. */
  acceptsHolds(): boolean;
  /** False while the database accepts no billing transactions: the node should get no requests. */
  isStoreResponding(): boolean;
  /** The heartbeat that was sent at this time (monotonic) is in the database: no other process takes this one for dead. */
  recordHeartbeat(sentAtMs: number): void;
  /** Another node needs money that this one may have reserved. */
  handleRecalls(): Promise<void>;
  /**
   * The database was replaced by one that may lack the last commits. Forgets what it was known to have, and checks the
   * wallet reservations of this process.
   */
  handleStoreReplaced(): Promise<void>;
  /** Whether a request of this process is in flight, or its settlement is not in the database yet. */
  isOpen(requestId: string): boolean;
  /** Call after `flush`: operations that still wait are lost unless they are on disk. */
  stop(): Promise<void>;
}
