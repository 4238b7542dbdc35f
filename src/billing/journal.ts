/**
 * What the express lane has promised and the store does not know yet: lines appended to a file, which outlive the
 * process. The file is cut into segments, so that what the store has meanwhile can be thrown away.
 */

import {
  closeSync,
  fdatasync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { z } from "zod";
import { INTERFACES } from "../records.ts";
import { HOLD_STATES, type Hold, type HoldProgress, UNSENT } from "../store/holds.ts";
import { sharedSync } from "../store/shared-sync.ts";
import { asStored, nanoValue, toUsageRow, toValues, USAGE_COLUMNS } from "../store/usage-row.ts";
import type { Settlement } from "./booking.ts";
import { readJsonLines, syncFolder, type Untaken } from "./json-lines.ts";

export interface Journal {
  /** Of the segment that the next lines go to; later ones have greater numbers. */
  readonly segment: number;
  held(hold: Hold): void;
  progressed(requestId: string, progress: HoldProgress): void;
  settled(settlement: Settlement): void;
  /** All of the above is in the file when it returns. If it throws nothing of it is, and it is forgotten. */
  write(): void;
  /** What is written survives the loss of power once this resolves. */
  sync(): Promise<void>;
  hasBefore(segment: number): boolean;
  /** Segments before this one are of no more use. */
  forgetBefore(segment: number): void;
  /** `isDone`: nothing in it is of any more use. */
  close(isDone: boolean): Promise<void>;
}

const NAME = /^journal-([\w-]+)\.(\d+)\.jsonl$/;
const nameOf = (incarnation: string, segment: number) => `journal-${incarnation}.${segment}.jsonl`;

const syncFile = promisify(fdatasync);
/** What one turn of the event loop writes is seldom more. */
const SCRATCH_BYTES = 64 * 1024;
/** Of one unit of a string. */
const UTF8_BYTES_MAX = 3;

/** The first file is made when the first line comes. */
export function openJournal(dir: string, incarnation: string, segmentBytesMax: number): Journal {
  const scratch = Buffer.allocUnsafe(SCRATCH_BYTES);
  let lines = "";
  let segment = 1;
  let oldest = 1;
  let file: number | null = null;
  let bytes = 0;
  let hasNewName = false;
  /** Of segments that ended, and may not be on the disk yet. */
  let ended: number[] = [];

  const pathOf = (number: number) => join(dir, nameOf(incarnation, number));

  function begin(): number {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    bytes = 0;
    file = openSync(pathOf(segment), "a", 0o600);
    hasNewName = true;
    lines = `${JSON.stringify(["v", ...USAGE_COLUMNS])}\n${lines}`;
    return file;
  }

  function end(): void {
    if (file !== null) ended.push(file);
    file = null;
  }

  const shared = sharedSync(async () => {
    const closing = ended;
    ended = [];
    const files = file === null ? closing : [...closing, file];
    const isNamed = !hasNewName;
    hasNewName = false;
    try {
      if (!isNamed) await syncFolder(dir);
      await Promise.all(files.map((one) => syncFile(one)));
    } catch (error) {
      hasNewName ||= !isNamed;
      throw error;
    } finally {
      closing.forEach(closeSync);
    }
  });

  /** Half a line would spoil the next one, which goes to a file of its own. */
  function takeBack(from: number): void {
    end();
    segment++;
    try {
      ftruncateSync(from, bytes);
    } catch {
      // Whole lines that stay there were told to nobody: requests that nothing was sent for, or ends that are booked.
    }
  }

  function append(to: number, text: string): void {
    const buffer = text.length * UTF8_BYTES_MAX <= scratch.length ? scratch : Buffer.from(text);
    const wanted = buffer === scratch ? scratch.write(text) : buffer.length;
    try {
      if (writeSync(to, buffer, 0, wanted) !== wanted) throw new Error("the disk took a part of it");
    } catch (error) {
      takeBack(to);
      throw error;
    }
    bytes += wanted;
  }

  return {
    get segment() {
      return segment;
    },
    held(hold) {
      lines += `${JSON.stringify(["h", ...heldValues(hold)])}\n`;
    },
    progressed(requestId, { state, accountId, upstreamModel, outputTokens }) {
      lines += `${JSON.stringify(["p", requestId, state, accountId, upstreamModel, outputTokens])}\n`;
    },
    settled({ row, chargedNano }) {
      lines += `${JSON.stringify(["s", nanoValue(chargedNano), ...toValues(row)])}\n`;
    },
    write() {
      if (lines === "") return;
      try {
        append(file ?? begin(), lines);
      } finally {
        lines = "";
      }
      if (bytes < segmentBytesMax) return;
      end();
      segment++;
    },
    sync: shared.flush,
    hasBefore: (number) => oldest < number && (oldest < segment || file !== null),
    forgetBefore(number) {
      if (number > segment && file !== null) {
        end();
        segment++;
      }
      for (; oldest < Math.min(number, segment); oldest++) rmSync(pathOf(oldest), { force: true });
    },
    async close(isDone) {
      end();
      await shared.rest();
      ended.forEach(closeSync);
      ended = [];
      if (!isDone) return;
      for (; oldest <= segment; oldest++) rmSync(pathOf(oldest), { force: true });
    },
  };
}

function heldValues(hold: Hold) {
  return [
    hold.requestId,
    hold.incarnation,
    hold.atMs,
    hold.userId,
    nanoValue(hold.amountNano),
    hold.tariffId,
    hold.keyId,
    hold.groupId,
    hold.interface,
    hold.endpoint,
    hold.publicModel,
    hold.stream,
    hold.inputTokens,
  ];
}

export interface LeftJournal extends Untaken {
  incarnation: string;
  /** Begun and not ended, as far as they had come. */
  open: Hold[];
  /** Ended; the store may know of them, or not. */
  settlements: Settlement[];
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
    const paths = numbers.sort((a, b) => a - b).map((number) => join(dir, nameOf(incarnation, number)));
    // A segment ends with a line's end, or with one that was torn.
    const text = paths.map((path) => readFileSync(path, "utf8")).join("\n");
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

/** Text where a number would not be exact. */
const nanoOf = z.union([z.string().regex(/^\d{1,19}$/), z.int().min(0)]).transform(BigInt);

const heldLine = z
  .tuple([
    z.literal("h"),
    z.string(),
    z.string(),
    z.number(),
    z.string(),
    nanoOf,
    z.string(),
    z.string(),
    z.string(),
    z.enum(INTERFACES),
    z.string(),
    z.string(),
    z.boolean(),
    z.number(),
  ])
  .transform(([, requestId, incarnation, atMs, userId, amount, tariffId, keyId, groupId, ...rest]): Hold => {
    const [face, endpoint, publicModel, stream, inputTokens] = rest;
    return {
      requestId,
      incarnation,
      atMs,
      userId,
      amountNano: amount,
      tariffId,
      keyId,
      groupId,
      interface: face,
      endpoint,
      publicModel,
      stream,
      inputTokens,
      subscriptionId: null,
      ...UNSENT,
    };
  });
const progressLine = z.tuple([
  z.literal("p"),
  z.string(),
  z.enum(HOLD_STATES),
  z.string().nullable(),
  z.string().nullable(),
  z.number(),
]);
const settledLine = z.tuple([z.literal("s"), nanoOf], z.union([z.string(), z.number(), z.null()]));
const columnsLine = z.tuple([z.literal("v")], z.string());

function readJournal(text: string): Omit<LeftJournal, "incarnation" | "remove"> {
  const open = new Map<string, Hold>();
  const settlements = new Map<string, Settlement>();
  let columns: readonly string[] = USAGE_COLUMNS;

  function take(json: unknown): void {
    switch (Array.isArray(json) ? json[0] : null) {
      case "v":
        columns = columnsLine.parse(json).slice(1);
        return;
      case "h": {
        const hold = heldLine.parse(json);
        if (!settlements.has(hold.requestId)) open.set(hold.requestId, hold);
        return;
      }
      case "p": {
        const [, requestId, state, accountId, upstreamModel, outputTokens] = progressLine.parse(json);
        const hold = open.get(requestId);
        if (hold !== undefined) {
          open.set(requestId, { ...hold, state, accountId, upstreamModel, outputTokens });
        }
        return;
      }
      default: {
        const [, charged, ...values] = settledLine.parse(json);
        const row = toUsageRow(asStored(columns, values));
        open.delete(row.requestId);
        settlements.set(row.requestId, { row, chargedNano: charged });
      }
    }
  }

  const untaken = readJsonLines(text, take);
  return { open: [...open.values()], settlements: [...settlements.values()], ...untaken };
}
