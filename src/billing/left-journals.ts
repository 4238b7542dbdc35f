/** Journals of processes that are no more. */

import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type JournalTold, readJournal } from "./read-journal.ts";

const NAME = /^journal-([\w-]+)\.(\d+)\.jsonl$/;
export const segmentName = (incarnation: string, segment: number) =>
  `journal-${incarnation}.${segment}.jsonl`;

export interface LeftJournal extends JournalTold {
  incarnation: string;
  remove(): void;
}

/** What other processes left in this folder. */
export function leftJournals(dir: string, isAlive: (incarnation: string) => boolean): LeftJournal[] {
  const segments = new Map<string, number[]>();
  for (const name of namesIn(dir)) {
    const [, incarnation, number] = NAME.exec(name) ?? [];
    if (incarnation === undefined || isAlive(incarnation)) continue;
    segments.set(incarnation, [...(segments.get(incarnation) ?? []), Number(number)]);
  }
  return [...segments].map(([incarnation, numbers]) => {
    const paths = numbers.sort((a, b) => a - b).map((number) => join(dir, segmentName(incarnation, number)));
    // A segment ends with a line's end, or with one that was torn.
    const text = paths.map(textOf).join("\n");
    return {
      incarnation,
      ...readJournal(text),
      remove: () => paths.forEach((path) => void rmSync(path, { force: true })),
    };
  });
}

function namesIn(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch {
    return [];
  }
}

/** Up to the first zero: nothing was put there, or not all of it. */
function textOf(path: string): string {
  const bytes = readFileSync(path);
  const end = bytes.indexOf(0);
  return bytes.toString("utf8", 0, end === -1 ? bytes.length : end);
}
