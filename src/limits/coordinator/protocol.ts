/**
 * The protocol between a node and the coordinator of limits. The coordinator records, for each meter with traffic, what
 * was used and what is lent to which term. A node borrows, uses in memory, reports and returns. The coordinator lends
 * only while used + lent stays within the limit.
 */

import type { Scope } from "../limiter-types.ts";

/**
 * Which limits a record has.
 * `rates`: concurrency and the limits of a minute. May be lost; nodes then declare what they hold.
 * `window`: the limits of one long window. Always in PostgreSQL.
 */
export type RecordKind = "rates" | "window";

/**
 * The position of a meter in a record: slots, requests and tokens in one of rates; requests, tokens and nano-USD in one
 * of a window. Amounts are whole numbers.
 */
export type MeterNo = 0 | 1 | 2;
export const METER_NOS: readonly MeterNo[] = [0, 1, 2];
/** `slots` in a record of rates: lent while in use, never booked as used. */
export const SLOTS: MeterNo = 0;

/** Identifies one record of the coordinator. `perMs` is null for the rates of a subject. */
export interface RecordId {
  readonly scope: Scope;
  readonly id: string;
  readonly perMs: number | null;
}

/** A record that a call is about, with the limits that the node knows. */
export interface RecordRef extends RecordId {
  /** The policy that the limits are from. Of all calls, the limits of the highest revision are in force. */
  readonly revision: number;
  /** By meter; null: no limit. */
  readonly limits: readonly [number | null, number | null, number | null];
}

/** A report about one meter. The amounts are since the last call that was answered. */
export interface MeterReport {
  /** Position in the records of the call. */
  readonly record: number;
  readonly meter: MeterNo;
  /** Moves from lent to used, in the bucket of now. May exceed what is lent: the rest is debt. Always 0 for slots. */
  readonly used: number;
  /** Of earlier bookings of this term, by the bucket number that the reply to the booking had. Minutes only. */
  readonly refunds: readonly (readonly [bucketNo: number, amount: number])[];
  /** Lent and not used. */
  readonly returned: number;
  /** The newest recall that this report responds to: everything idle is in `returned`. 0: none. */
  readonly confirms: number;
}

export interface MeterWant {
  /** Position in the records of the call. */
  readonly record: number;
  readonly meter: MeterNo;
  /** With less than this, nothing is lent. */
  readonly least: number;
  /** What the request can use. Granted before the node's slice is computed. */
  readonly need: number;
  /** `need`, and what later requests are expected to use. */
  readonly most: number;
}

/**
 * All wants or none.
 * `wait`: what is lacking is recalled from other nodes, and the asker is informed by a note.
 * `final`: after a recall. Waits for slots only; minutes and windows are granted from `least` on or refused.
 * `refill`: for later requests. Never waits, and never takes a slot that others wait for.
 */
export interface MeterAsk {
  readonly mode: "wait" | "final" | "refill";
  /** The API key of the request: waiting requests are served in turns of keys. Empty for a refill. */
  readonly key: string;
  readonly wants: readonly MeterWant[];
}

export type AskResult =
  | { readonly kind: "granted" }
  /** `lacks`: position of the want that could not be served. */
  | { readonly kind: "waiting"; readonly lacks: number }
  /** `freesInMs`: when enough of the use expires; null if only a return, or a higher limit, helps. */
  | { readonly kind: "refused"; readonly lacks: number; readonly freesInMs: number | null }
  /** The coordinator has lost its state and lends nothing until all processes have declared. */
  | { readonly kind: "closed" }
  /** The call had been applied before: whether it was granted shows in the states. */
  | { readonly kind: "repeated" };

export interface MeterState {
  /** To the term of the call. */
  readonly lent: number;
  /** Negative after a limit was lowered, and with debt. Number.MAX_SAFE_INTEGER without a limit. */
  readonly free: number;
  readonly used: number;
  /** Until nothing that is used now counts any more; 0 if nothing is used. */
  readonly resetMs: number;
  /** Requests of other terms wait for this meter. */
  readonly hasOthersWaiting: boolean;
}

/** All numbers are absolute. */
export interface RecordState {
  /** Where use of this call was booked: for refunds. */
  readonly bucketNo: number;
  readonly meters: readonly [MeterState, MeterState, MeterState];
}

/**
 * Bounds of the coordinator's time when the call is sent, from earlier replies: `nowMs` of a reply was read between
 * sending and receiving, and clocks of computers run at the same speed, up to 0.05 %.
 */
export interface ClockBounds {
  readonly lo: number;
  readonly hi: number;
  /** The last reply has proven that the server's clock is ahead of the bounds by this much; null if it has not. */
  readonly aheadMs: number | null;
}

export interface ExchangeCall extends ClockBounds {
  readonly term: string;
  /** One more than that of the call before, which has been answered; a repeat has the same number and content. */
  readonly seq: number;
  /** Distinct. */
  readonly records: readonly RecordRef[];
  readonly items: readonly MeterReport[];
  readonly asks: readonly MeterAsk[];
}

export type ExchangeReply =
  | {
      readonly kind: "ok";
      /** By the server's clock, which may be wrong. */
      readonly nowMs: number;
      /** False while the coordinator waits for declarations: it lends nothing. */
      readonly isOpen: boolean;
      /** As the records of the call. */
      readonly states: readonly RecordState[];
      /** As the asks of the call. */
      readonly results: readonly AskResult[];
    }
  /** The term has ended, or was silent for too long. Nothing was applied. Open a term that replaces it, and declare. */
  | { readonly kind: "gone" }
  /** The term has not declared, or the coordinator has lost its state. Nothing was applied. */
  | { readonly kind: "declare" };

/** What a process knows about the coordinator's time when it opens a term. */
export interface OpeningBounds extends ClockBounds {
  /** The epoch of the replies that gave the bounds. In another epoch they mean nothing. */
  readonly epoch: string;
}

/** A term is one continuous contact of a process with the coordinator. */
export interface OpenTermCall {
  /** Never used before. A repeat with the same id changes nothing. */
  readonly term: string;
  readonly process: string;
  /**
   * The data folder. Its lock proves that earlier processes of the folder have ended, and their usage is stored before
   * this call: so their terms end. Pass the id of the process if the folder is not known.
   */
  readonly folder: string;
  /** Null: the process has just started. */
  readonly bounds: OpeningBounds | null;
}

export interface OpenTermReply {
  readonly nowMs: number;
  /**
   * Null: `nowMs` is certain. Otherwise the server's clock may have been set, and no other process has corrected that
   * yet: the time is at least this, which the last call of another process had.
   */
  readonly beat: number | null;
  /** A process has ended within a minute: if the coordinator loses its state, the use of that process is unknown. */
  readonly hasUnknownUse: boolean;
  /**
   * Another than before: the coordinator has lost its state. Declare everything that is held, idle amounts as well, and
   * the own use of the last minute. The same as before: declare slots and windows in use; idle amounts are void, and
   * minutes are booked.
   */
  readonly epoch: string;
}

export interface MeterHolding {
  /** Position in the records of the call. */
  readonly record: number;
  readonly meter: MeterNo;
  readonly lent: number;
  /** Only of minutes, only in a new epoch: own use that the coordinator no longer knows. */
  readonly usedAgo: readonly (readonly [agoMs: number, amount: number])[];
}

/** Sent in batches. A term without holdings sends one empty batch with `last`. */
export interface DeclareCall extends ClockBounds {
  readonly term: string;
  /** The first batch has 1, and the first exchange follows the last batch. */
  readonly seq: number;
  readonly records: readonly RecordRef[];
  readonly holdings: readonly MeterHolding[];
  /** Set in the last batch. */
  readonly last: LastDeclaration | null;
}

export interface LastDeclaration {
  /** The term that the process had before; null at its start. All its other terms end with this batch. */
  readonly replaces: string | null;
  /** The process has used limits in an earlier epoch, so it knows which processes have ended since. */
  readonly isSurvivor: boolean;
}

export type DeclareReply =
  | { readonly kind: "ok"; readonly nowMs: number; readonly isOpen: boolean }
  /** As for an exchange: open another term. */
  | { readonly kind: "gone" };

/** Opens an epoch. One of the survivors does it, if there are any. */
export interface OpenEpochCall {
  readonly process: string;
  /** All processes that are registered in the database. The epoch opens when all of them have declared. */
  readonly registered: readonly string[];
  /** A process has ended within the last minute, or since: it cannot declare its use. */
  readonly hasUnknownUse: boolean;
}

/** A wake-up without amounts. May be lost, late or repeated. */
export interface LimitNote {
  readonly term: string;
  readonly record: RecordId;
  readonly meter: MeterNo;
  readonly about: NoteSubject;
}

export type NoteSubject =
  /** Others lack this meter: return what is idle, and confirm this number. */
  | { readonly kind: "recall"; readonly no: number }
  /** An amount was lent to a waiting request of this key. */
  | { readonly kind: "grant"; readonly key: string }
  /** All others have returned what was idle, and it is not enough for the request of this key. */
  | { readonly kind: "final"; readonly key: string };

export interface NoteSubscription {
  stop(): Promise<void>;
}

/** Every function rejects if the coordinator cannot be reached, and may be called again with the same values. */
export interface LimitCoordinator {
  /** For operators: where the records are kept. */
  readonly kind: string;
  /** Which records this coordinator accepts. A node with Redis has a second coordinator for windows. */
  readonly serves: readonly RecordKind[];
  openTerm(call: OpenTermCall): Promise<OpenTermReply>;
  declare(call: DeclareCall): Promise<DeclareReply>;
  exchange(call: ExchangeCall): Promise<ExchangeReply>;
  /** Call it every second while `isOpen` is false, with the present registry. Returns whether the epoch is open. */
  openEpoch(call: OpenEpochCall): Promise<boolean>;
  /** The process stops: everything was reported and returned. */
  endTerm(term: string): Promise<void>;
  /**
   * The process is no longer registered: it has ended. Slots are free at once. What it held of windows stays lent until
   * a process opens a term in its folder, or for a minute: usage that is not stored may be in that folder.
   */
  bury(process: string): Promise<void>;
  /** Processes with a term that has not ended. Those that are not registered after this call are to be buried. */
  listProcesses(): Promise<readonly string[]>;
  /** Deletes records without lent amounts, waiting requests and use that counts. Every minute, by any node. */
  sweep(): Promise<void>;
  /** Notes for the terms of this process. `onConnected`: notes may have been missed. */
  subscribe(
    process: string,
    listener: { onNote(note: LimitNote): void; onConnected(): void },
  ): NoteSubscription;
  close(): Promise<void>;
}

/** The width of a bucket of use: a sixtieth of the window, at most an hour. */
export function bucketWidthMs(perMs: number | null): number {
  return perMs === null ? 1_000 : Math.min(Math.ceil(perMs / 60), 3_600_000);
}
