/** A file that lines are put into. Each of them outlives the process from the moment that it is there. */

import {
  closeSync,
  fdatasync,
  ftruncateSync,
  openSync,
  readSync,
  rmSync,
  statfsSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { promisify } from "node:util";

/** Whole lines, each with its end, at the beginning of an array. */
export interface JournalLines {
  readonly bytes: Buffer;
  readonly length: number;
}

export interface AppendFile {
  /** False if there is no room for them. If it throws none of them is in the file, and nothing more may be put there. */
  put(lines: JournalLines): boolean;
  /** What was put there survives the loss of power once this resolves. */
  sync(): Promise<void>;
  /** A copy of all that was put there. */
  content(): Buffer;
  close(): void;
}

const PARTLY = "the disk took a part of it";

/**
 * File systems where a page that has its place on the disk keeps it: ext2 to ext4, XFS and tmpfs. Others look for a new
 * place whenever they write, and kill whoever changes a mapped page when there is none left.
 */
const IN_PLACE: ReadonlySet<number> = new Set([0xef53, 0x58465342, 0x01021994]);

export const syncFile = promisify(fdatasync);
const ZEROS = Buffer.alloc(64 * 1024);

export function createAppendFile(path: string, bytesMax: number): AppendFile {
  return IN_PLACE.has(statfsSync(dirname(path)).type)
    ? createMappedFile(path, bytesMax)
    : createWrittenFile(path, bytesMax);
}

/**
 * As memory: to put a line there takes no system call. It is full of zeros at first, so that a disk without room says so
 * here, and where a line that was being put there is torn: no byte of a whole one is zero.
 */
export function createMappedFile(path: string, bytesMax: number): AppendFile {
  const file = openSync(path, "w+", 0o600);
  let bytes: Buffer<ArrayBuffer>;
  try {
    writeZeros(file, bytesMax);
    bytes = mapped(path);
  } catch (error) {
    closeSync(file);
    rmSync(path, { force: true });
    throw error;
  }
  let end = 0;
  return {
    put(lines) {
      if (lines.length > bytesMax - end) return false;
      end += lines.bytes.copy(bytes, end, 0, lines.length);
      return true;
    },
    // Linux keeps one copy of a page for all: what was changed through memory is written like anything else.
    sync: () => syncFile(file),
    content: () => Buffer.from(bytes.subarray(0, end)),
    close() {
      // Whoever takes the bytes away from a buffer unmaps them; else that waits until garbage is collected.
      bytes.buffer.transfer(0);
      closeSync(file);
    },
  };
}

function writeZeros(file: number, bytes: number): void {
  for (let left = bytes; left > 0; ) {
    const part = Math.min(left, ZEROS.length);
    if (writeSync(file, ZEROS, 0, part) !== part) throw new Error(PARTLY);
    left -= part;
  }
}

function mapped(path: string): Buffer<ArrayBuffer> {
  const { buffer, byteOffset, byteLength } = Bun.mmap(path, { shared: true });
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** Every line is written by a system call. */
export function createWrittenFile(path: string, bytesMax: number): AppendFile {
  const file = openSync(path, "w+", 0o600);
  let end = 0;
  return {
    put({ bytes, length }) {
      if (length > bytesMax - end) return false;
      try {
        if (writeSync(file, bytes, 0, length) !== length) throw new Error(PARTLY);
      } catch (error) {
        takeBack(file, end);
        throw error;
      }
      end += length;
      return true;
    },
    sync: () => syncFile(file),
    content() {
      const copy = Buffer.alloc(end);
      readSync(file, copy, 0, end, 0);
      return copy;
    },
    close: () => closeSync(file),
  };
}

function takeBack(file: number, end: number): void {
  try {
    ftruncateSync(file, end);
  } catch {
    // Whole lines that stay there were told to nobody: requests that nothing was sent for, or ends that are booked.
  }
}
