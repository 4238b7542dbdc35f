/** Finds and reads journals of dead processes. */

import { readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { readSegment, type SegmentDamage } from "./journal-segment.ts";
import { type JournalContent, readJournal } from "./read-journal.ts";

const NAME = /^journal-([\w-]+)\.(\d+)\.jsonl$/;
export const segmentName = (processId: string, segment: number) => `journal-${processId}.${segment}.jsonl`;

export interface OrphanedJournal extends JournalContent {
  processId: string;
  /** Segments that could not be read to their end. */
  damaged: readonly DamagedSegment[];
  /** Damaged segments are renamed and kept, so that an operator can inspect them. */
  remove(): void;
}

export interface DamagedSegment extends SegmentDamage {
  name: string;
}

/** Reads the journals that dead processes left in this folder. */
export function listOrphanedJournals(
  dir: string,
  isAlive: (processId: string) => boolean,
): OrphanedJournal[] {
  const segments = new Map<string, number[]>();
  for (const name of listNames(dir)) {
    const [, processId, number] = NAME.exec(name) ?? [];
    if (processId === undefined || isAlive(processId)) continue;
    segments.set(processId, [...(segments.get(processId) ?? []), Number(number)]);
  }
  return [...segments].map(([processId, numbers]) => readOrphaned(dir, processId, numbers));
}

function readOrphaned(dir: string, processId: string, numbers: readonly number[]): OrphanedJournal {
  const names = numbers.toSorted((a, b) => a - b).map((number) => segmentName(processId, number));
  const segments = names.map((name) => ({ name, ...readSegment(readFileSync(join(dir, name))) }));
  const damaged = segments.flatMap(({ name, damage }) => (damage === null ? [] : { name, ...damage }));
  const content = readJournal(
    segments.flatMap(({ lines }) => lines),
    processId,
  );
  return {
    processId,
    ...content,
    torn: segments.reduce((sum, { torn }) => sum + torn, content.torn),
    damaged,
    remove() {
      for (const { name, damage } of segments) {
        const path = join(dir, name);
        if (damage === null) rmSync(path, { force: true });
        else renameSync(path, `${path}.damaged`);
      }
    },
  };
}

function listNames(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch {
    return [];
  }
}
