/**
 * Stored responses in the database, so that they survive a restart and reach the other nodes. Records are written
 * behind the response: the client does not wait, and until then this process has the record in memory.
 */

import type { Clock } from "../../base/clock.ts";
import { storeUnavailable } from "../../errors.ts";
import type { Log } from "../../observe/log.ts";
import { type Db, isRejected } from "../../store/engine/db.ts";
import { isSharedServer } from "../../store/engine/dialect.ts";
import { readResponsesKept } from "../../store/responses/response-retention.ts";
import { deleteStoredResponse, limitOwnerBytes } from "../../store/responses/stored-response-removal.ts";
import {
  findStoredChain,
  findStoredResponse,
  hasStoredResponse,
  insertStoredResponses,
  type NewStoredResponse,
  type StoredResponseQuery,
  type StoredResponseSize,
} from "../../store/responses/stored-responses.ts";
import type { BodyOwner } from "../bodies/body-budget.ts";
import { isOwnResponseId, readIdTimeMs } from "./own-response-id.ts";
import type { RecordLoader } from "./record-loader.ts";
import type { RecordSealer } from "./record-sealer.ts";
import { computeRecordBytes, type ResponseRecord } from "./response-record.ts";

export interface ArchiveLimits {
  /** Bytes of one response at rest. A longer one stays in memory only. */
  readonly recordBytesMax: number;
  /** Bytes at rest of one user, or of a key without a user. */
  readonly ownerBytesMax: number;
  /** Memory of the responses that wait to be written. */
  readonly waitingBytesMax: number;
  readonly batchMax: number;
  /** Memory of the responses of one batch: SQLite writes it in one turn of the event loop. One may be longer. */
  readonly batchBytesMax: number;
  /** Bytes at rest after which the WAL is checkpointed: otherwise a commit does it, in one turn of the event loop. */
  readonly checkpointBytes: number;
  readonly retryMs: number;
  /** How long the retention setting is used before it is read again. */
  readonly settingMs: number;
  /** How often, and for how long a response of another node is awaited: its record may be on the way. */
  readonly lookUpsMax: number;
  readonly lookUpPauseMs: number;
  /** Responses of other nodes that began longer ago are not awaited. */
  readonly lookUpAgeMs: number;
  /** How long a deletion waits until the response is written. */
  readonly removalWaitMs: number;
}

interface ArchiveServices {
  readonly db: Db;
  readonly log: Pick<Log, "warn">;
  readonly clock: Clock;
  readonly sealer: Pick<RecordSealer, "seal">;
  readonly loader: Pick<RecordLoader, "load">;
  readonly limits: ArchiveLimits;
  /** Moves what was written from the WAL of SQLite to the database file, outside the event loop. */
  checkpointWal(): Promise<void>;
}

/** The share of `ownerBytesMax` that an owner may write before its sum is checked again. */
const OWNER_CHECK_SHARE = 1 / 16;
const CHECKED_OWNERS_MAX = 10_000;
const WRITTEN_CHECK_MS = 10;

export class ResponseArchive {
  readonly #services: ArchiveServices;
  /** In the order of their responses: a record is written after the one that it continues. */
  readonly #waiting = new Map<string, ResponseRecord>();
  #waitingBytes = 0;
  #writing: Promise<void> | null = null;
  #isClosing = false;
  #kept: { readonly ms: number; readonly readAtMs: number } | null = null;
  /** Bytes that each owner has written since its sum was checked. */
  readonly #uncheckedBytes = new Map<string, number>();
  #uncheckpointedBytes = 0;
  /** The records that are in the database, as far as this process has written or read them. */
  readonly #written = new WeakSet<ResponseRecord>();

  constructor(services: ArchiveServices) {
    this.#services = services;
  }

  add(record: ResponseRecord): void {
    const { limits, log } = this.#services;
    this.#waiting.set(record.responseId, record);
    // Its conversation is in memory once, however many responses continue it.
    this.#waitingBytes += computeRecordBytes(record);
    let dropped = 0;
    for (const oldest of this.#waiting.values()) {
      if (this.#waitingBytes <= limits.waitingBytesMax) break;
      this.#forget(oldest);
      dropped += 1;
    }
    if (dropped > 0) log.warn("stored_responses_dropped", { responses: dropped });
    this.#startWriting();
  }

  /** Whether other nodes could have deleted the record: it is in a database that they share. */
  mayBeDeletedElsewhere(record: ResponseRecord): boolean {
    return isSharedServer(this.#services.db) && this.#written.has(record);
  }

  async has(responseId: string, keyId: string): Promise<boolean> {
    return hasStoredResponse(this.#services.db, await this.#query(responseId, keyId));
  }

  /** Whether the database has the response, or gets it from another node within a moment. */
  async isStored(responseId: string, keyId: string): Promise<boolean> {
    return (await this.#findSize(responseId, keyId)) !== null;
  }

  /** Resolves with the result of `use`; null if the response is unknown. */
  async useRecord<Result>(
    responseId: string,
    owner: BodyOwner,
    use: (record: ResponseRecord) => Result | Promise<Result>,
  ): Promise<Result | null> {
    const size = await this.#findSize(responseId, owner.id);
    if (size === null) return null;
    return this.#services.loader.load([size], owner, ([record]) => {
      if (record === undefined) return null;
      this.#written.add(record);
      return use(record);
    });
  }

  /** The response and those that it continues, the first one first; null if it is unknown. */
  async findChain(responseId: string, owner: BodyOwner): Promise<readonly ResponseRecord[] | null> {
    const sizes = await this.#lookUp(responseId, owner.id, async (query) => {
      const chain = await findStoredChain(this.#services.db, query);
      return chain.length === 0 ? null : chain;
    });
    if (sizes === null) return null;
    return this.#services.loader.load(sizes, owner, (records) => {
      for (const record of records) this.#written.add(record);
      return records;
    });
  }

  /** Returns false if the response is not in the database. */
  async remove(responseId: string, keyId: string): Promise<boolean> {
    const { db, clock, limits } = this.#services;
    const untilMs = clock.monotonicMs() + limits.removalWaitMs;
    // A response that is being written would be stored after its deletion.
    while (this.#waiting.has(responseId)) {
      if (clock.monotonicMs() >= untilMs) throw storeUnavailable();
      await Bun.sleep(WRITTEN_CHECK_MS);
    }
    return deleteStoredResponse(db, responseId, keyId);
  }

  /** Writes what waits. If the database fails, the rest is dropped. */
  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#writing;
    if (this.#waiting.size > 0)
      this.#services.log.warn("stored_responses_dropped", { responses: this.#waiting.size });
  }

  #startWriting(): void {
    this.#writing ??= this.#write().finally(() => {
      this.#writing = null;
    });
  }

  async #write(): Promise<void> {
    const { limits, log } = this.#services;
    while (this.#waiting.size > 0) {
      const batch = this.#takeBatch();
      try {
        await this.#writeBatch(batch);
      } catch (error) {
        if (isRejected(error) && batch.length === 1) this.#forgetAll(batch);
        log.warn("stored_responses_not_written", {
          responses: batch.length,
          reason: error instanceof Error ? error.message : "unknown",
        });
        if (this.#isClosing) return;
        if (isRejected(error) && batch.length > 1) await this.#writeEach(batch);
        else await Bun.sleep(limits.retryMs);
      }
    }
  }

  /** The oldest records. They wait until they are written. */
  #takeBatch(): ResponseRecord[] {
    const { batchMax, batchBytesMax } = this.#services.limits;
    const batch: ResponseRecord[] = [];
    let bytes = 0;
    for (const record of this.#waiting.values()) {
      bytes += computeRecordBytes(record);
      if (batch.length === batchMax || (batch.length > 0 && bytes > batchBytesMax)) break;
      batch.push(record);
    }
    return batch;
  }

  /** The database rejects one record of a batch permanently. The others are written. */
  async #writeEach(batch: readonly ResponseRecord[]): Promise<void> {
    for (const record of batch) {
      await this.#writeBatch([record]).catch((error: unknown) => {
        if (isRejected(error)) this.#forget(record);
      });
    }
  }

  async #writeBatch(batch: readonly ResponseRecord[]): Promise<void> {
    const { db, sealer, limits } = this.#services;
    if ((await this.#readKeptMs()) > 0) {
      const rows: NewStoredResponse[] = [];
      for (const record of batch) {
        const row = await sealer.seal(record, limits.recordBytesMax);
        if (row !== null) rows.push(row);
      }
      const stored = await insertStoredResponses(db, rows);
      for (const record of batch) if (stored.has(record.responseId)) this.#written.add(record);
      for (const { owner, sealed: content } of rows) await this.#limitOwner(owner, content.length);
      await this.#checkpoint(rows);
    }
    this.#forgetAll(batch);
  }

  /** Before the next batch, which could exceed the length of the WAL. */
  async #checkpoint(rows: readonly NewStoredResponse[]): Promise<void> {
    for (const { sealed } of rows) this.#uncheckpointedBytes += sealed.length;
    if (this.#uncheckpointedBytes < this.#services.limits.checkpointBytes) return;
    this.#uncheckpointedBytes = 0;
    await this.#services.checkpointWal();
  }

  async #limitOwner(owner: string, bytes: number): Promise<void> {
    const { db, limits } = this.#services;
    const unchecked = this.#uncheckedBytes.get(owner);
    // An owner that is new to this process is checked at once: earlier processes may have written, too.
    if (unchecked !== undefined && unchecked + bytes < limits.ownerBytesMax * OWNER_CHECK_SHARE) {
      this.#uncheckedBytes.set(owner, unchecked + bytes);
      return;
    }
    if (this.#uncheckedBytes.size >= CHECKED_OWNERS_MAX) this.#uncheckedBytes.clear();
    this.#uncheckedBytes.set(owner, 0);
    await limitOwnerBytes(db, owner, limits.ownerBytesMax);
  }

  #forgetAll(records: readonly ResponseRecord[]): void {
    for (const record of records) this.#forget(record);
  }

  #forget(record: ResponseRecord): void {
    if (this.#waiting.delete(record.responseId)) this.#waitingBytes -= computeRecordBytes(record);
  }

  #findSize(responseId: string, keyId: string): Promise<StoredResponseSize | null> {
    return this.#lookUp(responseId, keyId, (query) => findStoredResponse(this.#services.db, query));
  }

  /** Another node may still be writing the response: its client can be faster than the database. */
  async #lookUp<Result>(
    responseId: string,
    keyId: string,
    find: (query: StoredResponseQuery) => Promise<Result | null>,
  ): Promise<Result | null> {
    if (!isOwnResponseId(responseId)) return null;
    const { db, clock, limits } = this.#services;
    const isRecent = clock.nowMs() - readIdTimeMs(responseId) < limits.lookUpAgeMs;
    const lookUpsMax = isSharedServer(db) && isRecent ? limits.lookUpsMax : 1;
    for (let lookUps = 1; ; lookUps++) {
      const found = await find(await this.#query(responseId, keyId));
      if (found !== null || lookUps >= lookUpsMax) return found;
      await Bun.sleep(limits.lookUpPauseMs);
    }
  }

  async #query(id: string, keyId: string): Promise<StoredResponseQuery> {
    return { id, keyId, sinceMs: this.#services.clock.nowMs() - (await this.#readKeptMs()) };
  }

  async #readKeptMs(): Promise<number> {
    const { db, clock, limits } = this.#services;
    const nowMs = clock.monotonicMs();
    if (this.#kept === null || nowMs - this.#kept.readAtMs >= limits.settingMs)
      this.#kept = { ms: await readResponsesKept(db), readAtMs: nowMs };
    return this.#kept.ms;
  }
}
