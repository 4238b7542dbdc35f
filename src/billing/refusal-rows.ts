/**
 * Limits how many usage rows refused requests write: after the first few of a minute a key's refusals of one kind share
 * one counted row.
 */

import type { UsageRow } from "../store/usage-row.ts";

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

  /** Records the row of a refused request: at once, or as part of a counted row. */
  record(row: UsageRow): void {
    const minute = Math.floor(row.atMs / MINUTE_MS);
    if (minute !== this.minute || this.kinds.size >= this.limits.kindsMax) this.writeCounted();
    this.minute = minute;
    const kind = this.lookUpKind(row);
    if (kind.rows < this.limits.rowsPerMinute) {
      kind.rows++;
      this.push(row);
      return;
    }
    const place = `${row.endpoint} ${row.groupId}`;
    const counted = kind.counted.get(place);
    if (counted === undefined) kind.counted.set(place, new CountedRefusals(row));
    else counted.add(row);
    this.timer ??= this.scheduleWrite(row.atMs);
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

  private lookUpKind({ keyId, status, errorCode }: UsageRow): RefusalKind {
    const name = `${keyId} ${status} ${errorCode}`;
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
    this.first = { ...first, trace };
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
