/**
 * The lines of a journal that tell rows which nobody pays for. They come by the ten thousand a second, so what many of
 * them have in common, their kind, is told once a segment.
 */

import { z } from "zod";
import type { Value } from "../store/db.ts";
import { toUsageRow, type UsageRow } from "../store/usage-row.ts";
import {
  asStored,
  isAlike,
  KIND_COLUMNS,
  kindValues,
  REST_COLUMNS,
  restValues,
} from "../store/usage-values.ts";

/** Before the first row of a segment: what its kinds and its rows tell. */
const COLUMNS_LINE = JSON.stringify(["w", KIND_COLUMNS, REST_COLUMNS]);

/** Kinds that are remembered; looking through more of them costs more than telling one again. */
const KINDS_MAX = 32;

export interface RowTeller {
  /** Of this row, and of its kind if that was not told yet. What it returns has to follow what it returned before. */
  linesOf(row: UsageRow): string;
}

/** One for each segment, because segments are read independently. */
export function openRowTeller(): RowTeller {
  /** One row of each kind; its index is the kind's number. */
  let kinds: UsageRow[] = [];
  let isBegun = false;
  return {
    linesOf(row) {
      const known = kinds.findIndex((kind) => isAlike(kind, row));
      if (known !== -1) return rowLine(known, row);
      // Numbers begin anew, and mean from here on what is told of them from here on.
      if (kinds.length === KINDS_MAX) kinds = [];
      const lines = `${kindLine(kinds.length, row)}\n${rowLine(kinds.length, row)}`;
      kinds.push(row);
      if (isBegun) return lines;
      isBegun = true;
      return `${COLUMNS_LINE}\n${lines}`;
    },
  };
}

function kindLine(number: number, row: UsageRow): string {
  return JSON.stringify(["k", number, ...kindValues(row)]);
}

function rowLine(kind: number, row: UsageRow): string {
  return JSON.stringify(["r", kind, ...restValues(row)]);
}

const valueShape = z.union([z.string(), z.number(), z.null()]);
const columnsShape = z.tuple([z.literal("w"), z.array(z.string()), z.array(z.string())]);
const kindShape = z.tuple([z.literal("k"), z.int()], valueShape);
const rowShape = z.tuple([z.literal("r"), z.int()], valueShape);

export interface RowReader {
  /** These throw at what they do not understand. */
  takeColumns(json: unknown): void;
  takeKind(json: unknown): void;
  takeRow(json: unknown): UsageRow;
}

/** Reads all segments of a journal, in order. */
export function openRowReader(): RowReader {
  let columns: readonly string[] = [];
  const kinds = new Map<number, readonly Value[]>();
  return {
    takeColumns(json) {
      const [, ofKinds, ofRows] = columnsShape.parse(json);
      columns = [...ofKinds, ...ofRows];
      kinds.clear();
    },
    takeKind(json) {
      const [, number, ...values] = kindShape.parse(json);
      kinds.set(number, values);
    },
    takeRow(json) {
      const [, number, ...values] = rowShape.parse(json);
      const kind = kinds.get(number);
      if (kind === undefined) throw new Error("Nothing was told of its kind.");
      return toUsageRow(asStored(columns, [...kind, ...values]));
    },
  };
}
