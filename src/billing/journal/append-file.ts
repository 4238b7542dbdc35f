/** A file that lines are appended to. Each line survives the death of the process from the moment it is appended. */

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

/** A whole line with its line end, at the start of a buffer. */
export interface JournalLine {
  readonly bytes: Buffer;
  readonly length: number;
}

export interface AppendFile {
  /** False if the line does not fit. If it throws, the line is not in the file: append nothing more. */
  put(line: JournalLine): boolean;
  /** Everything appended so far survives a power failure once this resolves. */
  sync(): Promise<void>;
  /** A copy of everything appended so far. */
  content(): Buffer;
  close(): void;
}

const PARTLY = "the file was written only partly";

/**
 * File systems that overwrite a page in place: ext2 to ext4, XFS and tmpfs. Others allocate a new block for each
 * write. If the disk is full, they kill a process that changes a mapped page.
 */
const IN_PLACE: ReadonlySet<number> = new Set([0xef53, 0x58465342, 0x01021994]);

export const syncFile = promisify(fdatasync);
const ZEROS = Buffer.alloc(64 * 1024);

export function createAppendFile(path: string, bytesMax: number): AppendFile {
  return IN_PLACE.has(statfsSync(dirname(path)).type)
    ? createMappedFile(path, bytesMax)
    : createUnmappedFile(path, bytesMax);
}

/**
 * Appends through mapped memory, without a system call per line. The file is filled with zeros first: a full disk
 * fails here, and a torn line is recognizable, because a whole line contains no zero byte.
 */
export function createMappedFile(path: string, bytesMax: number): AppendFile {
  const file = openSync(path, "w+", 0o600);
  let bytes: Buffer<ArrayBuffer>;
  try {
    writeZeros(file, bytesMax);
    bytes = mapFile(path);
  } catch (error) {
    closeSync(file);
    rmSync(path, { force: true });
    throw error;
  }
  let end = 0;
  return {
    put(line) {
      if (line.length > bytesMax - end) return false;
      end += line.bytes.copy(bytes, end, 0, line.length);
      return true;
    },
    // Linux keeps one copy of a page for all users, so a sync also writes changes made through mapped memory.
    sync: () => syncFile(file),
    content: () => Buffer.from(bytes.subarray(0, end)),
    close() {
      // Transferring the buffer unmaps the memory now. Otherwise it stays mapped until garbage collection.
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

function mapFile(path: string): Buffer<ArrayBuffer> {
  const { buffer, byteOffset, byteLength } = Bun.mmap(path, { shared: true });
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** Appends each line with a system call. */
export function createUnmappedFile(path: string, bytesMax: number): AppendFile {
  const file = openSync(path, "w+", 0o600);
  let end = 0;
  return {
    put({ bytes, length }) {
      if (length > bytesMax - end) return false;
      try {
        if (writeSync(file, bytes, 0, length) !== length) throw new Error(PARTLY);
      } catch (error) {
        truncateTo(file, end);
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

function truncateTo(file: number, end: number): void {
  try {
    ftruncateSync(file, end);
  } catch {
    // Whole lines that stay in the file were not acknowledged: they are holds of requests that were never sent, or
    // settlements that are booked by other means.
  }
}
