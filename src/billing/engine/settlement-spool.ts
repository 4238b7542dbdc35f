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

const NAME = /^settlements-([\w-]+)\.jsonl$/;
const buildFileName = (processId: string) => `settlements-${processId}.jsonl`;

/** Preallocated, so that there is room when the disk is full. A line is about a kilobyte. */
const RESERVE_BYTES = 512 * 1024;
const ZERO = "\0";

const openFile = promisify(open);
const closeFile = promisify(close);
const syncFile = promisify(fdatasync);
const truncateFile = promisify(ftruncate);
const writeFile = promisify(write);

/** Owns the file: how much is reserved, written and synced. Created at once, or with the first line. */
export class SettlementSpool {
  readonly #dir: string;
  readonly #path: string;
  readonly #runInOrder = createQueue();
  #file: number | null = null;
  /** Preallocated bytes, and the bytes of lines in them. */
  #size = 0;
  #end = 0;
  /** Bytes of lines that are known to be on disk. */
  #syncedBytes = 0;

  constructor(dir: string, processId: string) {
    this.#dir = dir;
    this.#path = join(dir, buildFileName(processId));
    void this.#runInOrder(() => this.#openReserved()).catch(() => {});
  }

  /** Resolves when the settlements are on disk. */
  add(settlements: readonly Settlement[]): Promise<void> {
    return this.#runInOrder(async () => {
      const file = await this.#openReserved();
      // After a failed sync the kernel may have dropped these pages. The caller adds the lines again, at the same
      // position.
      this.#end = this.#syncedBytes;
      await this.#writeLines(
        file,
        settlements.map((settlement) => `${formatLine(settlement)}\n`),
      );
      await syncFile(file);
      this.#syncedBytes = this.#end;
    });
  }

  /** Call when all added settlements have been booked. */
  clear(): Promise<void> {
    return this.#runInOrder(async () => {
      if (this.#file === null || this.#end === 0) return;
      const size = Math.min(this.#size, RESERVE_BYTES);
      await truncateFile(this.#file, size);
      this.#size = size;
      await writeAll(this.#file, Buffer.alloc(Math.min(this.#end, size)), 0);
      this.#end = 0;
      this.#syncedBytes = 0;
    });
  }

  close(): Promise<void> {
    return this.#runInOrder(async () => {
      if (this.#file === null) return;
      if (this.#end > 0) await truncateFile(this.#file, this.#end);
      await closeFile(this.#file);
      if (this.#end === 0) await rm(this.#path, { force: true });
      this.#file = null;
    });
  }

  async #openReserved(): Promise<number> {
    if (this.#file === null) {
      await mkdir(this.#dir, { recursive: true, mode: 0o700 });
      this.#file = await openFile(this.#path, "w", 0o600);
      await syncFolder(this.#dir);
    }
    if (this.#size === 0) await this.#reserve(this.#file, RESERVE_BYTES);
    return this.#file;
  }

  /** If a full disk takes only a part of the zeros, they are the end of the lines for readers. */
  async #reserve(file: number, bytes: number): Promise<void> {
    await writeAll(file, Buffer.alloc(bytes), this.#size);
    this.#size += bytes;
  }

  /** Writes the lines that fit first, so that they are saved even if no more space can be allocated. */
  async #writeLines(file: number, lines: readonly string[]): Promise<void> {
    const fitting = countFitting(lines, this.#size - this.#end);
    await this.#appendText(file, lines.slice(0, fitting).join(""));
    if (fitting === lines.length) return;
    const rest = lines.slice(fitting).join("");
    await this.#reserve(file, RESERVE_BYTES * Math.ceil(Buffer.byteLength(rest) / RESERVE_BYTES));
    await this.#appendText(file, rest);
  }

  async #appendText(file: number, text: string): Promise<void> {
    const bytes = Buffer.from(text);
    await writeAll(file, bytes, this.#end);
    this.#end += bytes.length;
  }
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
    if (bytesWritten === 0) throw new Error("the disk rejects writes");
    done += bytesWritten;
  }
}

interface OrphanedSpool extends UnreadableLine {
  processId: string;
  settlements: Settlement[];
  remove(): Promise<void>;
}

/** Reads the spool files that dead processes left in this folder. */
export async function listOrphanedSpools(
  dir: string,
  isAlive: (processId: string) => boolean,
): Promise<OrphanedSpool[]> {
  const names = await readdir(dir).catch(() => []);
  const orphaned: OrphanedSpool[] = [];
  for (const name of names.toSorted()) {
    const processId = NAME.exec(name)?.[1];
    if (processId === undefined || isAlive(processId)) continue;
    const path = join(dir, name);
    const settlements: Settlement[] = [];
    const [lines = ""] = (await readFile(path, "utf8")).split(ZERO, 1);
    const skipped = readJsonLines(lines.split("\n"), (json) => {
      settlements.push(toSettlement(json));
    });
    orphaned.push({ processId, settlements, ...skipped, remove: () => rm(path, { force: true }) });
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
