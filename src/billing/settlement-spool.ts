/**
 * Settlements that the store did not take in time, kept in a file until it has: JSON lines, each on the disk before
 * its request goes on. Replaying one that was booked meanwhile changes nothing, so a line is removed only after that.
 */

import { type FileHandle, mkdir, open, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { storable, toUsageRow, toValues, USAGE_COLUMNS } from "../store/usage-row.ts";
import type { Settlement } from "./booking.ts";

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
  let tail: Promise<unknown> = Promise.resolve();

  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = tail.then(work);
    tail = result.catch(() => {});
    return result;
  }

  async function opened(): Promise<FileHandle> {
    if (file !== null) return file;
    await mkdir(dir, { recursive: true, mode: 0o700 });
    file = await open(path, "a", 0o600);
    // The name itself has to survive as well.
    const folder = await open(dir, "r");
    await folder.sync().finally(() => folder.close());
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

export interface LeftSpool {
  incarnation: string;
  settlements: Settlement[];
  /** Lines that are none: torn by a crash, and never acknowledged. */
  torn: number;
  /** Lines that another version wrote, and that this one cannot understand. */
  unreadable: number;
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
    const lines = (await readFile(path, "utf8")).split("\n").filter((line) => line !== "");
    const read = lines.map(toSettlement);
    const settlements = read.filter((one) => typeof one !== "string");
    left.push({
      incarnation,
      settlements,
      torn: read.filter((one) => one === "torn").length,
      unreadable: read.filter((one) => one === "unreadable").length,
      remove: () => rm(path, { force: true }),
    });
  }
  return left;
}

function lineOf({ row, chargedNano }: Settlement): string {
  const values = toValues(storable(row));
  return JSON.stringify({
    charged: chargedNano.toString(),
    row: Object.fromEntries(
      USAGE_COLUMNS.map((column, index) => {
        const value = values[index] ?? null;
        // As the database gives it back: money is text.
        return [column, column.endsWith("_nano") ? String(value) : value];
      }),
    ),
  });
}

const lineSchema = z.object({
  charged: z.string().regex(/^-?\d{1,19}$/),
  row: z.record(z.string(), z.union([z.string(), z.number(), z.null()])),
});

function toSettlement(line: string): Settlement | "torn" | "unreadable" {
  let json: unknown;
  try {
    json = JSON.parse(line);
  } catch {
    return "torn";
  }
  try {
    const { charged, row } = lineSchema.parse(json);
    return { row: toUsageRow(row), chargedNano: BigInt(charged) };
  } catch {
    return "unreadable";
  }
}
