/**
 * Limits how many usage rows unserved requests write: after the first few of a minute a key's refusals of one kind share
 * one counted row. Limits of the key do not bound them, because a request that was not served uses up none.
 */

import type { UsageRow } from "../../store/usage/usage-row.ts";

export interface RefusalRowLimits {
  /** Rows of their own in one minute, for refusals of one key with one status and error code. */
  readonly rowsPerMinute: number;
  /** Kinds that are tracked at once; with more, counted rows are written early and counting starts again. */
  readonly kindsMax: number;
}

/** Refusals of one key with one status and error code, in the current minute. */
interface RefusalKind {
  rows: number;
  /** By endpoint and group, of which there are few: a caller cannot make them up. */
  readonly counted: Map<string, CountedRefusals>;
}

const MINUTE_MS = 60_000;
/** A counted row stays in memory for up to a minute, so it does not keep a long trace. */
const TRACE_CHARS_MAX = 2_000;

/**
 * Counted rows are written when their minute ends and at shutdown. A process that is killed loses the counts of its
 * last minute; no money depends on them.
 */
export class RefusalRows {
  private readonly push: (row: UsageRow) => void;
  private readonly limits: RefusalRowLimits;
  private readonly kinds = new Map<string, RefusalKind>();
  /** The minute of wall-clock time that is being counted: no counted row spans two hours of a roll-up. */
  private minute = 0;
  private timer: ReturnType<typeof setTimeout> | null = null;

  constructor(push: (row: UsageRow) => void, limits: RefusalRowLimits) {
    this.push = push;
    this.limits = limits;
  }

  /**
   * Takes the row of a request that ended unserved. True: it is part of a counted row now. False: it has a row of its
   * own, which the caller writes.
   */
  fold(row: UsageRow): boolean {
    if (!isUnserved(row)) return false;
    const minute = Math.floor(row.atMs / MINUTE_MS);
    if (minute !== this.minute || this.kinds.size >= this.limits.kindsMax) this.writeCounted();
    this.minute = minute;
    const kind = this.lookUpKind(row);
    if (kind.rows < this.limits.rowsPerMinute) {
      kind.rows++;
      return false;
    }
    const place = `${row.endpoint} ${row.groupId}`;
    const counted = kind.counted.get(place);
    if (counted === undefined) kind.counted.set(place, new CountedRefusals(row));
    else counted.add(row);
    this.timer ??= this.scheduleWrite(row.atMs);
    return true;
  }

  /** Writes the counted rows and starts the count again. */
  writeCounted(): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    for (const { counted } of this.kinds.values()) {
      for (const refusals of counted.values()) this.push(refusals.toRow());
    }
    this.kinds.clear();
  }

  private lookUpKind({ keyId, outcome, status, errorCode }: UsageRow): RefusalKind {
    const name = `${keyId} ${outcome} ${status} ${errorCode}`;
    let kind = this.kinds.get(name);
    if (kind === undefined) {
      kind = { rows: 0, counted: new Map() };
      this.kinds.set(name, kind);
    }
    return kind;
  }

  private scheduleWrite(nowMs: number): ReturnType<typeof setTimeout> {
    const timer = setTimeout(() => this.writeCounted(), MINUTE_MS - (nowMs % MINUTE_MS));
    timer.unref();
    return timer;
  }
}

/** Nothing was used, so the row says nothing but that the request was there: refused, or left by its client. */
function isUnserved({ outcome, attempts, usageSource, costNano, upstreamNano }: UsageRow): boolean {
  return (
    (outcome === "refused" || outcome === "client_gone") &&
    attempts === 0 &&
    usageSource === "none" &&
    costNano === 0n &&
    upstreamNano === 0n
  );
}

/** The row of a settlement that only ends a hold, because the request is part of a counted row: it is never stored. */
export function withoutRow(row: UsageRow): UsageRow {
  return { ...row, requestCount: 0 };
}

/** Refused requests that share one row. */
class CountedRefusals {
  private readonly first: UsageRow;
  private count = 1;
  private atMs: number;
  private durationMs: number;
  private waitMs: number;
  private isOneModel = true;

  constructor(first: UsageRow) {
    const trace = first.trace !== null && first.trace.length > TRACE_CHARS_MAX ? null : first.trace;
    // Nothing was charged, whoever would have paid.
    this.first = { ...first, trace, payer: null, tariffId: null, flags: [] };
    this.atMs = first.atMs;
    this.durationMs = first.durationMs;
    this.waitMs = first.waitMs;
  }

  add({ publicModel, atMs, durationMs, waitMs }: UsageRow): void {
    this.count++;
    this.atMs = Math.max(this.atMs, atMs);
    this.durationMs += durationMs;
    this.waitMs += waitMs;
    if (publicModel !== this.first.publicModel) this.isOneModel = false;
  }

  /** The times are sums, so that means of a roll-up stay right. The model is empty where several were named. */
  toRow(): UsageRow {
    const { first, count: requestCount, atMs, durationMs, waitMs, isOneModel } = this;
    const row = { ...first, requestCount, atMs, durationMs, waitMs };
    // The trace holds the error message of the first request, which may name its model.
    return isOneModel ? row : { ...row, publicModel: "", trace: null };
  }
}
