/** The deadlines and bounds of a coordinator of limits. Their values are in config/limits/node-limits.ts. */

import type { DeclareCall, ExchangeCall } from "./protocol.ts";

export interface CoordinatorLimits {
  /** How long a term lives after its last call. Longer than nodes use what they hold without a reply. */
  readonly termMs: number;
  /** How long use that no process has declared may count in a new epoch: a minute, and the life of a term. */
  readonly unknownUseMs: number;
  /** How long an ended term is remembered, so that a late duplicate of a call finds that it has ended. */
  readonly endedTermMs: number;
  /** How many idle windows are deleted in one statement. */
  readonly windowsPerSweepMax: number;
  /** How long a request waits for a slot, and for other meters, without asking again. */
  readonly slotWaitMs: number;
  readonly recallWaitMs: number;
  /** Requests that wait for one record. Further ones ask again later. */
  readonly waitingMax: number;
  /** How long a record in Redis with use exists without a call: longer than its clock may be set forward. */
  readonly usedRecordMs: number;
  /** How long a record in Redis with lent amounts exists without a call: longer than any request. */
  readonly heldRecordMs: number;
  /** What one call may contain. A server holds the locks of all its records meanwhile. */
  readonly recordsMax: number;
  readonly itemsMax: number;
  readonly refundsMax: number;
  readonly asksMax: number;
  /** Of each ask. */
  readonly wantsMax: number;
  readonly holdingsMax: number;
  /** Of each holding. */
  readonly usesMax: number;
}

/** Throws for a call that a node must not send. */
export function checkExchange({ records, items, asks }: ExchangeCall, limits: CoordinatorLimits): void {
  check("records", records.length, limits.recordsMax);
  check("items", items.length, limits.itemsMax);
  let refunds = 0;
  for (const item of items) refunds += item.refunds.length;
  check("refunds", refunds, limits.refundsMax);
  check("asks", asks.length, limits.asksMax);
  for (const { wants } of asks) check("wants", wants.length, limits.wantsMax);
}

/** Throws for a call that a node must not send. */
export function checkDeclaration({ records, holdings }: DeclareCall, limits: CoordinatorLimits): void {
  check("records", records.length, limits.recordsMax);
  check("holdings", holdings.length, limits.holdingsMax);
  for (const { usedAgo } of holdings) check("uses", usedAgo.length, limits.usesMax);
}

function check(what: string, count: number, max: number): void {
  if (count > max) throw new RangeError(`A call to the coordinator has ${count} ${what}, more than ${max}.`);
}
