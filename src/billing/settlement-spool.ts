/**
 * Settlements that the store did not take in time, kept in a file until it has: JSON lines, each on the disk before
 * its request goes on. Replaying one that was booked meanwhile changes nothing, so a line is removed only after that.
 */

import { type FileHandle, mkdir, open, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { createQueue } from "../store/scope.ts";
import { asStored, storable, toUsageRow, toValues, USAGE_COLUMNS } from "../store/usage-row.ts";
import type { Settlement } from "./booking.ts";
import { readJsonLines, syncFolder, type Untaken } from "./json-lines.ts";

export interface SettlementSpool {
  /** Resolves when they are on the disk. */
  add(settlements: readonly Settlement[]): Promise<void>;
  /** All that was added has been booked. */
  clear(): Promise<void>;
  close(): Promise<void>;
}

const NAME = /^settlements-([\w-]+)\.jsonl$/;
const nameOf = (incarnation: string) => `settlements-${incarnation}.jsonl`;

/** The file is made when the first line comes. */
export function openSettlementSpool(dir: string, incarnation: string): SettlementSpool {
  const path = join(dir, nameOf(incarnation));
  let file: FileHandle | null = null;
  const inTurn = createQueue();

  async function opened(): Promise<FileHandle> {
    if (file !== null) return file;
    await mkdir(dir, { recursive: true, mode: 0o700 });
    file = await open(path, "a", 0o600);
    await syncFolder(dir);
    return file;
  }

  return {
    add: (settlements) =>
      inTurn(async () => {
        const to = await opened();
        // Begins with a line's end, in case an earlier write broke off in the middle of a line.
        await to.appendFile(`\n${settlements.map(lineOf).join("\n")}\n`);
        await to.datasync();
      }),
    clear: () => inTurn(async () => void (await file?.truncate(0))),
    close: () =>
      inTurn(async () => {
        const size = (await file?.stat())?.size;
        await file?.close();
        if (size === 0) await rm(path, { force: true });
        file = null;
      }),
  };
}

export interface LeftSpool extends Untaken {
  incarnation: string;
  settlements: Settlement[];
  remove(): Promise<void>;
}

/** What other processes left in this folder. */
export async function leftSpools(
  dir: string,
  isAlive: (incarnation: string) => boolean,
): Promise<LeftSpool[]> {
  const names = await readdir(dir).catch(() => []);
  const left: LeftSpool[] = [];
  for (const name of names.toSorted()) {
    const incarnation = NAME.exec(name)?.[1];
    if (incarnation === undefined || isAlive(incarnation)) continue;
    const path = join(dir, name);
    const settlements: Settlement[] = [];
    const untaken = readJsonLines(await readFile(path, "utf8"), (json) => {
      settlements.push(toSettlement(json));
    });
    left.push({ incarnation, settlements, ...untaken, remove: () => rm(path, { force: true }) });
  }
  return left;
}

function lineOf({ row, chargedNano }: Settlement): string {
  return JSON.stringify({
    charged: chargedNano.toString(),
    row: asStored(USAGE_COLUMNS, toValues(storable(row))),
  });
}

const lineSchema = z.object({
  charged: z.string().regex(/^-?\d{1,19}$/),
  row: z.record(z.string(), z.union([z.string(), z.number(), z.null()])),
});

function toSettlement(json: unknown): Settlement {
  const { charged, row } = lineSchema.parse(json);
  return { row: toUsageRow(row), chargedNano: BigInt(charged) };
}
