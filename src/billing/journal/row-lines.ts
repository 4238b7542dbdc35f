/**
 * Journal lines for usage rows. There are tens of thousands a second, so the fields that many rows share (their kind)
 * are written once per segment.
 */

import { z } from "zod";
import { toUsageRow, type UsageRow } from "../../store/usage/usage-row.ts";
import {
  asStored,
  isSameKind,
  KIND_COLUMNS,
  kindValues,
  REST_COLUMNS,
} from "../../store/usage/usage-values.ts";
import type { JsonLineWriter } from "./json-line-writer.ts";
import type { NameEncoder, NameReader } from "./name-lines.ts";

/** "e": paid from a hold. "r": unpaid. */
type RowTag = "e" | "r";

/** Maximum number of cached kinds. Searching more of them costs more than writing a kind again. */
const KINDS_MAX = 32;

/** One encoder per segment, because segments are read independently. */
export class RowEncoder {
  private readonly names: NameEncoder;
  /** One row per kind; its index is the number of the kind. */
  private kinds: UsageRow[] = [];
  private isBegun = false;

  constructor(names: NameEncoder) {
    this.names = names;
  }

  /** Writes the row, preceded by its kind if the segment does not have it yet. */
  tell(tag: RowTag, row: UsageRow, writer: JsonLineWriter): void {
    writeRow(tag, this.numberOf(row, writer), row, this.names, writer);
  }

  private numberOf(row: UsageRow, writer: JsonLineWriter): number {
    const { kinds } = this;
    for (let number = 0; number < kinds.length; number++) {
      const kind = kinds[number];
      if (kind !== undefined && isSameKind(kind, row)) return number;
    }
    if (!this.isBegun) writeColumns(writer);
    this.isBegun = true;
    // The numbers start again from 0. Later kind lines redefine them.
    if (kinds.length === KINDS_MAX) this.kinds = [];
    const number = this.kinds.push(row) - 1;
    writeKind(number, row, writer);
    return number;
  }
}

/** The columns of kinds and rows, before the first row of a segment. */
function writeColumns(writer: JsonLineWriter): void {
  writer.json(["w", KIND_COLUMNS, REST_COLUMNS]);
}

function writeKind(number: number, row: UsageRow, writer: JsonLineWriter): void {
  writer.json(["k", number, ...kindValues(row)]);
}

/** In the order of REST_COLUMNS. */
function writeRow(
  tag: RowTag,
  kind: number,
  row: UsageRow,
  names: NameEncoder,
  writer: JsonLineWriter,
): void {
  const key = names.numberOf(row.keyId, writer);
  const user = names.numberOrNull(row.userId, writer);
  const group = names.numberOf(row.groupId, writer);
  const account = names.numberOrNull(row.accountId, writer);
  writer.open(tag);
  writer.number(kind);
  writer.text(row.requestId);
  writer.number(row.atMs);
  writer.number(key);
  writer.number(user);
  writer.number(group);
  writer.number(account);
  writer.number(row.inputTokens);
  writer.number(row.cachedTokens);
  writer.number(row.outputTokens);
  writer.number(row.reasoningTokens);
  writer.number(row.firstByteMs);
  writer.number(row.durationMs);
  writer.number(row.waitMs);
  writer.text(row.responseId);
  writer.text(row.upstreamRequestId);
  writer.text(row.trace);
  writer.nano(row.costNano);
  writer.nano(row.chargedNano);
  writer.nano(row.upstreamNano);
  writer.close();
}

const valueShape = z.union([z.string(), z.number(), z.null()]);
const columnsShape = z.tuple([z.literal("w"), z.array(z.string()), z.array(z.string())]);
const kindShape = z.tuple([z.literal("k"), z.int()], valueShape);
const rowShape = z.tuple([z.enum(["e", "r"]), z.int()], valueShape);

/** Its methods throw on lines that they do not understand. */
export class RowReader {
  private readonly names: NameReader;
  private columns: readonly string[] = [];
  private readonly kinds = new Map<number, readonly z.infer<typeof valueShape>[]>();

  constructor(names: NameReader) {
    this.names = names;
  }

  forget(): void {
    this.kinds.clear();
  }

  takeColumns(json: unknown): void {
    const [, kindColumns, rowColumns] = columnsShape.parse(json);
    this.columns = [...kindColumns, ...rowColumns];
    this.kinds.clear();
  }

  takeKind(json: unknown): void {
    const [, number, ...values] = kindShape.parse(json);
    this.kinds.set(number, values);
  }

  takeRow(json: unknown): UsageRow {
    const [, number, ...values] = rowShape.parse(json);
    const kind = this.kinds.get(number);
    if (kind === undefined) throw new Error("Nothing was told of its kind.");
    const resolved = this.names.resolve(this.columns, [...kind, ...values]);
    return toUsageRow(asStored(this.columns, resolved));
  }
}
