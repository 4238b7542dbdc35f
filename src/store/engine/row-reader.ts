/**
 * Declares a record that is read from rows: each field once, with how its column is read. The columns have the names of
 * the fields: `createdAtMs` is read from `created_at_ms`.
 */

import type { z } from "zod";
import { snakeCase } from "../../base/name-case.ts";
import { compile } from "./compile-fields.ts";
import { enumText, flag, json, nano } from "./row.ts";
import type { Row, SqlValue } from "./transaction.ts";

type ColumnReader<Value> = (row: Row, column: string) => Value;

type FieldReaders = Readonly<Record<string, ColumnReader<unknown>>>;

type Read<Readers extends FieldReaders> = { [Name in keyof Readers]: ReturnType<Readers[Name]> };

/** The type of the record is `ReturnType<typeof reader>`. */
export function rowReader<Readers extends FieldReaders>(readers: Readers): (row: Row) => Read<Readers> {
  const members = Object.keys(readers).map((name) => `${name}: readers.${name}(row, "${snakeCase(name)}")`);
  return compile(`(row) => ({ ${members.join(", ")} })`, { readers });
}

/** For records that are also written. Amounts are stored as integers and selected as text; flags are 0 or 1. */
export interface RecordColumns<Value> {
  readonly names: readonly string[];
  /** The list of a SELECT. */
  readonly selected: string;
  readonly read: (row: Row) => Value;
  /** In the order of the names. */
  readonly values: (record: Value) => SqlValue[];
}

export function recordColumns<Readers extends FieldReaders>(readers: Readers): RecordColumns<Read<Readers>> {
  const selected: string[] = [];
  const values: string[] = [];
  for (const [field, reader] of Object.entries(readers)) {
    const column = snakeCase(field);
    selected.push(reader === nano ? `CAST(${column} AS TEXT) AS ${column}` : column);
    const value = `record.${field}`;
    values.push(reader === nano ? `${value}.toString()` : reader === flag ? `Number(${value})` : value);
  }
  return {
    names: Object.keys(readers).map(snakeCase),
    selected: selected.join(", "),
    read: rowReader(readers),
    values: compile(`(record) => [${values.join(", ")}]`),
  };
}

export function choice<T extends string>(allowed: readonly T[]): ColumnReader<T> {
  return (row, column) => enumText(row, column, allowed);
}

export function parsedJson<T>(schema: z.ZodType<T>): ColumnReader<T> {
  return (row, column) => json(row, column, schema);
}
