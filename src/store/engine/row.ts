/** Typed reading of columns: each value from the database is checked before it gets a type. */

import { z } from "zod";
import { INTERFACES, type Interface } from "../../records/interfaces.ts";
import type { Row } from "./transaction.ts";

export class CorruptRow extends Error {
  override readonly name = "CorruptRow";
}

export function text(row: Row, column: string): string {
  const value = row[column];
  return typeof value === "string" ? value : throwCorrupt(row, column, "text");
}

export function textOrNull(row: Row, column: string): string | null {
  return row[column] === null ? null : text(row, column);
}

export function integer(row: Row, column: string): number {
  const value = row[column];
  return Number.isSafeInteger(value) ? (value as number) : throwCorrupt(row, column, "an integer");
}

export function integerOrNull(row: Row, column: string): number | null {
  return row[column] === null ? null : integer(row, column);
}

/** Money is selected as text: CAST(x AS TEXT). */
export function nano(row: Row, column: string): bigint {
  const value = row[column];
  return typeof value === "string" && INTEGER_TEXT.test(value)
    ? BigInt(value)
    : throwCorrupt(row, column, "an integer as text");
}

const INTEGER_TEXT = /^-?\d{1,19}$/;

export function flag(row: Row, column: string): boolean {
  return integer(row, column) !== 0;
}

export function enumText<T extends string>(row: Row, column: string, allowed: readonly T[]): T {
  const value = row[column];
  return allowed.find((one) => one === value) ?? throwCorrupt(row, column, `one of ${allowed.join(", ")}`);
}

export function json<T>(row: Row, column: string, schema: z.ZodType<T>): T {
  try {
    return schema.parse(JSON.parse(text(row, column)));
  } catch {
    return throwCorrupt(row, column, "JSON of the expected shape");
  }
}

const interfacesSchema = z.array(z.enum(INTERFACES));
const textMapSchema = z.record(z.string(), z.string());

export function interfaces(row: Row, column: string): Interface[] {
  return json(row, column, interfacesSchema);
}

export function textMap(row: Row, column: string): Record<string, string> {
  return json(row, column, textMapSchema);
}

/** The error names the row but never the value, which may be a secret. */
function throwCorrupt(row: Row, column: string, expected: string): never {
  const id = row.id ?? row.request_id ?? row.name;
  throw new CorruptRow(`The column ${column}${id === undefined ? "" : ` of row ${id}`} is not ${expected}.`);
}
