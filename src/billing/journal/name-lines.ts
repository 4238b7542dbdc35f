/**
 * Names that many lines of a journal repeat: of keys, users, groups, accounts, models. Each is told once a segment, in a
 * line of its own, and from then on by its number: bytes of a journal are what costs.
 */

import { z } from "zod";
import type { JsonLineWriter } from "./json-line-writer.ts";

/** What a line tells of one column. */
type Told = string | number | null;

/** One for each segment, because segments are read independently. */
export class NameEncoder {
  private readonly numbers = new Map<string, number>();

  /** Tells of the name if that was not done yet: to be asked before a line is opened that is to bear the number. */
  numberOf(name: string, pen: JsonLineWriter): number {
    const known = this.numbers.get(name);
    if (known !== undefined) return known;
    const number = this.numbers.size;
    this.numbers.set(name, number);
    pen.open("n");
    pen.number(number);
    pen.text(name);
    pen.close();
    return number;
  }

  numberOrNull(name: string | null, pen: JsonLineWriter): number | null {
    return name === null ? null : this.numberOf(name, pen);
  }
}

/** Columns of names: there a number is that of a name. */
const NAMED: ReadonlySet<string> = new Set(["key_id", "user_id", "group_id", "account_id", "upstream_model"]);

/** A name, or its number. */
export const named = z.union([z.string(), z.int()]);

const nameShape = z.tuple([z.literal("n"), z.int(), z.string()]);

export class NameReader {
  private readonly names = new Map<number, string>();

  forget(): void {
    this.names.clear();
  }

  /** Throws at what it does not understand, here and below. */
  take(json: unknown): void {
    const [, number, name] = nameShape.parse(json);
    this.names.set(number, name);
  }

  /** What stands where a name is told: its number, or the name itself. */
  nameOf(told: string | number): string {
    if (typeof told === "string") return told;
    const name = this.names.get(told);
    if (name === undefined) throw new Error("Nothing was told of its name.");
    return name;
  }

  nameOrNull(told: string | number | null): string | null {
    return told === null ? null : this.nameOf(told);
  }

  /** Values of these columns, with the names that they tell by their numbers. */
  resolve(columns: readonly string[], values: readonly Told[]): Told[] {
    return values.map((value, at) => (NAMED.has(columns[at] ?? "") ? this.nameOrNull(value) : value));
  }
}
