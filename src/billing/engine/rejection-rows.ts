/**
 * Limits how many usage rows unserved requests write: after the first few in a minute, rejections of one kind of a key
 * share one counted row. Limits of the key do not bound them, because a request that was not served uses none of
 * them.
 */

import { HOUR_MS, MINUTE_MS } from "../../base/time.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";

export interface RejectionRowLimits {
  /** Maximum number of separate rows per minute, for rejections of one key with one status and error code. */
  readonly rowsPerMinute: number;
  /** Maximum number of kinds tracked at once. Beyond it, counted rows are written early and the count restarts. */
  readonly kindsMax: number;
  /** Models that the rows of one user name in an hour. Clients invent names, and every name has rows of its own in roll-ups. */
  readonly modelsPerHour: number;
}

/** Rejections of one key with one status and error code, in the current minute. */
interface RejectionKind {
  rows: number;
  /** By endpoint and group. There are few of them, and a caller cannot invent any. */
  readonly countedRejections: Map<string, CountedRejections>;
}

/** A counted row stays in memory for up to a minute, so it does not keep a long trace. */
const TRACE_CHARS_MAX = 2_000;

/**
 * Counted rows are written when their minute ends and at shutdown. A killed process loses the counts of its last
 * minute; no money depends on them.
 */
export class RejectionRows {
  readonly #push: (row: UsageRow) => void;
  readonly #limits: RejectionRowLimits;
  readonly #kinds = new Map<string, RejectionKind>();
  /** The minute of wall-clock time that is being counted. A counted row never spans two hours of a roll-up. */
  #minute = 0;
  #timer: ReturnType<typeof setTimeout> | null = null;
  /** The models that rows of this hour name: of each user, or of a key without a user. */
  readonly #models = new Map<string, Set<string>>();
  #hour = 0;

  constructor(push: (row: UsageRow) => void, limits: RejectionRowLimits) {
    this.#push = push;
    this.#limits = limits;
  }

  /**
   * Records a request that ended unserved. Returns true if the request is part of a counted row, false if the caller
   * must write a separate row.
   */
  addToCounted(row: UsageRow): boolean {
    if (!isUnserved(row)) return false;
    const minute = Math.floor(row.atMs / MINUTE_MS);
    if (minute !== this.#minute || this.#kinds.size >= this.#limits.kindsMax) this.writeCounted();
    this.#minute = minute;
    const kind = this.#lookUpKind(row);
    const isNamed = this.#mayName(row);
    if (isNamed && kind.rows < this.#limits.rowsPerMinute) {
      kind.rows++;
      return false;
    }
    const countedKey = `${row.endpoint} ${row.groupId}`;
    const counted = kind.countedRejections.get(countedKey);
    const shown = isNamed ? row : withoutModel(row);
    if (counted === undefined) kind.countedRejections.set(countedKey, new CountedRejections(shown));
    else counted.add(shown);
    this.#timer ??= this.#scheduleWrite(row.atMs);
    return true;
  }

  /** Writes the counted rows and restarts the count. */
  writeCounted(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    for (const { countedRejections: counted } of this.#kinds.values()) {
      for (const rejections of counted.values()) this.#push(rejections.toRow());
    }
    this.#kinds.clear();
  }

  #mayName({ userId, keyId, publicModel, atMs }: UsageRow): boolean {
    const hour = Math.floor(atMs / HOUR_MS);
    if (hour !== this.#hour || this.#models.size >= this.#limits.kindsMax) this.#models.clear();
    this.#hour = hour;
    const owner = userId ?? keyId;
    const models = this.#models.get(owner) ?? new Set();
    this.#models.set(owner, models);
    if (publicModel === "" || models.has(publicModel)) return true;
    if (models.size >= this.#limits.modelsPerHour) return false;
    models.add(publicModel);
    return true;
  }

  #lookUpKind({ keyId, outcome, status, errorCode }: UsageRow): RejectionKind {
    const name = `${keyId} ${outcome} ${status} ${errorCode}`;
    let kind = this.#kinds.get(name);
    if (kind === undefined) {
      kind = { rows: 0, countedRejections: new Map() };
      this.#kinds.set(name, kind);
    }
    return kind;
  }

  #scheduleWrite(nowMs: number): ReturnType<typeof setTimeout> {
    const timer = setTimeout(() => this.writeCounted(), MINUTE_MS - (nowMs % MINUTE_MS));
    timer.unref();
    return timer;
  }
}

/** The request used nothing: it was rejected, or its client disconnected. */
function isUnserved({ outcome, attempts, usageSource, costNano, upstreamNano }: UsageRow): boolean {
  return (
    (outcome === "refused" || outcome === "client_gone") &&
    attempts === 0 &&
    usageSource === "none" &&
    costNano === 0n &&
    upstreamNano === 0n
  );
}

/** The row of a settlement that only ends a hold, because the request is part of a counted row. It is never stored. */
export function withoutUsageRow(row: UsageRow): UsageRow {
  return { ...row, requestCount: 0 };
}

/** The trace contains the error message of the request, which may name its model. */
function withoutModel(row: UsageRow): UsageRow {
  return { ...row, publicModel: "", trace: null };
}

/** Rejected requests that share one row. */
class CountedRejections {
  readonly #first: UsageRow;
  #count = 1;
  #atMs: number;
  #durationMs: number;
  #waitMs: number;
  #isOneModel = true;

  constructor(first: UsageRow) {
    const trace = first.trace !== null && first.trace.length > TRACE_CHARS_MAX ? null : first.trace;
    // Nothing was charged, so there is no payer.
    this.#first = { ...first, trace, payer: null, tariffId: null, flags: [] };
    this.#atMs = first.atMs;
    this.#durationMs = first.durationMs;
    this.#waitMs = first.waitMs;
  }

  add({ publicModel, atMs, durationMs, waitMs }: UsageRow): void {
    this.#count++;
    this.#atMs = Math.max(this.#atMs, atMs);
    this.#durationMs += durationMs;
    this.#waitMs += waitMs;
    if (publicModel !== this.#first.publicModel) this.#isOneModel = false;
  }

  /** Times are sums, so that averages of a roll-up stay correct. The model is empty if the requests named several. */
  toRow(): UsageRow {
    const row = {
      ...this.#first,
      requestCount: this.#count,
      atMs: this.#atMs,
      durationMs: this.#durationMs,
      waitMs: this.#waitMs,
    };
    return this.#isOneModel ? row : withoutModel(row);
  }
}
