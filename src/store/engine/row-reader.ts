/**
 * Declares a record that is read from rows: each field once, with how its column is read. The columns have the names of
 * the fields: `createdAtMs` is read from `created_at_ms`.
 */

import type { z } from "zod";
import { snakeCase } from "../../base/name-case.ts";
import { compile } from "./compile-fields.ts";
import { json, oneOf } from "./row.ts";
import type { Row } from "./transaction.ts";

type ColumnReader<Value> = (row: Row, column: string) => Value;

type FieldReaders = Readonly<Record<string, ColumnReader<unknown>>>;

/** The type of the record is `ReturnType<typeof reader>`. */
export function rowReader<Readers extends FieldReaders>(
  readers: Readers,
): (row: Row) => { [Name in keyof Readers]: ReturnType<Readers[Name]> } {
  const members = Object.keys(readers).map((name) => `${name}: readers.${name}(row, "${snakeCase(name)}")`);
  return compile(`(row) => ({ ${members.join(", ")} })`, { readers });
}

export function choice<T extends string>(allowed: readonly T[]): ColumnReader<T> {
  return (row, column) => oneOf(row, column, allowed);
}

export function parsedJson<T>(schema: z.ZodType<T>): ColumnReader<T> {
  return (row, column) => json(row, column, schema);
}
