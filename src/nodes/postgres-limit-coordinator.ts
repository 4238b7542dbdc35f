/** The coordinator of limits on PostgreSQL: one function for each operation, one statement for each call. */

import {
  type CoordinatorLimits,
  checkDeclaration,
  checkExchange,
} from "../limits/coordinator/coordinator-limits.ts";
import {
  type FlatRecords,
  flattenDeclaration,
  flattenExchange,
  parseReply,
  readNotes,
} from "../limits/coordinator/flat-call.ts";
import type {
  ClockBounds,
  DeclareCall,
  DeclareReply,
  ExchangeCall,
  ExchangeReply,
  LimitCoordinator,
  NoteSubscription,
  OpenEpochCall,
  OpenTermCall,
  OpenTermReply,
  RecordKind,
} from "../limits/coordinator/protocol.ts";
import type { Db, SqlValue } from "../store/engine/db.ts";
import {
  buryLimitProcess,
  COORDINATION_KIND,
  declareLimits,
  endLimitTerm,
  exchangeLimits,
  listenForLimitNotes,
  listLimitProcesses,
  openLimitEpoch,
  openLimitTerm,
  sweepLimits,
  toArrayText,
} from "../store/engine/limit-coordination.ts";

interface PostgresLimitCoordinatorOptions {
  /** With separate connections: a report must not delay a call. The coordinator closes it. */
  readonly db: Db;
  /** For notes: a connection to the server itself, without a pooler. */
  readonly listenUrl: string;
  /** Only windows if rates are in Redis. */
  readonly serves: readonly RecordKind[];
  readonly limits: CoordinatorLimits;
}

export class PostgresLimitCoordinator implements LimitCoordinator {
  readonly kind = COORDINATION_KIND;
  readonly serves: readonly RecordKind[];
  readonly #options: PostgresLimitCoordinatorOptions;

  constructor(options: PostgresLimitCoordinatorOptions) {
    this.#options = options;
    this.serves = options.serves;
  }

  openTerm({ term, process, folder, bounds }: OpenTermCall): Promise<OpenTermReply> {
    const { db, limits } = this.#options;
    const times = bounds === null ? [null, null, null] : toBounds(bounds);
    return openLimitTerm(db, [term, process, folder, ...times, bounds?.epoch ?? null, limits.termMs]);
  }

  async declare(call: DeclareCall): Promise<DeclareReply> {
    const { db, limits } = this.#options;
    checkDeclaration(call, limits);
    const flat = flattenDeclaration(call);
    const { status, nowMs, isOpen } = await declareLimits(db, [
      call.term,
      call.seq,
      ...toBounds(call),
      limits.termMs,
      ...toRecordValues(flat),
      toArrayText(flat.holdings),
      toArrayText(flat.uses),
      call.last === null ? 0 : 1,
      call.last?.replaces ?? null,
      call.last?.isSurvivor ? 1 : 0,
    ]);
    return status === "ok" ? { kind: "ok", nowMs, isOpen } : { kind: "gone" };
  }

  async exchange(call: ExchangeCall): Promise<ExchangeReply> {
    const { db, limits } = this.#options;
    checkExchange(call, limits);
    const flat = flattenExchange(call);
    const { termMs, slotWaitMs, recallWaitMs, waitingMax } = limits;
    const reply = await exchangeLimits(db, [
      call.term,
      call.seq,
      ...toBounds(call),
      toArrayText([termMs, slotWaitMs, recallWaitMs, waitingMax]),
      ...toRecordValues(flat),
      toArrayText(flat.items),
      toArrayText(flat.itemEnds),
      toArrayText(flat.refunds),
      toArrayText(flat.refundEnds),
      toArrayText(flat.modes),
      toArrayText(flat.keys),
      toArrayText(flat.wants),
      toArrayText(flat.wantEnds),
    ]);
    return parseReply(reply);
  }

  openEpoch({ process, registered, hasUnknownUse }: OpenEpochCall): Promise<boolean> {
    const { db, limits } = this.#options;
    const values = [process, toArrayText(registered), hasUnknownUse ? 1 : 0, limits.unknownUseMs];
    return openLimitEpoch(db, values);
  }

  endTerm(term: string): Promise<void> {
    return endLimitTerm(this.#options.db, term);
  }

  bury(process: string): Promise<void> {
    return buryLimitProcess(this.#options.db, process);
  }

  listProcesses(): Promise<readonly string[]> {
    return listLimitProcesses(this.#options.db);
  }

  sweep(): Promise<void> {
    return sweepLimits(this.#options.db, this.#options.limits);
  }

  subscribe(
    process: string,
    { onNote, onConnected }: Parameters<LimitCoordinator["subscribe"]>[1],
  ): NoteSubscription {
    const onPayload = readNotes(onNote);
    // Notes only save time: calls report that the server is away.
    const onFailure = () => {};
    const { listenUrl } = this.#options;
    return listenForLimitNotes(process, { url: listenUrl, onPayload, onConnected, onFailure });
  }

  close(): Promise<void> {
    return this.#options.db.close();
  }
}

function toBounds({ lo, hi, aheadMs }: ClockBounds): SqlValue[] {
  return [Math.floor(lo), Math.ceil(hi), aheadMs === null ? null : Math.floor(aheadMs)];
}

function toRecordValues({ ids, pers, revisions, limits }: FlatRecords): SqlValue[] {
  return [toArrayText(ids), toArrayText(pers), toArrayText(revisions), toArrayText(limits)];
}
