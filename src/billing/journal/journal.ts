/**
 * The journal: holds and settlements that the database does not have yet, as lines in files that outlive the process.
 * The journal is divided into segments, so that segments the database has caught up with can be deleted.
 */

import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { sharedSync } from "../../store/engine/shared-sync.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";
import { syncFolder } from "../engine/json-lines.ts";
import { type AppendFile, createAppendFile } from "./append-file.ts";
import {
  encodeHold,
  encodeProgress,
  encodeSettlement,
  encodeStored,
  encodeUnpaidRow,
  type JournaledHold,
  type RequestProgress,
} from "./journal-events.ts";
import { LineBuffer } from "./line-buffer.ts";
import { segmentName } from "./orphaned-journals.ts";
import { type Segment, UnsyncedSegments } from "./unsynced-segments.ts";

/** Size of the first segment. Each full segment is followed by one of twice the size. */
const FIRST_BYTES = 16 * 1024;

interface JournalOptions {
  dir: string;
  /** The process that writes the journal. It is part of the file names. */
  processId: string;
  /** Maximum size of a segment, unless one line is longer. */
  segmentBytes: number;
}

/**
 * Owns the current segment and the numbers of the segments that exist. A line survives the process when its `append…`
 * call returns; if the call throws, the line was not written. The first file is created with the first line.
 */
export class Journal {
  readonly #options: JournalOptions;
  readonly #line = new LineBuffer();
  readonly #unsynced: UnsyncedSegments;
  readonly #sharedSync = sharedSync(() => this.#syncSegments());
  /** The current segment; null until its first line. */
  #file: AppendFile | null = null;
  /** The number of the current segment, and of the oldest one that exists. */
  #segment = 1;
  #oldest = 1;
  /** Size of the next segment. An idle gateway creates many segments, so they start small. */
  #nextBytes: number;
  /** A file was created whose name may not be on disk yet. */
  #hasNewName = false;

  constructor(options: JournalOptions) {
    this.#options = options;
    this.#nextBytes = this.#firstBytes();
    this.#unsynced = new UnsyncedSegments({
      dir: options.dir,
      buildPath: (number) => this.#buildPath(number),
      isNeeded: (number) => number >= this.#oldest,
    });
  }

  /** Returns the number of the segment that contains the hold. Segment numbers increase. */
  appendHold(hold: JournaledHold): number {
    return this.#append(encodeHold(hold));
  }

  appendProgress(progress: RequestProgress): void {
    this.#append(encodeProgress(progress));
  }

  /**
   * Call after the commit that stored these holds. Without this line, recovery would create a hold again that direct
   * billing has ended without a usage row.
   */
  appendStored(requestIds: readonly string[]): void {
    this.#append(encodeStored(requestIds));
  }

  /** The usage row of a request that is paid from its hold. Its values must fit the database. */
  appendSettlement(row: UsageRow): void {
    this.#append(encodeSettlement(row));
  }

  /** The usage row of an unpaid request. Its values must fit the database. Returns the number of its segment. */
  appendUnpaidRow(row: UsageRow): number {
    return this.#append(encodeUnpaidRow(row));
  }

  /** What was written so far survives a power failure. A segment that was not synced is written again. */
  sync(): Promise<void> {
    return this.#sharedSync.flush();
  }

  hasSegmentBefore(number: number): boolean {
    return this.#oldest < number && (this.#oldest < this.#segment || this.#file !== null);
  }

  deleteSegmentsBefore(number: number): void {
    if (number > this.#segment) {
      this.#endSegment();
      this.#nextBytes = this.#firstBytes();
    }
    this.#deleteFilesBefore(Math.min(number, this.#segment));
  }

  /** Closes the files and leaves them for recovery. */
  async close(): Promise<void> {
    this.#endSegment();
    await this.#sharedSync.rest();
    this.#unsynced.close();
  }

  /** Closes and deletes all files: the database has everything. */
  async closeAndDelete(): Promise<void> {
    await this.close();
    this.#deleteFilesBefore(this.#segment);
  }

  /** Returns the number of the segment that contains the line. */
  #append(json: string): number {
    try {
      this.#line.setLine(json);
      if (this.#file?.put(this.#line) !== true) this.#appendToNewSegment();
    } catch (error) {
      this.#endSegment();
      throw error;
    }
    return this.#segment;
  }

  #appendToNewSegment(): void {
    const { dir, segmentBytes } = this.#options;
    if (this.#file !== null) this.#nextBytes = Math.min(this.#nextBytes * 2, segmentBytes);
    this.#endSegment();
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    this.#file = createAppendFile(
      this.#buildPath(this.#segment),
      Math.max(this.#nextBytes, this.#line.length),
    );
    this.#hasNewName = true;
    this.#file.put(this.#line);
  }

  #endSegment(): void {
    if (this.#file === null) return;
    this.#unsynced.add({ number: this.#segment, file: this.#file });
    this.#file = null;
    this.#segment++;
  }

  async #syncSegments(): Promise<void> {
    await this.#unsynced.rewriteFailed();
    const endedSegments = this.#unsynced.takeEnded();
    const current: Segment[] = this.#file === null ? [] : [{ number: this.#segment, file: this.#file }];
    if (this.#hasNewName) await this.#syncNames([...endedSegments, ...current]);
    for (const target of [...endedSegments]) {
      // A deleted segment needs no sync.
      if (target.number >= this.#oldest) await this.#syncOne(target, endedSegments);
      endedSegments.shift();
      target.file.close();
    }
    for (const target of current) await this.#syncOne(target, []);
  }

  /** Syncs the folder, which contains the new file names. */
  async #syncNames(segments: readonly Segment[]): Promise<void> {
    this.#hasNewName = false;
    try {
      await syncFolder(this.#options.dir);
    } catch (error) {
      this.#hasNewName = true;
      this.#markFailed(segments);
      throw error;
    }
  }

  /** If the sync fails, the segments after this one wait for the next sync. */
  async #syncOne(target: Segment, endedSegments: readonly Segment[]): Promise<void> {
    try {
      await target.file.sync();
    } catch (error) {
      this.#markFailed([target]);
      for (const later of endedSegments) if (later !== target) this.#unsynced.add(later);
      throw error;
    }
  }

  /** Ends the current segment if it is one of these: nothing more may be appended to it. */
  #markFailed(segments: readonly Segment[]): void {
    if (segments.some((target) => target.file === this.#file)) this.#endSegment();
    this.#unsynced.markFailed(segments);
  }

  #deleteFilesBefore(number: number): void {
    for (; this.#oldest < number; this.#oldest++) rmSync(this.#buildPath(this.#oldest), { force: true });
  }

  #buildPath(number: number): string {
    return join(this.#options.dir, segmentName(this.#options.processId, number));
  }

  #firstBytes(): number {
    return Math.min(FIRST_BYTES, this.#options.segmentBytes);
  }
}
