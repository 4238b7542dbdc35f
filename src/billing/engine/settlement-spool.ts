/**
 * Settlements that the store did not take in time, kept in a file until it has: JSON lines, each on the disk before
 * its request goes on. Replaying one that was booked meanwhile changes nothing, so a line is removed only after that.
 * The file is full of zeros at first, so that a full disk, which is why the store may take nothing, has room for some
 * hundred of them.
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
  /** Resolves when they are on the disk. */
  add(settlements: readonly Settlement[]): Promise<void>;
  /** All that was added has been booked. */
  clear(): Promise<void>;
  close(): Promise<void>;
}

const NAME = /^settlements-([\w-]+)\.jsonl$/;
const nameOf = (incarnation: string) => `settlements-${incarnation}.jsonl`;

/** Written in advance, so that a full disk still has room. A line is about a kilobyte. */
const RESERVE_BYTES = 512 * 1024;
const ZERO = "\0";

const openFile = promisify(open);
const closeFile = promisify(close);
const syncFile = promisify(fdatasync);
const cutFile = promisify(ftruncate);
const writeFile = promisify(write);

/** The file is made at once; where that fails, when the first line comes. */
export function openSettlementSpool(dir: string, incarnation: string): SettlementSpool {
  const path = join(dir, nameOf(incarnation));
  let file: number | null = null;
  /** Bytes that are reserved, and bytes of lines in them. */
  let size = 0;
  let end = 0;
  /** Bytes of lines that are known to be on the disk. */
  let synced = 0;
  const inTurn = createQueue();

  async function opened(): Promise<number> {
    if (file === null) {
      await mkdir(dir, { recursive: true, mode: 0o700 });
      file = await openFile(path, "w", 0o600);
      await syncFolder(dir);
    }
    if (size === 0) await reserve(file, RESERVE_BYTES);
    return file;
  }

  /** Zeros that a full disk took in part are lines' end to whoever reads, and overwritten by the next ones. */
  async function reserve(to: number, bytes: number): Promise<void> {
    await writeAll(to, Buffer.alloc(bytes), size);
    size += bytes;
  }

  async function put(to: number, text: string): Promise<void> {
    const bytes = Buffer.from(text);
    await writeAll(to, bytes, end);
    end += bytes.length;
  }

  void inTurn(opened).catch(() => {});
  return {
    add: (settlements) =>
      inTurn(async () => {
        const to = await opened();
        // After a failed sync the kernel may have forgotten these pages: the caller adds the lines again, in their place.
        end = synced;
        const lines = settlements.map((settlement) => `${lineOf(settlement)}\n`);
        // What has its place is there, whatever becomes of the rest.
        const fitting = many(lines, size - end);
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
      inTurn(async () => {
        if (file === null || end === 0) return;
        await cutFile(file, Math.min(size, RESERVE_BYTES));
        size = Math.min(size, RESERVE_BYTES);
        await writeAll(file, Buffer.alloc(Math.min(end, size)), 0);
        end = 0;
        synced = 0;
      }),
    close: () =>
      inTurn(async () => {
        if (file === null) return;
        if (end > 0) await cutFile(file, end);
        await closeFile(file);
        if (end === 0) await rm(path, { force: true });
        file = null;
      }),
  };
}

/** How many of these lines, from the first on, have room in so many bytes. */
function many(lines: readonly string[], bytes: number): number {
  let left = bytes;
  const first = lines.findIndex((line) => {
    left -= Buffer.byteLength(line);
    return left < 0;
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

/** What other processes left in this folder. */
export async function listOrphanedSpools(
  dir: string,
  isAlive: (incarnation: string) => boolean,
): Promise<OrphanedSpool[]> {
  const names = await readdir(dir).catch(() => []);
  const left: OrphanedSpool[] = [];
  for (const name of names.toSorted()) {
    const incarnation = NAME.exec(name)?.[1];
    if (incarnation === undefined || isAlive(incarnation)) continue;
    const path = join(dir, name);
    const settlements: Settlement[] = [];
    const [lines = ""] = (await readFile(path, "utf8")).split(ZERO, 1);
    const untaken = readJsonLines(lines.split("\n"), (json) => {
      settlements.push(toSettlement(json));
    });
    left.push({ incarnation, settlements, ...untaken, remove: () => rm(path, { force: true }) });
  }
  return left;
}

function lineOf({ row, chargedNano }: Settlement): string {
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
