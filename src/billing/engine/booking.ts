/**
 * One billing transaction: locks wallets and subscription balances, ends holds, decides new holds in order, and
 * writes everything in a fixed number of statements, independent of the number of requests.
 */

import type { Nano } from "../../money/nano.ts";
import type { Tariff } from "../../money/tariff.ts";
import type { Db } from "../../store/engine/db.ts";
import {
  type EndedHold,
  endHolds,
  findHolds,
  type Hold,
  type HoldProgress,
  insertHolds,
  writeProgress,
} from "../../store/money/holds.ts";
import {
  insertEntries,
  REVENUE,
  subscriptionBook,
  type Transfer,
  userBook,
} from "../../store/money/ledger.ts";
import { insertOverruns, type Overrun } from "../../store/money/overruns.ts";
import { keepTariffs } from "../../store/money/tariffs.ts";
import { type LockedWallet, lockWallet, lockWallets, writeWallets } from "../../store/money/wallets.ts";
import { insertNewUsage, knownUsage, type UsageRow } from "../../store/usage/usage.ts";
import { markLate } from "../../store/usage/usage-day.ts";
import type { Numbering } from "../../store/usage/usage-numbers.ts";
import { replaceUsage } from "../../store/usage/usage-replacement.ts";
import { afterCharge, chargeHold, EMPTY_WALLET, holdFromWallet, isBlocked, overrunBy } from "./debt.ts";
import { isRecovered, type LateFacts, readLateFacts, settleLate } from "./late-settlement.ts";
import type { HoldRequest, HoldResult, Settlement } from "./money-terms.ts";
import {
  lockSubscriptionBalances,
  moveHeld,
  remainingWithHolds,
  type SubscriptionBalance,
} from "./subscription-balances.ts";

export type { HoldRequest, HoldResult, Settlement } from "./money-terms.ts";

/** The database contradicts itself, for example a hold without a wallet. */
export class BookingFault extends Error {
  override readonly name = "BookingFault";
}

export interface Batch {
  holds: readonly HoldRequest[];
  settlements: readonly Settlement[];
  /** Holds that end without a charge or a usage row: their request stopped waiting for the result. */
  releases: readonly { requestId: string; userId: string }[];
  /** Usage rows of requests without a hold. */
  rows: readonly UsageRow[];
  progress: readonly (readonly [requestId: string, HoldProgress])[];
}

/**
 * - `known`: the same settlement was booked before.
 * - `late`: the hold is gone. The payer was charged what is available, and a row that recovery wrote is replaced.
 * - `unpaid`: there is neither a hold nor a payer, so the row has no charge.
 * - `lost`: the hold is gone, and a different usage row already exists and stays.
 */
export type SettlementResult = "booked" | "known" | "late" | "unpaid" | "lost";

export interface BookingResult {
  holds: HoldResult[];
  settlements: SettlementResult[];
  /** Released without a charge because a usage row already existed. This is a bug and is logged. */
  uncharged: string[];
}

export const usageRows = ({ settlements, rows }: Batch): UsageRow[] => [
  ...settlements.map(({ row }) => row),
  ...rows,
];

export interface BookOptions {
  incarnation: string;
  nowMs: number;
  /** Reads existing rows first. Only a repeated batch can meet its own rows, so the first try skips this. */
  careful: boolean;
  /** Ids of tariffs that are already stored. */
  kept: ReadonlySet<string>;
  numbering: Numbering;
}

export async function book(tx: Db, batch: Batch, options: BookOptions): Promise<BookingResult> {
  const state = await readBatchState(tx, batch, options);
  const settlements = batch.settlements.map((settlement) => settle(state, settlement));
  for (const { requestId } of batch.releases) release(state, requestId);
  for (const row of batch.rows) {
    if (!state.known.has(row.requestId) && !state.rows.has(row.requestId)) state.rows.set(row.requestId, row);
  }
  const holds = batch.holds.map((request) => decide(state, request, options));
  await write(tx, state, batch, options);
  return { holds, settlements, uncharged: state.uncharged };
}

/** Everything a batch reads and collects before it writes. */
interface BatchState {
  wallets: Map<string, LockedWallet>;
  changed: Set<string>;
  purses: ReadonlyMap<string, SubscriptionBalance[]>;
  /** What each subscription has left after the holds of this batch. */
  left: Map<string, Nano>;
  moves: { subscriptionId: string; atMs: number; heldNano: Nano; usedNano: Nano }[];
  ended: Map<string, EndedHold>;
  /** Usage rows that are already stored, with their charge, and holds that are already stored. */
  known: ReadonlyMap<string, Nano>;
  present: ReadonlyMap<string, Hold>;
  /** Facts about settlements without a hold, and the rows that these settlements replace. */
  late: LateFacts;
  replaced: Map<string, { before: UsageRow; row: UsageRow }>;
  rows: Map<string, UsageRow>;
  entries: Transfer[];
  overruns: Overrun[];
  holds: Map<string, Hold>;
  results: Map<string, HoldResult>;
  uncharged: string[];
}

async function readBatchState(tx: Db, batch: Batch, { nowMs, careful }: BookOptions): Promise<BatchState> {
  const payers = new Set<string>();
  const subscribers = new Set<string>();
  for (const { charge, userId } of batch.holds) (charge === "balance" ? payers : subscribers).add(userId);
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
  const purses =
    subscribers.size === 0 ? NO_BALANCES : await lockSubscriptionBalances(tx, [...subscribers], nowMs);
  const ending = [
    ...batch.settlements.map(({ row }) => row.requestId),
    ...batch.releases.map(({ requestId }) => requestId),
  ];
  const ended = await endHolds(tx, ending);
  const unlocked = new Set<string>();
  for (const { userId, subscriptionId } of ended.values()) {
    if (subscriptionId === null && !wallets.has(userId)) unlocked.add(userId);
  }
  if (unlocked.size > 0) {
    for (const [userId, wallet] of await lockWallets(tx, [...unlocked])) wallets.set(userId, wallet);
  }
  // A hold of zero needs no wallet, but a cost above it does.
  for (const { row, chargedNano } of batch.settlements) {
    const hold = chargedNano > 0n ? ended.get(row.requestId) : undefined;
    if (hold === undefined || hold.subscriptionId !== null || wallets.has(hold.userId)) continue;
    wallets.set(hold.userId, await lockWallet(tx, hold.userId));
  }
  const hasHold = (requestId: string) => ended.has(requestId);
  // Must run before the usage rows are read: it locks the rows that may be replaced.
  const late = await readLateFacts(tx, batch.settlements, { hasHold, careful, nowMs });
  return {
    wallets,
    changed: new Set(),
    late,
    replaced: new Map(),
    purses,
    left: new Map(),
    moves: [],
    ended,
    known: careful ? await knownUsage(tx, [...ending, ...batch.rows.map((row) => row.requestId)]) : NO_USAGE,
    present: careful
      ? await findHolds(
          tx,
          batch.holds.map(({ requestId }) => requestId),
        )
      : NO_HOLDS,
    rows: new Map(),
    entries: [],
    overruns: [],
    holds: new Map(),
    results: new Map(),
    uncharged: [],
  };
}

const NO_BALANCES: ReadonlyMap<string, SubscriptionBalance[]> = new Map();
const NO_USAGE: ReadonlyMap<string, Nano> = new Map();
const NO_HOLDS: ReadonlyMap<string, Hold> = new Map();

function settle(state: BatchState, { row, chargedNano }: Settlement): SettlementResult {
  // A count of 0 marks a part of a counted row, which may have the same id and be in the same batch.
  const [requestId, hasRow] = [row.requestId, row.requestCount > 0];
  const hold = state.ended.get(requestId);
  const before =
    state.replaced.get(requestId)?.row.chargedNano ??
    state.known.get(requestId) ??
    state.rows.get(requestId)?.chargedNano;
  if (before !== undefined) {
    if (hold === undefined) {
      if (state.late.recovered.has(requestId) && !state.replaced.has(requestId))
        return settleLate(state, { row, chargedNano });
      // A recovered row is an estimate. It must not replace the real one.
      return before === chargedNano || isRecovered(row) ? "known" : "lost";
    }
    endHold(state, hold, 0n);
    // The request was refused because its hold took too long, but the hold was written afterwards.
    if (before === 0n && chargedNano === 0n) return "known";
    // In every other case a row and a hold never exist together. Nothing is charged twice.
    state.uncharged.push(requestId);
    return "lost";
  }
  if (hold === undefined) {
    // The request's own process has released the hold and records the real outcome.
    if (isRecovered(row)) return "known";
    if (chargedNano > 0n && row.payer !== null) return settleLate(state, { row, chargedNano });
    if (hasRow) state.rows.set(requestId, { ...row, chargedNano: 0n, payer: null });
    return "booked";
  }
  const charged = chargeHold(hold, { row, chargedNano });
  const wallet = hold.subscriptionId === null ? (state.wallets.get(hold.userId) ?? null) : null;
  const overrun = overrunBy(hold, charged.chargedNano, wallet, row.atMs);
  if (overrun !== null) state.overruns.push(overrun);
  endHold(state, hold, charged.chargedNano);
  if (hasRow) state.rows.set(requestId, charged.row);
  if (charged.chargedNano > 0n) state.entries.push(computeCharge(charged.row, hold, charged.chargedNano));
  return "booked";
}

export function computeCharge(
  row: Pick<UsageRow, "requestId" | "atMs">,
  hold: Pick<EndedHold, "userId" | "subscriptionId" | "atMs">,
  amountNano: Nano,
): Transfer {
  const { subscriptionId } = hold;
  return {
    id: `charge:${row.requestId}`,
    // The use of a window is the sum of the entries in its time, and a hold counts for the window it was made in.
    atMs: subscriptionId === null ? Math.round(row.atMs) : hold.atMs,
    kind: "charge",
    debit: subscriptionId === null ? userBook(hold.userId) : subscriptionBook(subscriptionId),
    credit: REVENUE,
    amountNano,
    userId: hold.userId,
    subscriptionId,
    requestId: row.requestId,
    actor: "system",
    reason: null,
  };
}

function release(state: BatchState, requestId: string): void {
  const hold = state.ended.get(requestId);
  if (hold !== undefined) endHold(state, hold, 0n);
}

/** Ends the hold: a second settlement of the same request in this batch finds none. */
function endHold(state: BatchState, hold: EndedHold, chargedNano: Nano): void {
  state.ended.delete(hold.requestId);
  if (hold.subscriptionId !== null) {
    const { subscriptionId, atMs } = hold;
    state.moves.push({ subscriptionId, atMs, heldNano: -hold.amountNano, usedNano: chargedNano });
    return;
  }
  if (hold.amountNano === 0n && chargedNano === 0n) return;
  const wallet = state.wallets.get(hold.userId);
  if (wallet === undefined) throw new BookingFault(`User ${hold.userId} has a hold and no wallet.`);
  state.wallets.set(hold.userId, afterCharge(wallet, hold.amountNano, chargedNano));
  state.changed.add(hold.userId);
}

function decide(state: BatchState, request: HoldRequest, { incarnation, nowMs }: BookOptions): HoldResult {
  const present = state.present.get(request.requestId);
  if (present !== undefined) {
    return { kind: "held", amountNano: present.amountNano, subscriptionId: present.subscriptionId };
  }
  const earlier = state.results.get(request.requestId);
  if (earlier !== undefined) return earlier;
  const result =
    request.charge === "balance" ? holdFromBalance(state, request) : holdFromSubscription(state, request);
  state.results.set(request.requestId, result);
  if (result.kind === "held") {
    const payer = state.purses
      .get(request.userId)
      ?.find((balance) => balance.subscriptionId === result.subscriptionId);
    state.holds.set(request.requestId, buildHold(request, result, incarnation, payer?.atMs ?? nowMs));
  }
  return result;
}

function holdFromBalance(state: BatchState, request: HoldRequest): HoldResult {
  const wallet = state.wallets.get(request.userId);
  const result = holdFromWallet(wallet ?? EMPTY_WALLET, request);
  if (wallet !== undefined && result.kind === "held" && result.amountNano > 0n) {
    state.wallets.set(request.userId, { ...wallet, heldNano: wallet.heldNano + result.amountNano });
    state.changed.add(request.userId);
  }
  return result;
}

/**
 * Holds from the first subscription, in paying order, that covers the whole amount, else the upper estimate of
 * uncountable inputs. `blocked` if only holds prevent that. Otherwise the first that covers the minimum pays.
 */
function holdFromSubscription(state: BatchState, request: HoldRequest): HoldResult {
  const { userId, plans, wantedNano, leastNano, firmNano = leastNano } = request;
  const balances = (state.purses.get(userId) ?? []).filter(
    ({ planName }) => plans === null || plans.includes(planName),
  );
  const rest = (balance: SubscriptionBalance) => state.left.get(balance.subscriptionId) ?? balance.leftNano;
  const covering =
    balances.find((balance) => rest(balance) >= wantedNano) ??
    balances.find((balance) => rest(balance) >= firmNano);
  const blocked =
    covering === undefined
      ? balances.find((balance) => isBlocked(request, rest(balance), remainingWithHolds(balance)))
      : undefined;
  if (blocked !== undefined) {
    return { kind: "blocked", availableNano: rest(blocked), neededNano: firmNano };
  }
  const payer = covering ?? balances.find((balance) => rest(balance) >= leastNano);
  if (payer !== undefined) {
    const { subscriptionId, atMs } = payer;
    const leftNano = rest(payer);
    const amountNano = wantedNano < leftNano ? wantedNano : leftNano;
    state.left.set(subscriptionId, leftNano - amountNano);
    state.moves.push({ subscriptionId, atMs, heldNano: amountNano, usedNano: 0n });
    return { kind: "held", amountNano, subscriptionId };
  }
  let bestNano = 0n;
  let resetsAtMs: number | null = null;
  for (const balance of balances) {
    const leftNano = rest(balance);
    if (leftNano > bestNano) bestNano = leftNano;
    if (balance.resetsAtMs !== null && (resetsAtMs === null || balance.resetsAtMs < resetsAtMs)) {
      resetsAtMs = balance.resetsAtMs;
    }
  }
  return { kind: "short", availableNano: bestNano, resetsAtMs };
}

export function buildHold(
  request: HoldRequest,
  { amountNano, subscriptionId }: { amountNano: Nano; subscriptionId: string | null },
  incarnation: string,
  atMs: number,
): Hold {
  return {
    requestId: request.requestId,
    incarnation,
    state: "admitted",
    atMs,
    userId: request.userId,
    subscriptionId,
    amountNano,
    tariffId: request.tariff.id,
    keyId: request.keyId,
    groupId: request.groupId,
    accountId: null,
    interface: request.interface,
    endpoint: request.endpoint,
    publicModel: request.publicModel,
    upstreamModel: null,
    stream: request.stream,
    inputTokens: heldTokens(request),
    outputTokens: 0,
  };
}

/** An estimate may be fractional or negative. The database stores whole numbers. */
export function heldTokens({ inputTokens }: HoldRequest): number {
  return Math.max(0, Math.round(inputTokens));
}

async function write(tx: Db, state: BatchState, batch: Batch, options: BookOptions): Promise<void> {
  const { kept, nowMs, numbering } = options;
  if (state.changed.size > 0) {
    const wallets = [...state.wallets].filter(([userId]) => state.changed.has(userId));
    await writeWallets(tx, wallets);
  }
  if (state.moves.length > 0) await moveHeld(tx, state.moves);
  if (state.holds.size > 0) {
    const tariffs = new Map<string, Tariff>();
    for (const { requestId, tariff } of batch.holds) {
      if (state.holds.has(requestId) && !kept.has(tariff.id)) tariffs.set(tariff.id, tariff);
    }
    if (tariffs.size > 0) await keepTariffs(tx, [...tariffs.values()]);
    await insertHolds(tx, [...state.holds.values()]);
  }
  if (batch.progress.length > 0) await writeProgress(tx, batch.progress);
  if (state.rows.size > 0) {
    const rows = [...state.rows.values()];
    await insertNewUsage(tx, numbering, rows);
    await markLate(tx, rows, nowMs);
  }
  if (state.replaced.size > 0) await replaceUsage(tx, numbering, [...state.replaced.values()]);
  if (state.entries.length > 0) await insertEntries(tx, state.entries);
  if (state.overruns.length > 0) await insertOverruns(tx, state.overruns);
}
