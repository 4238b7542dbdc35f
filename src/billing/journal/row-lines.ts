/**
 * The lines of a journal that tell the rows of requests that have ended. They come by the ten thousand a second, so what
 * many of them have in common, their kind, is told once a segment.
 */

import { z } from "zod";
import { toUsageRow, type UsageRow } from "../../store/usage/usage-row.ts";
import { asStored, isAlike, KIND_COLUMNS, kindValues, REST_COLUMNS } from "../../store/usage/usage-values.ts";
import type { JsonLineWriter } from "./json-line-writer.ts";
import type { NameEncoder, NameReader } from "./name-lines.ts";

/** Whether somebody pays for it, from what was set aside. */
type RowTag = "e" | "r";

/** Kinds that are remembered; looking through more of them costs more than telling one again. */
const KINDS_MAX = 32;

/** One for each segment, because segments are read independently. */
export class RowEncoder {
  private readonly names: NameEncoder;
  /** One row of each kind; its index is the kind's number. */
  private kinds: UsageRow[] = [];
  private isBegun = false;

  constructor(names: NameEncoder) {
    this.names = names;
  }

  /** Tells of this row, and of its kind if that was not done yet. */
  tell(tag: RowTag, row: UsageRow, pen: JsonLineWriter): void {
    rowLine(tag, this.numberOf(row, pen), row, this.names, pen);
  }

  private numberOf(row: UsageRow, pen: JsonLineWriter): number {
    const { kinds } = this;
    for (let number = 0; number < kinds.length; number++) {
      const kind = kinds[number];
      if (kind !== undefined && isAlike(kind, row)) return number;
    }
    if (!this.isBegun) columnsLine(pen);
    this.isBegun = true;
    // Numbers begin anew, and mean from here on what is told of them from here on.
    if (kinds.length === KINDS_MAX) this.kinds = [];
    const number = this.kinds.push(row) - 1;
    kindLine(number, row, pen);
    return number;
  }
}

/** Before the first row of a segment: what its kinds and its rows tell. */
function columnsLine(pen: JsonLineWriter): void {
  pen.json(["w", KIND_COLUMNS, REST_COLUMNS]);
}

function kindLine(number: number, row: UsageRow, pen: JsonLineWriter): void {
  pen.json(["k", number, ...kindValues(row)]);
}

/** In the order of REST_COLUMNS. */
function rowLine(tag: RowTag, kind: number, row: UsageRow, names: NameEncoder, pen: JsonLineWriter): void {
  const key = names.numberOf(row.keyId, pen);
  const user = names.numberOrNull(row.userId, pen);
  const group = names.numberOf(row.groupId, pen);
  const account = names.numberOrNull(row.accountId, pen);
  pen.open(tag);
  pen.number(kind);
  pen.text(row.requestId);
  pen.number(row.atMs);
  pen.number(key);
  pen.number(user);
  pen.number(group);
  pen.number(account);
  pen.number(row.inputTokens);
  pen.number(row.cachedTokens);
  pen.number(row.outputTokens);
  pen.number(row.reasoningTokens);
  pen.number(row.firstByteMs);
  pen.number(row.durationMs);
  pen.number(row.waitMs);
  pen.text(row.responseId);
  pen.text(row.upstreamRequestId);
  pen.text(row.trace);
  pen.nano(row.costNano);
  pen.nano(row.chargedNano);
  pen.nano(row.upstreamNano);
  pen.close();
}

const valueShape = z.union([z.string(), z.number(), z.null()]);
const columnsShape = z.tuple([z.literal("w"), z.array(z.string()), z.array(z.string())]);
const kindShape = z.tuple([z.literal("k"), z.int()], valueShape);
const rowShape = z.tuple([z.enum(["e", "r"]), z.int()], valueShape);

/** What its methods do not understand they throw at. */
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
    const [, ofKinds, ofRows] = columnsShape.parse(json);
    this.columns = [...ofKinds, ...ofRows];
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
    const told = this.names.resolve(this.columns, [...kind, ...values]);
    return toUsageRow(asStored(this.columns, told));
  }
}
