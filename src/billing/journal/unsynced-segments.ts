/**
 * Ended journal segments that may not be on disk yet. After a failed sync the kernel may have dropped their pages,
 * and a later sync of the same file would succeed without writing them. So their content is written to a new file,
 * which is synced.
 */

import { closeSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { syncFolder } from "../engine/json-lines.ts";
import { type AppendFile, syncFile } from "./append-file.ts";
import { readSegment } from "./journal-segment.ts";

export interface Segment {
  number: number;
  file: AppendFile;
}

interface UnsyncedOptions {
  dir: string;
  buildPath(number: number): string;
  /** Whether this segment contains anything the database does not have. */
  isNeeded(number: number): boolean;
}

export class UnsyncedSegments {
  readonly #options: UnsyncedOptions;
  #ended: Segment[] = [];
  #failed: Segment[] = [];

  constructor(options: UnsyncedOptions) {
    this.#options = options;
  }

  add(segment: Segment): void {
    this.#ended.push(segment);
  }

  /** Marks segments whose next sync result would be meaningless. */
  markFailed(segments: readonly Segment[]): void {
    const files = new Set(segments.map(({ file }) => file));
    this.#ended = this.#ended.filter(({ file }) => !files.has(file));
    this.#failed.push(...segments.filter(({ file }) => !this.#failed.some((one) => one.file === file)));
  }

  /** Removes and returns the ended segments. The caller must sync, re-add or fail them. */
  takeEnded(): Segment[] {
    const taken = this.#ended;
    this.#ended = [];
    return taken;
  }

  /** Resolves when the content of all failed segments is on disk. */
  async rewriteFailed(): Promise<void> {
    for (const segment of [...this.#failed]) {
      if (this.#options.isNeeded(segment.number)) await this.#rewrite(segment);
      this.#failed = this.#failed.filter((one) => one !== segment);
      segment.file.close();
    }
  }

  close(): void {
    for (const { file } of [...this.#ended, ...this.#failed]) file.close();
    this.#ended = [];
    this.#failed = [];
  }

  async #rewrite({ number, file }: Segment): Promise<void> {
    const { dir, buildPath, isNeeded } = this.#options;
    const content = file.content();
    const { damage, torn } = readSegment(content);
    if (damage !== null || torn > 0) throw new Error("a part of the journal was lost");
    const path = buildPath(number);
    const copy = `${path}.new`;
    try {
      await writeSynced(copy, content);
      renameSync(copy, path);
    } catch (error) {
      rmSync(copy, { force: true });
      throw error;
    }
    await syncFolder(dir);
    if (!isNeeded(number)) rmSync(path, { force: true });
  }
}

async function writeSynced(path: string, content: Uint8Array): Promise<void> {
  const file = openSync(path, "w", 0o600);
  try {
    for (let done = 0; done < content.length; ) {
      const written = writeSync(file, content, done, content.length - done);
      if (written === 0) throw new Error("the disk rejects writes");
      done += written;
    }
    await syncFile(file);
  } finally {
    closeSync(file);
  }
}
