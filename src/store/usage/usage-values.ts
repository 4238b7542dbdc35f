/**
 * Usage rows as lists of values, in two parts. The kind holds the values that concurrent requests often share; it is
 * written to the database and the journal once for many rows.
 */

import { compile } from "../engine/compile-fields.ts";
import type { Row, SqlValue } from "../engine/db.ts";
import { FIELD_FUNCTIONS, FIELD_NAMES, USAGE_FIELDS, type UsageRow } from "./usage-row.ts";

export { nanoValue } from "./storable-values.ts";

type Field = keyof UsageRow;

const listFields = (...places: readonly string[]): readonly Field[] =>
  FIELD_NAMES.filter((field) => places.includes(USAGE_FIELDS[field].place));
const listColumns = (fields: readonly Field[]): readonly string[] =>
  fields.map((field) => USAGE_FIELDS[field].column);

const KIND_FIELDS = [...listFields("kind"), ...listFields("shared")];
const ROW_FIELDS = listFields("row");

/** Columns that the database stores once per kind; rows refer to them by number (`usage-numbers.ts`). */
export const NUMBERED_COLUMNS = listColumns(listFields("kind"));
/** Columns of the kind that are stored in each row. */
export const ROW_KIND_COLUMNS = listColumns(listFields("shared"));
export const KIND_COLUMNS = listColumns(KIND_FIELDS);
export const REST_COLUMNS = listColumns(ROW_FIELDS);
export const USAGE_COLUMNS = [...KIND_COLUMNS, ...REST_COLUMNS];

/** The columns of `usage_row` that store the number of an id, by the column of the id. */
export const NUMBER_COLUMNS: ReadonlyMap<string, string> = new Map(
  ROW_FIELDS.flatMap((field) => {
    const { column, numberColumn } = USAGE_FIELDS[field];
    return numberColumn === undefined ? [] : [[column, numberColumn]];
  }),
);

/** Source text of the stored value of a field. */
const toSource = (field: Field, row: string): string =>
  USAGE_FIELDS[field].toValue === undefined ? `${row}.${field}` : `toValue_${field}(${row}.${field})`;
const listSource = (fields: readonly Field[]): string =>
  fields.map((field) => toSource(field, "row")).join(", ");

/** In the order of KIND_COLUMNS. */
export const kindValues = compile<(row: UsageRow) => SqlValue[]>(
  `(row) => [${listSource(KIND_FIELDS)}]`,
  FIELD_FUNCTIONS,
);

/** Compares all KIND_COLUMNS. */
export const isSameKind = compile<(one: UsageRow, other: UsageRow) => boolean>(
  `(one, other) => ${KIND_FIELDS.map((field) =>
    USAGE_FIELDS[field].isComparedAsStored === true
      ? `${toSource(field, "one")} === ${toSource(field, "other")}`
      : `one.${field} === other.${field}`,
  ).join(" && ")}`,
  FIELD_FUNCTIONS,
);

/** Appends in the order of REST_COLUMNS. Appending avoids one more array per row. */
export const pushRest = compile<(values: SqlValue[], row: UsageRow) => void>(
  `(values, row) => { values.push(${listSource(ROW_FIELDS)}); }`,
  FIELD_FUNCTIONS,
);

/** In the order of USAGE_COLUMNS. */
export function toValues(row: UsageRow): SqlValue[] {
  const values = kindValues(row);
  pushRest(values, row);
  return values;
}

/** Money is read as text, because a bigint of the database may exceed the exact range of numbers. */
const MONEY_COLUMNS: ReadonlySet<string> = new Set(
  listColumns(FIELD_NAMES.filter((field) => USAGE_FIELDS[field].isMoney === true)),
);

/** Selects every column that `toUsageRow` reads. */
export const SELECT_USAGE = `SELECT ${USAGE_COLUMNS.map((column) =>
  MONEY_COLUMNS.has(column) ? `CAST(${column} AS TEXT) AS ${column}` : column,
).join(", ")} FROM usage`;

/** Converts values to the form in which the database returns them, for `toUsageRow`: money is text. */
export function asStored(columns: readonly string[], values: readonly SqlValue[]): Row {
  return Object.fromEntries(
    columns.map((column, index) => {
      const value = values[index] ?? null;
      return [column, MONEY_COLUMNS.has(column) ? String(value) : value];
    }),
  );
}
