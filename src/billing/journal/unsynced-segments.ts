/**
 * Segments of a journal that ended and may not be on the disk yet. After a failed sync the kernel may have forgotten
 * their pages, and a later sync of the same file would say nothing: their content is written to a new file, and that
 * one is synced.
 */

import { closeSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { syncFolder } from "../engine/json-lines.ts";
import { type AppendFile, syncFile } from "./append-file.ts";
import { readSegment } from "./journal-segment.ts";

export interface Segment {
  number: number;
  file: AppendFile;
}

export interface UnsyncedOptions {
  dir: string;
  pathOf(number: number): string;
  /** Whether something in this segment is still of use. */
  isNeeded(number: number): boolean;
}

export class UnsyncedSegments {
  private readonly options: UnsyncedOptions;
  private ended: Segment[] = [];
  private failed: Segment[] = [];

  constructor(options: UnsyncedOptions) {
    this.options = options;
  }

  add(segment: Segment): void {
    this.ended.push(segment);
  }

  /** Those that a later sync can tell nothing of. */
  fail(segments: readonly Segment[]): void {
    const files = new Set(segments.map(({ file }) => file));
    this.ended = this.ended.filter(({ file }) => !files.has(file));
    this.failed.push(...segments.filter(({ file }) => !this.failed.some((one) => one.file === file)));
  }

  /** Those that ended by now; they are the caller's to sync, to hand back or to fail. */
  takeEnded(): Segment[] {
    const taken = this.ended;
    this.ended = [];
    return taken;
  }

  /** Resolves when the content of all that failed before is on the disk. */
  async rewriteFailed(): Promise<void> {
    for (const segment of [...this.failed]) {
      if (this.options.isNeeded(segment.number)) await this.rewrite(segment);
      this.failed = this.failed.filter((one) => one !== segment);
      segment.file.close();
    }
  }

  close(): void {
    for (const { file } of [...this.ended, ...this.failed]) file.close();
    this.ended = [];
    this.failed = [];
  }

  private async rewrite({ number, file }: Segment): Promise<void> {
    const { dir, pathOf, isNeeded } = this.options;
    const content = file.content();
    const { damage, torn } = readSegment(content);
    if (damage !== null || torn > 0) throw new Error("the system has lost a part of the journal");
    const path = pathOf(number);
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
      if (written === 0) throw new Error("the disk takes nothing");
      done += written;
    }
    await syncFile(file);
  } finally {
    closeSync(file);
  }
}
