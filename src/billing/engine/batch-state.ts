/** The input of one billing transaction, and everything that it reads and locks before it decides. */

import type { Nano } from "../../money/nano.ts";
import type { Db } from "../../store/engine/db.ts";
import {
  type EndedHold,
  endHolds,
  findHolds,
  type Hold,
  type HoldProgress,
  lockHolds,
} from "../../store/money/holds.ts";
import type { Overrun } from "../../store/money/overruns.ts";
import { type LockedWallet, lockWallet, lockWallets } from "../../store/money/wallets.ts";
import { readStoredCharges, type UsageRow } from "../../store/usage/usage.ts";
import type { Numbering } from "../../store/usage/usage-numbers.ts";
import type { HoldRequest, HoldResult, Settlement } from "./billing-types.ts";
import { type LateSettlementState, readLateFacts } from "./late-settlement.ts";
import { lockSubscriptionBalances, type SubscriptionBalance } from "./subscription-balances.ts";

/** A hold to be made. A replacement ends the hold that the request has, in the same transaction. */
export interface HoldOrder {
  readonly kind: "new" | "replacement";
  readonly request: HoldRequest;
}

export interface Batch {
  holds: readonly HoldOrder[];
  settlements: readonly Settlement[];
  /** Holds that end without a charge or a usage row: their request stopped waiting for the result. */
  releases: readonly { requestId: string; userId: string }[];
  /** Usage rows of requests without a hold. */
  rows: readonly UsageRow[];
  progress: readonly (readonly [requestId: string, HoldProgress])[];
}

export const usageRows = ({ settlements, rows }: Batch): UsageRow[] => [
  ...settlements.map(({ row }) => row),
  ...rows,
];

/** `lost`: the hold to replace is gone. Another process took this one for dead and has settled the request. */
export type HoldDecision = HoldResult | { kind: "lost" };

export interface BookOptions {
  processId: string;
  nowMs: number;
  /** Reads existing rows first. Only a repeated batch can meet its own rows, so the first try skips this. */
  checkExisting: boolean;
  /** Ids of tariffs that are already stored. */
  storedTariffs: { has(tariffId: string): boolean };
  numbering: Numbering;
  /** Whether the caller has stopped waiting for this transaction, and may have repeated it. */
  isAbandoned(): boolean;
}

/** Everything a batch reads and collects before it writes. */
export interface BatchState extends LateSettlementState {
  /** Their windows include the holds that this batch has ended and made. */
  subscriptionBalances: ReadonlyMap<string, SubscriptionBalance[]>;
  endedHolds: Map<string, EndedHold>;
  /** Usage rows that are already stored, with their charge, and holds that are already stored. */
  storedCharges: ReadonlyMap<string, Nano>;
  storedHolds: ReadonlyMap<string, Hold>;
  /** The holds that may be replaced, locked; and those that are. */
  replaceableHolds: ReadonlyMap<string, Hold>;
  replacedHoldIds: string[];
  overruns: Overrun[];
  holds: Map<string, Hold>;
  holdResults: Map<string, HoldDecision>;
  unchargedRequestIds: string[];
}

export async function readBatchState(
  tx: Db,
  batch: Batch,
  { nowMs, checkExisting }: BookOptions,
): Promise<BatchState> {
  const payers = new Set<string>();
  const subscribers = new Set<string>();
  for (const { kind, request } of batch.holds) {
    // The payer of a hold that is replaced is not known yet.
    if (request.charge === "balance" || kind === "replacement") payers.add(request.userId);
    if (request.charge === "subscription" || kind === "replacement") subscribers.add(request.userId);
  }
  for (const { row } of batch.settlements) {
    if (row.userId !== null && row.payer !== "subscription") payers.add(row.userId);
  }
  for (const { userId } of batch.releases) payers.add(userId);
  // Locks all subscriptions of the batch at once and in one order. Otherwise two nodes could deadlock.
  if (subscribers.size > 0 && tx.engine === "postgres") {
    for (const { row } of batch.settlements) {
      if (row.userId !== null && row.payer === "subscription") subscribers.add(row.userId);
    }
  }
  const wallets = payers.size === 0 ? new Map<string, LockedWallet>() : await lockWallets(tx, [...payers]);
  const subscriptionBalances =
    subscribers.size === 0 ? NO_BALANCES : await lockSubscriptionBalances(tx, [...subscribers], nowMs);
  const endingRequestIds = [
    ...batch.settlements.map(({ row }) => row.requestId),
    ...batch.releases.map(({ requestId }) => requestId),
  ];
  const endedHolds = await endHolds(tx, endingRequestIds);
  const usersToLock = new Set<string>();
  for (const { userId, subscriptionId } of endedHolds.values()) {
    if (subscriptionId === null && !wallets.has(userId)) usersToLock.add(userId);
  }
  if (usersToLock.size > 0) {
    for (const [userId, wallet] of await lockWallets(tx, [...usersToLock])) wallets.set(userId, wallet);
  }
  // A hold of zero needs no wallet, but a cost above it does.
  for (const { row, chargedNano } of batch.settlements) {
    const hold = chargedNano > 0n ? endedHolds.get(row.requestId) : undefined;
    if (hold === undefined || hold.subscriptionId !== null || wallets.has(hold.userId)) continue;
    wallets.set(hold.userId, await lockWallet(tx, hold.userId));
  }
  const replaceableHolds = await lockHolds(tx, listRequestIds(batch, "replacement"));
  const hasHold = (requestId: string) => endedHolds.has(requestId);
  // Must run before the usage rows are read: it locks the rows that may be replaced.
  const lateFacts = await readLateFacts(tx, batch.settlements, { hasHold, careful: checkExisting, nowMs });
  return {
    wallets,
    changedWallets: new Set(),
    lateFacts,
    replacedRows: new Map(),
    subscriptionBalances,
    windowChanges: [],
    endedHolds,
    storedCharges: checkExisting
      ? await readStoredCharges(tx, [...endingRequestIds, ...batch.rows.map((row) => row.requestId)])
      : NO_USAGE,
    storedHolds: checkExisting ? await findHolds(tx, listRequestIds(batch, "new")) : NO_HOLDS,
    replaceableHolds,
    replacedHoldIds: [],
    rows: new Map(),
    entries: [],
    overruns: [],
    holds: new Map(),
    holdResults: new Map(),
    unchargedRequestIds: [],
  };
}

const listRequestIds = ({ holds }: Batch, wanted: HoldOrder["kind"]): string[] =>
  holds.flatMap(({ kind, request }) => (kind === wanted ? request.requestId : []));

const NO_BALANCES: ReadonlyMap<string, SubscriptionBalance[]> = new Map();
const NO_USAGE: ReadonlyMap<string, Nano> = new Map();
const NO_HOLDS: ReadonlyMap<string, Hold> = new Map();
