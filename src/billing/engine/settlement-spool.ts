/**
 * Saves settlements that the database did not accept in time in a file of JSON lines; each is on disk before its
 * request continues. Replaying a booked settlement changes nothing, so a line is removed only after it was booked.
 * The file is preallocated with zeros: a full disk, which may be why the database fails, still has room for some
 * hundred lines.
 */

import { close, fdatasync, ftruncate, open, write } from "node:fs";
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { z } from "zod";
import { createQueue } from "../../store/engine/transaction.ts";
import { clampCount, toUsageRow } from "../../store/usage/usage-row.ts";
import { asStored, toValues, USAGE_COLUMNS } from "../../store/usage/usage-values.ts";
import type { Settlement } from "./booking.ts";
import { readJsonLines, syncFolder, type UnreadableLine } from "./json-lines.ts";

export interface SettlementSpool {
  /** Resolves when the settlements are on disk. */
  add(settlements: readonly Settlement[]): Promise<void>;
  /** Call when all added settlements have been booked. */
  clear(): Promise<void>;
  close(): Promise<void>;
}

const NAME = /^settlements-([\w-]+)\.jsonl$/;
const buildFileName = (incarnation: string) => `settlements-${incarnation}.jsonl`;

/** Preallocated, so that there is room when the disk is full. A line is about a kilobyte. */
const RESERVE_BYTES = 512 * 1024;
const ZERO = "\0";

const openFile = promisify(open);
const closeFile = promisify(close);
const syncFile = promisify(fdatasync);
const cutFile = promisify(ftruncate);
const writeFile = promisify(write);

/** Creates the file at once, or with the first line if that fails. */
export function openSettlementSpool(dir: string, incarnation: string): SettlementSpool {
  const path = join(dir, buildFileName(incarnation));
  let file: number | null = null;
  /** Preallocated bytes, and the bytes of lines in them. */
  let size = 0;
  let end = 0;
  /** Bytes of lines that are known to be on disk. */
  let synced = 0;
  const runInOrder = createQueue();

  async function openReserved(): Promise<number> {
    if (file === null) {
      await mkdir(dir, { recursive: true, mode: 0o700 });
      file = await openFile(path, "w", 0o600);
      await syncFolder(dir);
    }
    if (size === 0) await reserve(file, RESERVE_BYTES);
    return file;
  }

  /**
   * If a full disk accepts only a part of the zeros, readers see them as the end of the lines, and the next lines
   * overwrite them.
   */
  async function reserve(to: number, bytes: number): Promise<void> {
    await writeAll(to, Buffer.alloc(bytes), size);
    size += bytes;
  }

  async function put(to: number, text: string): Promise<void> {
    const bytes = Buffer.from(text);
    await writeAll(to, bytes, end);
    end += bytes.length;
  }

  void runInOrder(openReserved).catch(() => {});
  return {
    add: (settlements) =>
      runInOrder(async () => {
        const to = await openReserved();
        // After a failed sync the kernel may have dropped these pages. The caller adds the lines again, at the same
        // position.
        end = synced;
        const lines = settlements.map((settlement) => `${formatLine(settlement)}\n`);
        // Writes the lines that fit first, so that they are saved even if no more space can be allocated.
        const fitting = countFitting(lines, size - end);
        await put(to, lines.slice(0, fitting).join(""));
        if (fitting < lines.length) {
          const rest = lines.slice(fitting).join("");
          await reserve(to, RESERVE_BYTES * Math.ceil(Buffer.byteLength(rest) / RESERVE_BYTES));
          await put(to, rest);
        }
        await syncFile(to);
        synced = end;
      }),
    clear: () =>
      runInOrder(async () => {
        if (file === null || end === 0) return;
        await cutFile(file, Math.min(size, RESERVE_BYTES));
        size = Math.min(size, RESERVE_BYTES);
        await writeAll(file, Buffer.alloc(Math.min(end, size)), 0);
        end = 0;
        synced = 0;
      }),
    close: () =>
      runInOrder(async () => {
        if (file === null) return;
        if (end > 0) await cutFile(file, end);
        await closeFile(file);
        if (end === 0) await rm(path, { force: true });
        file = null;
      }),
  };
}

/** How many lines, from the first, fit in `bytes`. */
function countFitting(lines: readonly string[], bytes: number): number {
  let bytesLeft = bytes;
  const first = lines.findIndex((line) => {
    bytesLeft -= Buffer.byteLength(line);
    return bytesLeft < 0;
  });
  return first === -1 ? lines.length : first;
}

async function writeAll(to: number, bytes: Uint8Array, at: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await writeFile(to, bytes, done, bytes.length - done, at + done);
    if (bytesWritten === 0) throw new Error("the disk takes nothing");
    done += bytesWritten;
  }
}

export interface OrphanedSpool extends UnreadableLine {
  incarnation: string;
  settlements: Settlement[];
  remove(): Promise<void>;
}

/** Reads the spool files that dead processes left in this folder. */
export async function listOrphanedSpools(
  dir: string,
  isAlive: (incarnation: string) => boolean,
): Promise<OrphanedSpool[]> {
  const names = await readdir(dir).catch(() => []);
  const orphaned: OrphanedSpool[] = [];
  for (const name of names.toSorted()) {
    const incarnation = NAME.exec(name)?.[1];
    if (incarnation === undefined || isAlive(incarnation)) continue;
    const path = join(dir, name);
    const settlements: Settlement[] = [];
    const [lines = ""] = (await readFile(path, "utf8")).split(ZERO, 1);
    const skipped = readJsonLines(lines.split("\n"), (json) => {
      settlements.push(toSettlement(json));
    });
    orphaned.push({ incarnation, settlements, ...skipped, remove: () => rm(path, { force: true }) });
  }
  return orphaned;
}

function formatLine({ row, chargedNano }: Settlement): string {
  return JSON.stringify({
    charged: chargedNano.toString(),
    row: asStored(USAGE_COLUMNS, toValues(clampCount(row))),
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
