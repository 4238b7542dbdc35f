/**
 * What one transaction of the till does: lock the purses, end what ends, decide what is asked in its order, and
 * write all of it in a few statements, however many requests there are.
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
import { insertFresh, knownUsage, type UsageRow } from "../../store/usage/usage.ts";
import { markLate } from "../../store/usage/usage-day.ts";
import type { Numbering } from "../../store/usage/usage-numbers.ts";
import { replaceUsage } from "../../store/usage/usage-replacement.ts";
import { afterCharge, chargeHold, EMPTY_WALLET, holdFromWallet, isBlocked, overrunBy } from "./debt.ts";
import { isRecovered, type LateFacts, readLateFacts, settleLate } from "./late-settlement.ts";
import type { HoldRequest, HoldResult, Settlement } from "./money-terms.ts";
import {
  leftWithHolds,
  lockSubscriptionBalances,
  moveHeld,
  type SubscriptionBalance,
} from "./subscription-balances.ts";

export type { HoldRequest, HoldResult, Settlement } from "./money-terms.ts";

/** The store contradicts itself. */
export class BookingFault extends Error {
  override readonly name = "BookingFault";
}

export interface Batch {
  holds: readonly HoldRequest[];
  settlements: readonly Settlement[];
  /** Holds that end with nothing to show for them: whoever asked did not wait for the answer. */
  releases: readonly { requestId: string; userId: string }[];
  /** Of requests without a hold. */
  rows: readonly UsageRow[];
  progress: readonly (readonly [requestId: string, HoldProgress])[];
}

/**
 * `known`: booked before, in this very way. `late`: there is no hold, and the payer was charged what is available; a
 * row that a successor had written is replaced. `unpaid`: there is no hold and no payer, so the row has no charge.
 * `lost`: there is no hold, and a row that says otherwise stays.
 */
export type SettlementResult = "booked" | "known" | "late" | "unpaid" | "lost";

export interface BookingResult {
  /** Both in the order of the batch. */
  holds: HoldResult[];
  settlements: SettlementResult[];
  /** The hold's money went back and nothing was charged, because a row was there before. A bug, and to be logged. */
  uncharged: string[];
}

export const usageRows = ({ settlements, rows }: Batch): UsageRow[] => [
  ...settlements.map(({ row }) => row),
  ...rows,
];

export interface BookOptions {
  incarnation: string;
  nowMs: number;
  /** Ask first what is there. Only a batch that is written again meets what it wrote, so the first try does not. */
  careful: boolean;
  /** Tariffs that are in the store. */
  kept: ReadonlySet<string>;
  numbering: Numbering;
}

export async function book(tx: Db, batch: Batch, options: BookOptions): Promise<BookingResult> {
  const desk = await openDesk(tx, batch, options);
  const settlements = batch.settlements.map((settlement) => settle(desk, settlement));
  for (const { requestId } of batch.releases) release(desk, requestId);
  for (const row of batch.rows) {
    if (!desk.known.has(row.requestId) && !desk.rows.has(row.requestId)) desk.rows.set(row.requestId, row);
  }
  const holds = batch.holds.map((asked) => decide(desk, asked, options));
  await write(tx, desk, batch, options);
  return { holds, settlements, uncharged: desk.uncharged };
}

/** All that a batch reads and gathers before it writes. */
interface Desk {
  wallets: Map<string, LockedWallet>;
  changed: Set<string>;
  purses: ReadonlyMap<string, SubscriptionBalance[]>;
  /** What is left of each subscription, holds of this batch taken off. */
  left: Map<string, Nano>;
  moves: { subscriptionId: string; atMs: number; heldNano: Nano; usedNano: Nano }[];
  ended: Map<string, EndedHold>;
  /** Rows that are in the store already, with what they say was charged. */
  known: ReadonlyMap<string, Nano>;
  /** Holds that are in the store already. */
  present: ReadonlyMap<string, Hold>;
  /** What is known of settlements without a hold, and the rows that theirs replace. */
  late: LateFacts;
  replaced: Map<string, { before: UsageRow; row: UsageRow }>;
  rows: Map<string, UsageRow>;
  entries: Transfer[];
  overruns: Overrun[];
  holds: Map<string, Hold>;
  results: Map<string, HoldResult>;
  uncharged: string[];
}

async function openDesk(tx: Db, batch: Batch, { nowMs, careful }: BookOptions): Promise<Desk> {
  const payers = new Set<string>();
  const subscribers = new Set<string>();
  for (const { charge, userId } of batch.holds) (charge === "balance" ? payers : subscribers).add(userId);
  for (const { row } of batch.settlements) {
    if (row.userId !== null && row.payer !== "subscription") payers.add(row.userId);
  }
  for (const { userId } of batch.releases) payers.add(userId);
  // All subscriptions of the batch are locked at once, in one order: two nodes would else wait for each other in turn.
  if (subscribers.size > 0 && tx.engine === "postgres") {
    for (const { row } of batch.settlements) {
      if (row.userId !== null && row.payer === "subscription") subscribers.add(row.userId);
    }
  }
  const wallets = payers.size === 0 ? new Map<string, LockedWallet>() : await lockWallets(tx, [...payers]);
  const purses =
    subscribers.size === 0 ? NO_PURSES : await lockSubscriptionBalances(tx, [...subscribers], nowMs);
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
  // A hold of nothing needs no wallet, but a cost above it does.
  for (const { row, chargedNano } of batch.settlements) {
    const hold = chargedNano > 0n ? ended.get(row.requestId) : undefined;
    if (hold === undefined || hold.subscriptionId !== null || wallets.has(hold.userId)) continue;
    wallets.set(hold.userId, await lockWallet(tx, hold.userId));
  }
  const hasHold = (requestId: string) => ended.has(requestId);
  // Before the rows are read: it locks those that may be replaced.
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
    known: careful ? await knownUsage(tx, [...ending, ...batch.rows.map((row) => row.requestId)]) : NOTHING,
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

const NO_PURSES: ReadonlyMap<string, SubscriptionBalance[]> = new Map();
const NOTHING: ReadonlyMap<string, Nano> = new Map();
const NO_HOLDS: ReadonlyMap<string, Hold> = new Map();

function settle(desk: Desk, { row, chargedNano }: Settlement): SettlementResult {
  // Without a count, the request is part of a counted row, which may have the same id and be in the same batch.
  const [requestId, hasRow] = [row.requestId, row.requestCount > 0];
  const hold = desk.ended.get(requestId);
  const before =
    desk.replaced.get(requestId)?.row.chargedNano ??
    desk.known.get(requestId) ??
    desk.rows.get(requestId)?.chargedNano;
  if (before !== undefined) {
    if (hold === undefined) {
      if (desk.late.recovered.has(requestId) && !desk.replaced.has(requestId))
        return settleLate(desk, { row, chargedNano });
      // A guess that comes after the truth.
      return before === chargedNano || isRecovered(row) ? "known" : "lost";
    }
    giveBack(desk, hold, 0n);
    // Refused because the store took too long to hold its money, which it then did.
    if (before === 0n && chargedNano === 0n) return "known";
    // Otherwise a row and a hold are never there together, and nothing is paid twice.
    desk.uncharged.push(requestId);
    return "lost";
  }
  if (hold === undefined) {
    // Its own process has given the hold back, and knows why.
    if (isRecovered(row)) return "known";
    if (chargedNano > 0n && row.payer !== null) return settleLate(desk, { row, chargedNano });
    if (hasRow) desk.rows.set(requestId, { ...row, chargedNano: 0n, payer: null });
    return "booked";
  }
  const charged = chargeHold(hold, { row, chargedNano });
  const wallet = hold.subscriptionId === null ? (desk.wallets.get(hold.userId) ?? null) : null;
  const overrun = overrunBy(hold, charged.chargedNano, wallet, row.atMs);
  if (overrun !== null) desk.overruns.push(overrun);
  giveBack(desk, hold, charged.chargedNano);
  if (hasRow) desk.rows.set(requestId, charged.row);
  if (charged.chargedNano > 0n) desk.entries.push(computeCharge(charged.row, hold, charged.chargedNano));
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
    // A window's use is the sum of the entries of its time, and a hold counts for the window it was made in.
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

function release(desk: Desk, requestId: string): void {
  const hold = desk.ended.get(requestId);
  if (hold !== undefined) giveBack(desk, hold, 0n);
}

/** Ends the hold for good: a second one in this batch finds nothing. */
function giveBack(desk: Desk, hold: EndedHold, chargedNano: Nano): void {
  desk.ended.delete(hold.requestId);
  if (hold.subscriptionId !== null) {
    const { subscriptionId, atMs } = hold;
    desk.moves.push({ subscriptionId, atMs, heldNano: -hold.amountNano, usedNano: chargedNano });
    return;
  }
  if (hold.amountNano === 0n && chargedNano === 0n) return;
  const wallet = desk.wallets.get(hold.userId);
  if (wallet === undefined) throw new BookingFault(`User ${hold.userId} has a hold and no wallet.`);
  desk.wallets.set(hold.userId, afterCharge(wallet, hold.amountNano, chargedNano));
  desk.changed.add(hold.userId);
}

function decide(desk: Desk, asked: HoldRequest, { incarnation, nowMs }: BookOptions): HoldResult {
  const present = desk.present.get(asked.requestId);
  if (present !== undefined) {
    return { kind: "held", amountNano: present.amountNano, subscriptionId: present.subscriptionId };
  }
  const earlier = desk.results.get(asked.requestId);
  if (earlier !== undefined) return earlier;
  const result = asked.charge === "balance" ? fromWallet(desk, asked) : fromPurse(desk, asked);
  desk.results.set(asked.requestId, result);
  if (result.kind === "held") {
    const payer = desk.purses
      .get(asked.userId)
      ?.find((purse) => purse.subscriptionId === result.subscriptionId);
    desk.holds.set(asked.requestId, buildHold(asked, result, incarnation, payer?.atMs ?? nowMs));
  }
  return result;
}

function fromWallet(desk: Desk, asked: HoldRequest): HoldResult {
  const wallet = desk.wallets.get(asked.userId);
  const result = holdFromWallet(wallet ?? EMPTY_WALLET, asked);
  if (wallet !== undefined && result.kind === "held" && result.amountNano > 0n) {
    desk.wallets.set(asked.userId, { ...wallet, heldNano: wallet.heldNano + result.amountNano });
    desk.changed.add(asked.userId);
  }
  return result;
}

/**
 * The first in paying order that can afford all of it; where none can, the first that can hold the upper estimate of
 * uncountable inputs; and where only holds keep one from that, none. Else the first that has enough for the least.
 */
function fromPurse(desk: Desk, asked: HoldRequest): HoldResult {
  const { userId, plans, wantedNano, leastNano, firmNano = leastNano } = asked;
  const purses = (desk.purses.get(userId) ?? []).filter(
    ({ planName }) => plans === null || plans.includes(planName),
  );
  const leftOf = (purse: SubscriptionBalance) => desk.left.get(purse.subscriptionId) ?? purse.leftNano;
  const sure =
    purses.find((purse) => leftOf(purse) >= wantedNano) ?? purses.find((purse) => leftOf(purse) >= firmNano);
  const blocked =
    sure === undefined
      ? purses.find((purse) => isBlocked(asked, leftOf(purse), leftWithHolds(purse)))
      : undefined;
  if (blocked !== undefined) {
    return { kind: "blocked", availableNano: leftOf(blocked), neededNano: firmNano };
  }
  const payer = sure ?? purses.find((purse) => leftOf(purse) >= leastNano);
  if (payer !== undefined) {
    const { subscriptionId, atMs } = payer;
    const leftNano = leftOf(payer);
    const amountNano = wantedNano < leftNano ? wantedNano : leftNano;
    desk.left.set(subscriptionId, leftNano - amountNano);
    desk.moves.push({ subscriptionId, atMs, heldNano: amountNano, usedNano: 0n });
    return { kind: "held", amountNano, subscriptionId };
  }
  let bestNano = 0n;
  let resetsAtMs: number | null = null;
  for (const purse of purses) {
    const leftNano = leftOf(purse);
    if (leftNano > bestNano) bestNano = leftNano;
    if (purse.resetsAtMs !== null && (resetsAtMs === null || purse.resetsAtMs < resetsAtMs)) {
      resetsAtMs = purse.resetsAtMs;
    }
  }
  return { kind: "short", availableNano: bestNano, resetsAtMs };
}

export function buildHold(
  asked: HoldRequest,
  { amountNano, subscriptionId }: { amountNano: Nano; subscriptionId: string | null },
  incarnation: string,
  atMs: number,
): Hold {
  return {
    requestId: asked.requestId,
    incarnation,
    state: "admitted",
    atMs,
    userId: asked.userId,
    subscriptionId,
    amountNano,
    tariffId: asked.tariff.id,
    keyId: asked.keyId,
    groupId: asked.groupId,
    accountId: null,
    interface: asked.interface,
    endpoint: asked.endpoint,
    publicModel: asked.publicModel,
    upstreamModel: null,
    stream: asked.stream,
    inputTokens: heldTokens(asked),
    outputTokens: 0,
  };
}

/** An estimate may be anything; the store takes whole numbers. */
export function heldTokens({ inputTokens }: HoldRequest): number {
  return Math.max(0, Math.round(inputTokens));
}

async function write(tx: Db, desk: Desk, batch: Batch, options: BookOptions): Promise<void> {
  const { kept, nowMs, numbering } = options;
  if (desk.changed.size > 0) {
    const wallets = [...desk.wallets].filter(([userId]) => desk.changed.has(userId));
    await writeWallets(tx, wallets);
  }
  if (desk.moves.length > 0) await moveHeld(tx, desk.moves);
  if (desk.holds.size > 0) {
    const tariffs = new Map<string, Tariff>();
    for (const { requestId, tariff } of batch.holds) {
      if (desk.holds.has(requestId) && !kept.has(tariff.id)) tariffs.set(tariff.id, tariff);
    }
    if (tariffs.size > 0) await keepTariffs(tx, [...tariffs.values()]);
    await insertHolds(tx, [...desk.holds.values()]);
  }
  if (batch.progress.length > 0) await writeProgress(tx, batch.progress);
  if (desk.rows.size > 0) {
    const rows = [...desk.rows.values()];
    await insertFresh(tx, numbering, rows);
    await markLate(tx, rows, nowMs);
  }
  if (desk.replaced.size > 0) await replaceUsage(tx, numbering, [...desk.replaced.values()]);
  if (desk.entries.length > 0) await insertEntries(tx, desk.entries);
  if (desk.overruns.length > 0) await insertOverruns(tx, desk.overruns);
}
