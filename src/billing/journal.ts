/**
 * What the express lane has promised and the store does not know yet: lines in a file, which outlive the process. The
 * file is cut into segments, so that what the store has meanwhile can be thrown away.
 */

import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Hold, HoldProgress } from "../store/holds.ts";
import { sharedSync } from "../store/shared-sync.ts";
import type { Settlement } from "./booking.ts";
import { COLUMNS_LINE, heldLine, progressLine, settledLine } from "./journal-lines.ts";
import { syncFolder } from "./json-lines.ts";
import { segmentName } from "./left-journals.ts";
import { bytesFor, type LineFile, makeLineFile } from "./line-file.ts";

/** What is told to it outlives the process when the call returns. If it throws nothing of it is written. */
export interface Journal {
  /** Returns the number of the segment that tells of it; later ones have greater numbers. */
  held(hold: Hold): number;
  progressed(requestId: string, progress: HoldProgress): void;
  settled(settlement: Settlement): void;
  /** What was told survives the loss of power once this resolves. */
  sync(): Promise<void>;
  hasBefore(segment: number): boolean;
  /** Segments before this one are of no more use. */
  forgetBefore(segment: number): void;
  /** `isDone`: nothing in it is of any more use. */
  close(isDone: boolean): Promise<void>;
}

/** The first file is made when the first line comes. */
export function openJournal(dir: string, incarnation: string, segmentBytes: number): Journal {
  let segment = 1;
  let oldest = 1;
  let file: LineFile | null = null;
  let hasNewName = false;
  /** Segments that ended, and may not be on the disk yet. */
  let ended: LineFile[] = [];

  const pathOf = (number: number) => join(dir, segmentName(incarnation, number));

  function put(line: string): void {
    try {
      if (file?.put(line)) return;
      end();
      begin(line);
    } catch (error) {
      end();
      throw error;
    }
  }

  function begin(line: string): void {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    const bytes = Math.max(segmentBytes, bytesFor(COLUMNS_LINE) + bytesFor(line));
    file = makeLineFile(pathOf(segment), bytes);
    hasNewName = true;
    file.put(COLUMNS_LINE);
    file.put(line);
  }

  function end(): void {
    if (file === null) return;
    ended.push(file);
    file = null;
    segment++;
  }

  const shared = sharedSync(async () => {
    const closing = ended;
    ended = [];
    const files = file === null ? closing : [...closing, file];
    const isNamed = !hasNewName;
    hasNewName = false;
    try {
      if (!isNamed) await syncFolder(dir);
      for (const one of files) await one.sync();
    } catch (error) {
      hasNewName ||= !isNamed;
      throw error;
    } finally {
      for (const one of closing) one.close();
    }
  });

  return {
    held(hold) {
      put(heldLine(hold));
      return segment;
    },
    progressed: (requestId, progress) => put(progressLine(requestId, progress)),
    settled: (settlement) => put(settledLine(settlement)),
    sync: shared.flush,
    hasBefore: (number) => oldest < number && (oldest < segment || file !== null),
    forgetBefore(number) {
      if (number > segment) end();
      for (; oldest < Math.min(number, segment); oldest++) rmSync(pathOf(oldest), { force: true });
    },
    async close(isDone) {
      end();
      await shared.rest();
      for (const one of ended) one.close();
      ended = [];
      if (isDone) for (; oldest < segment; oldest++) rmSync(pathOf(oldest), { force: true });
    },
  };
}
