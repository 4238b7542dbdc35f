/** The records of one subject on this node: its rates, and one for each of its long windows. */

import { type CallerLimits, type RateLimits, type Unit, WINDOW_UNITS } from "../../records/limits.ts";
import { METER_NOS, type MeterNo, type RecordKind, type RecordRef } from "../coordinator/protocol.ts";
import type { Scope, Subject } from "../limiter-types.ts";
import { listWindows } from "../subject-state.ts";
import { Holding, type HoldingKind } from "./holding.ts";

/** The connection to the coordinator that a record belongs to. */
export interface RecordLink {
  /** Changes when a term begins after a time in which nothing that was borrowed might be used. */
  readonly contactNo: number;
  /** Something has to be reported with the next exchange. */
  noteChange(record: BorrowedRecord): void;
  /** The same, at once. */
  noteUrgent(record: BorrowedRecord): void;
  /** Whether the record is part of the exchange in flight, or of the next one. */
  isPending(record: BorrowedRecord): boolean;
  /** Whether what is borrowed may be used. */
  isValid(nowMs: number): boolean;
  /** How limits are divided while no node reaches the coordinator; null if that is not so. */
  readonly loss: LossShare | null;
}

/** Each node may use the limit divided by this number. 1: all of it. */
export interface LossShare {
  readonly nodes: number;
}

export type RecordHolding = Holding<BorrowedRecord>;

type Limits3 = readonly [number | null, number | null, number | null];

export class BorrowedRecord {
  readonly subject: BorrowedSubject;
  readonly perMs: number | null;
  readonly link: RecordLink;
  limits: Limits3;
  holdings: readonly RecordHolding[] = [];

  constructor(subject: BorrowedSubject, perMs: number | null, link: RecordLink) {
    this.subject = subject;
    this.perMs = perMs;
    this.link = link;
    this.limits = [null, null, null];
  }

  /** A pending record is not: with a second one of the same name it could be part of the same call. */
  get isEmpty(): boolean {
    if (this.link.isPending(this)) return false;
    return this.holdings.every(({ isEmpty, waiting }) => isEmpty && waiting === 0);
  }

  buildRef(): RecordRef {
    const { perMs, limits, subject } = this;
    const { scope, id, revision } = subject;
    return { scope, id, perMs, revision, limits };
  }

  find(meter: MeterNo): RecordHolding | null {
    return this.holdings.find((holding) => holding.meter === meter) ?? null;
  }

  /** A meter that stays keeps what it holds. One that is removed returns it. */
  applyLimits(limits: Limits3): void {
    this.limits = limits;
    const kept: RecordHolding[] = [];
    for (const meter of METER_NOS) {
      const max = limits[meter];
      const existing = this.find(meter);
      if (max === null) {
        if (existing === null || existing.isEmpty) continue;
        // Nothing new is taken from it; requests in flight still end in it.
        existing.max = Number.POSITIVE_INFINITY;
        kept.push(existing);
      } else if (existing === null) {
        kept.push(new Holding(this, meter, { ...describeMeter(this.perMs, meter), max }));
      } else {
        existing.max = max;
        kept.push(existing);
      }
    }
    this.holdings = kept;
  }

  noteChange(): void {
    this.link.noteChange(this);
  }

  noteUrgent(): void {
    this.link.noteUrgent(this);
  }
}

function describeMeter(perMs: number | null, meter: MeterNo): { kind: HoldingKind; unit: Unit } {
  if (perMs !== null) return { kind: "window", unit: WINDOW_UNITS[meter] };
  if (meter === 0) return { kind: "slots", unit: "requests" };
  return { kind: "minute", unit: meter === 1 ? "requests" : "tokens" };
}

interface SubjectServices {
  findLink(kind: RecordKind): RecordLink;
  /** The revision of the policy in force. */
  revision(): number;
}

export class BorrowedSubject {
  readonly scope: Scope;
  readonly id: string;
  limits: CallerLimits | RateLimits;
  records: readonly BorrowedRecord[] = [];
  slots: RecordHolding | null = null;
  /** Wakes the requests that wait for a slot of this subject; null, the usual case, if none waits. */
  onRelease: (() => void) | null = null;
  /** Of the policy that the limits are from. */
  revision = 0;
  /** Requests in flight: what they have used is settled in these records. */
  #leases = 0;
  #usedAtMs = Number.NEGATIVE_INFINITY;
  readonly #services: SubjectServices;

  constructor({ scope, id, limits }: Subject, services: SubjectServices) {
    this.scope = scope;
    this.id = id;
    this.limits = limits;
    this.#services = services;
    this.applyLimits(limits);
  }

  /** Changed limits apply at once. */
  applyLimits(limits: CallerLimits | RateLimits): void {
    const { findLink, revision } = this.#services;
    this.limits = limits;
    this.revision = revision();
    const wanted = new Map<number | null, [number | null, number | null, number | null]>();
    wanted.set(null, [limits.concurrency, limits.rpm, limits.tpm]);
    for (const { perMs, ...window } of listWindows(limits)) {
      const row = wanted.get(perMs) ?? [null, null, null];
      for (const meter of METER_NOS) row[meter] = tighter(row[meter], window[WINDOW_UNITS[meter]]);
      wanted.set(perMs, row);
    }
    for (const { perMs, isEmpty } of this.records)
      if (!wanted.has(perMs) && !isEmpty) wanted.set(perMs, [null, null, null]);
    this.records = [...wanted].flatMap(([perMs, row]) => {
      const existing = this.records.find((record) => record.perMs === perMs);
      if (existing === undefined && row.every((limit) => limit === null)) return [];
      const record =
        existing ?? new BorrowedRecord(this, perMs, findLink(perMs === null ? "rates" : "window"));
      record.applyLimits(row);
      return [record];
    });
    this.slots =
      this.records.find(({ perMs }) => perMs === null)?.holdings.find(({ kind }) => kind === "slots") ?? null;
  }

  beginLease(nowMs: number): void {
    this.#leases += 1;
    this.#usedAtMs = nowMs;
  }

  endLease(nowMs: number): void {
    this.#leases -= 1;
    this.#usedAtMs = nowMs;
  }

  /** When nothing of it is held, and its last use has left the minute. */
  isIdle(nowMs: number): boolean {
    if (this.onRelease !== null || this.#leases > 0 || nowMs - this.#usedAtMs <= IDLE_MS) return false;
    return this.records.every(({ isEmpty }) => isEmpty);
  }
}

const IDLE_MS = 60_000;

function tighter(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b;
  return Math.min(a, b);
}
