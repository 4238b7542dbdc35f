/**
 * Names that many journal lines repeat: keys, users, groups, accounts, models. To keep the journal small, each name
 * is written once per segment in a line of its own and then referenced by number.
 */

import { z } from "zod";
import type { JsonLineWriter } from "./json-line-writer.ts";

/** A column value of a line. */
type ColumnValue = string | number | null;

/** One encoder per segment, because segments are read independently. */
export class NameEncoder {
  private readonly numbers = new Map<string, number>();

  /**
   * Writes the name if the segment does not have it yet. Must be called before the line that uses the number is
   * opened.
   */
  numberOf(name: string, writer: JsonLineWriter): number {
    const known = this.numbers.get(name);
    if (known !== undefined) return known;
    const number = this.numbers.size;
    this.numbers.set(name, number);
    writer.open("n");
    writer.number(number);
    writer.text(name);
    writer.close();
    return number;
  }

  numberOrNull(name: string | null, writer: JsonLineWriter): number | null {
    return name === null ? null : this.numberOf(name, writer);
  }
}

/** Columns that contain names: a number in them refers to a name. */
const NAMED: ReadonlySet<string> = new Set(["key_id", "user_id", "group_id", "account_id", "upstream_model"]);

/** A name or its number. */
export const named = z.union([z.string(), z.int()]);

const nameShape = z.tuple([z.literal("n"), z.int(), z.string()]);

export class NameReader {
  private readonly names = new Map<number, string>();

  forget(): void {
    this.names.clear();
  }

  /** Throws on a line that it does not understand, as the methods below do. */
  take(json: unknown): void {
    const [, number, name] = nameShape.parse(json);
    this.names.set(number, name);
  }

  /** Resolves a name, or its number, to the name. */
  nameOf(reference: string | number): string {
    if (typeof reference === "string") return reference;
    const name = this.names.get(reference);
    if (name === undefined) throw new Error("Nothing was told of its name.");
    return name;
  }

  nameOrNull(reference: string | number | null): string | null {
    return reference === null ? null : this.nameOf(reference);
  }

  /** Replaces the name numbers in the values of these columns. */
  resolve(columns: readonly string[], values: readonly ColumnValue[]): ColumnValue[] {
    return values.map((value, at) => (NAMED.has(columns[at] ?? "") ? this.nameOrNull(value) : value));
  }
}
