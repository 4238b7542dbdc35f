/**
 * What the till has promised and the store does not know yet: lines in a file, which outlive the process. The file is
 * cut into segments, so that what the store has meanwhile can be thrown away.
 */

import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { sharedSync } from "../../store/engine/shared-sync.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";
import { syncFolder } from "../engine/json-lines.ts";
import { type AppendFile, createAppendFile } from "./append-file.ts";
import type { HoldFields } from "./hold-lines.ts";
import { JournalEncoder, type ProgressOf } from "./journal-lines.ts";
import { JsonLineWriter } from "./json-line-writer.ts";
import { segmentName } from "./left-journals.ts";
import { type Segment, UnsyncedSegments } from "./unsynced-segments.ts";

/** What is told to it outlives the process when the call returns. If it throws nothing of it is written. */
export interface Journal {
  /** Returns the number of the segment that tells of it; later ones have greater numbers. */
  held(given: HoldFields): number;
  progressed(some: ProgressOf): void;
  /** The row of a request that its hold pays for, which fits the store. */
  settled(row: UsageRow): void;
  /** The row of a request that nobody pays for, which fits the store. Returns the number of its segment, too. */
  recorded(row: UsageRow): number;
  /** What was told survives the loss of power once this resolves. A segment whose sync failed is written anew. */
  sync(): Promise<void>;
  hasBefore(segment: number): boolean;
  /** Segments before this one are of no more use. */
  forgetBefore(segment: number): void;
  /** `isDone`: nothing in it is of any more use. */
  close(isDone: boolean): Promise<void>;
}

/** Made once: every request would make its own. */
const tellHeld = (teller: JournalEncoder, given: HoldFields) => teller.held(given);
const tellProgressed = (teller: JournalEncoder, some: ProgressOf) => teller.progressed(some);
const tellSettled = (teller: JournalEncoder, row: UsageRow) => teller.settled(row);
const tellRecorded = (teller: JournalEncoder, row: UsageRow) => teller.recorded(row);

/** Of the first segment; each that gets full is followed by one of twice the size. */
const FIRST_BYTES = 16 * 1024;

/** The first file is made when the first line comes. A gateway with little to do makes many, so they begin small. */
export function openJournal(dir: string, incarnation: string, segmentBytes: number): Journal {
  const firstBytes = Math.min(FIRST_BYTES, segmentBytes);
  let nextBytes = firstBytes;
  let segment = 1;
  let oldest = 1;
  let file: AppendFile | null = null;
  const pen = new JsonLineWriter();
  let teller = new JournalEncoder(pen, incarnation);
  let hasNewName = false;
  const pathOf = (number: number) => join(dir, segmentName(incarnation, number));
  const unsynced = new UnsyncedSegments({ dir, pathOf, isNeeded: (number) => number >= oldest });

  /** What is to be told may depend on what the segment tells already. */
  function put<Told>(tell: (teller: JournalEncoder, told: Told) => void, told: Told): void {
    try {
      pen.clear();
      tell(teller, told);
      if (file?.put(pen)) return;
      if (file !== null) nextBytes = Math.min(nextBytes * 2, segmentBytes);
      end();
      pen.clear();
      teller = new JournalEncoder(pen, incarnation);
      teller.begin();
      tell(teller, told);
      begin();
    } catch (error) {
      end();
      throw error;
    }
  }

  /** With what is written already. */
  function begin(): void {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    file = createAppendFile(pathOf(segment), Math.max(nextBytes, pen.length));
    hasNewName = true;
    file.put(pen);
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
    for (const one of [...ending]) {
      // What was thrown away need not reach the disk.
      if (one.number >= oldest) await syncOne(one, ending);
      ending.shift();
      one.file.close();
    }
    for (const one of current) await syncOne(one, []);
  });

  /** The folder, in which these have new names. */
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

  /** Those after it are for the next sync. */
  async function syncOne(one: Segment, ending: readonly Segment[]): Promise<void> {
    try {
      await one.file.sync();
    } catch (error) {
      fail([one]);
      for (const later of ending) if (later !== one) unsynced.add(later);
      throw error;
    }
  }

  /** Nothing more is put into one of these. */
  function fail(segments: readonly Segment[]): void {
    if (segments.some((one) => one.file === file)) end();
    unsynced.fail(segments);
  }

  return {
    held(given) {
      put(tellHeld, given);
      return segment;
    },
    progressed: (some) => put(tellProgressed, some),
    settled: (row) => put(tellSettled, row),
    recorded(row) {
      put(tellRecorded, row);
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
