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
import type { HoldFields } from "./hold-lines.ts";
import { JournalEncoder, type RequestProgress } from "./journal-lines.ts";
import { JsonLineWriter } from "./json-line-writer.ts";
import { segmentName } from "./left-journals.ts";
import { type Segment, UnsyncedSegments } from "./unsynced-segments.ts";

/**
 * What is written to the journal survives the process when the call returns. If the call throws, nothing was written.
 */
export interface Journal {
  /** Returns the number of the segment that contains the hold. Segment numbers increase. */
  held(hold: HoldFields): number;
  progressed(progress: RequestProgress): void;
  /** The usage row of a request that is paid from its hold. Its values must fit the database. */
  settled(row: UsageRow): void;
  /** The usage row of an unpaid request. Its values must fit the database. Returns the number of its segment. */
  recorded(row: UsageRow): number;
  /**
   * Everything written so far survives a power failure once this resolves. A segment whose sync failed is written
   * again to a new file.
   */
  sync(): Promise<void>;
  hasBefore(segment: number): boolean;
  /** Deletes the segments before this one. */
  forgetBefore(segment: number): void;
  /** `isDone`: the database has everything, so all segments can be deleted. */
  close(isDone: boolean): Promise<void>;
}

/** Created once, to avoid a closure per request. */
const encodeHeld = (encoder: JournalEncoder, hold: HoldFields) => encoder.held(hold);
const encodeProgressed = (encoder: JournalEncoder, progress: RequestProgress) => encoder.progressed(progress);
const encodeSettled = (encoder: JournalEncoder, row: UsageRow) => encoder.settled(row);
const encodeRecorded = (encoder: JournalEncoder, row: UsageRow) => encoder.recorded(row);

/** Size of the first segment. Each full segment is followed by one of twice the size. */
const FIRST_BYTES = 16 * 1024;

/** Creates the first file with the first line. An idle gateway creates many segments, so they start small. */
export function openJournal(dir: string, incarnation: string, segmentBytes: number): Journal {
  const firstBytes = Math.min(FIRST_BYTES, segmentBytes);
  let nextBytes = firstBytes;
  let segment = 1;
  let oldest = 1;
  let file: AppendFile | null = null;
  const writer = new JsonLineWriter();
  let encoder = new JournalEncoder(writer, incarnation);
  let hasNewName = false;
  const pathOf = (number: number) => join(dir, segmentName(incarnation, number));
  const unsynced = new UnsyncedSegments({ dir, pathOf, isNeeded: (number) => number >= oldest });

  /** Takes a function and not finished lines, because the encoding depends on what the segment already contains. */
  function put<Value>(encode: (encoder: JournalEncoder, value: Value) => void, value: Value): void {
    try {
      writer.clear();
      encode(encoder, value);
      if (file?.put(writer)) return;
      if (file !== null) nextBytes = Math.min(nextBytes * 2, segmentBytes);
      end();
      writer.clear();
      encoder = new JournalEncoder(writer, incarnation);
      encoder.begin();
      encode(encoder, value);
      begin();
    } catch (error) {
      end();
      throw error;
    }
  }

  /** Starts a segment with the lines that the writer already contains. */
  function begin(): void {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    file = createAppendFile(pathOf(segment), Math.max(nextBytes, writer.length));
    hasNewName = true;
    file.put(writer);
  }

  function end(): void {
    if (file === null) return;
    unsynced.add({ number: segment, file });
    file = null;
    segment++;
  }

  const shared = sharedSync(async () => {
    await unsynced.rewriteFailed();
    const ending = unsynced.takeEnded();
    const current: Segment[] = file === null ? [] : [{ number: segment, file }];
    if (hasNewName) await syncNames([...ending, ...current]);
    for (const target of [...ending]) {
      // A deleted segment needs no sync.
      if (target.number >= oldest) await syncOne(target, ending);
      ending.shift();
      target.file.close();
    }
    for (const target of current) await syncOne(target, []);
  });

  /** Syncs the folder, which contains the new file names. */
  async function syncNames(segments: readonly Segment[]): Promise<void> {
    hasNewName = false;
    try {
      await syncFolder(dir);
    } catch (error) {
      hasNewName = true;
      fail(segments);
      throw error;
    }
  }

  /** If the sync fails, the segments after this one wait for the next sync. */
  async function syncOne(target: Segment, ending: readonly Segment[]): Promise<void> {
    try {
      await target.file.sync();
    } catch (error) {
      fail([target]);
      for (const later of ending) if (later !== target) unsynced.add(later);
      throw error;
    }
  }

  /** Ends the current segment if it is one of these: nothing more may be appended to it. */
  function fail(segments: readonly Segment[]): void {
    if (segments.some((target) => target.file === file)) end();
    unsynced.fail(segments);
  }

  return {
    held(hold) {
      put(encodeHeld, hold);
      return segment;
    },
    progressed: (progress) => put(encodeProgressed, progress),
    settled: (row) => put(encodeSettled, row),
    recorded(row) {
      put(encodeRecorded, row);
      return segment;
    },
    sync: shared.flush,
    hasBefore: (number) => oldest < number && (oldest < segment || file !== null),
    forgetBefore(number) {
      if (number > segment) {
        end();
        nextBytes = firstBytes;
      }
      for (; oldest < Math.min(number, segment); oldest++) rmSync(pathOf(oldest), { force: true });
    },
    async close(isDone) {
      end();
      await shared.rest();
      unsynced.close();
      if (isDone) for (; oldest < segment; oldest++) rmSync(pathOf(oldest), { force: true });
    },
  };
}
