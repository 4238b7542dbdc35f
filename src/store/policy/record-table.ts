/** Reads and writes the records of one table by the declaration of their fields (`records/fields.ts`). */

import { z } from "zod";
import { snakeCase } from "../../base/name-case.ts";
import { FALLBACK_CONDITIONS, type FallbackCondition, type FallbackStep } from "../../records/fallback.ts";
import type { Field, FieldMap, FileRecord, RecordOf } from "../../records/fields.ts";
import { CHARGES, type GroupBilling } from "../../records/group.ts";
import type { FieldTypes } from "../../records/policy.ts";
import { compile } from "../engine/compile-fields.ts";
import { type Db, placeholder, type Row, type SqlValue } from "../engine/db.ts";
import { insertRows } from "../engine/insert-rows.ts";
import {
  enumText,
  flag,
  integer,
  integerOrNull,
  interfaces,
  json,
  text,
  textMap,
  textOrNull,
} from "../engine/row.ts";
import { callerLimits, callerLimitsText, rateLimits, rateLimitsText } from "./limits-column.ts";
import { priceForm } from "./price-column.ts";

/** How values of one kind are stored. Without `toValue`, they are stored as they are. */
interface Column<Value> {
  read(row: Row, column: string, field: Field<Value>): Value;
  toValue?(value: Value): SqlValue;
}

const billingSchema: z.ZodType<GroupBilling> = z.object({
  charge: z.enum(CHARGES),
  plans: z.array(z.string()).nullable().default(null),
  multiplier: z.string(),
  modelMultipliers: z.record(z.string(), z.string()),
  modelPrices: z.record(z.string(), priceForm).default({}),
});
const queueSchema = z.object({ maxWaiting: z.int().nonnegative(), timeoutMs: z.int().positive() });
/** A condition of a later version is left out: a step without any condition is never taken. */
const conditionsSchema = z
  .array(z.string())
  .transform((names) =>
    names.filter((name): name is FallbackCondition => FALLBACK_CONDITIONS.some((known) => known === name)),
  );
const fallbackSchema = z.array(
  z.object({
    group: z.string().nullable(),
    model: z.string().nullable(),
    when: conditionsSchema,
    pay: z.enum(CHARGES).nullable(),
    maxPrice: z.string().nullable(),
    leaveAfterMs: z.int().nonnegative().nullable(),
    stayMs: z.int().positive().nullable(),
  }),
);
const profileSchema = z.record(z.string(), z.union([z.string(), z.boolean()]));

const toJson = (value: unknown) => JSON.stringify(value);
/** For the kinds whose values are SQL values. */
const asIs = (value: unknown) => value as SqlValue;

function optionalJson<Value>(schema: z.ZodType<Value>): Column<Value | null> {
  return {
    read: (row, column) => (row[column] === null ? null : json(row, column, schema)),
    toValue: (value) => (value === null ? null : JSON.stringify(value)),
  };
}

/** Stored for an optional choice that is not made. */
const UNSET = "default";

const fallbackColumn: Column<FallbackStep[]> = {
  read: (row, column) => (row[column] === null ? [] : json(row, column, fallbackSchema)),
  toValue: (steps) => (steps.length === 0 ? null : JSON.stringify(steps)),
};

const COLUMNS: { readonly [Kind in Exclude<keyof FieldTypes, "members">]: Column<FieldTypes[Kind]> } = {
  identity: { read: text },
  text: { read: text },
  address: { read: text },
  optionalText: { read: textOrNull },
  integer: { read: integer },
  optionalInteger: { read: integerOrNull },
  optionalTime: { read: integerOrNull },
  flag: { read: flag, toValue: Number },
  choice: { read: (row, column, { values = [] }) => enumText(row, column, values) },
  optionalChoice: {
    read: (row, column, { values = [] }) => (row[column] === UNSET ? null : enumText(row, column, values)),
    toValue: (value) => value ?? UNSET,
  },
  interfaces: { read: interfaces, toValue: toJson },
  textMap: { read: textMap, toValue: toJson },
  profile: optionalJson(profileSchema),
  price: optionalJson(priceForm),
  billing: { read: (row, column) => json(row, column, billingSchema), toValue: toJson },
  queue: { read: (row, column) => json(row, column, queueSchema), toValue: toJson },
  groupFallback: fallbackColumn,
  modelFallback: fallbackColumn,
  keyFallback: { read: (row, column) => (row[column] === null ? null : "deny") },
  rateLimits: { read: rateLimits, toValue: rateLimitsText },
  callerLimits: { read: callerLimits, toValue: callerLimitsText },
};

function isStored(kind: string): kind is keyof typeof COLUMNS {
  return kind in COLUMNS;
}

/** The part of a record that its own row has: without the members, which are rows of other tables. */
type StoredRecord<Fields extends FieldMap> = {
  [Name in keyof RecordOf<Fields> as Fields[Name]["kind"] extends "members"
    ? never
    : Name]: RecordOf<Fields>[Name];
};

interface StoredField {
  readonly name: string;
  readonly column: string;
  readonly field: Field<unknown>;
  readonly kind: Column<unknown>;
}

/** A table with one column for each field, named like the field, and `id` as its key. */
export class RecordTable<Fields extends FieldMap> {
  readonly name: string;
  readonly columns: readonly string[];
  /** Reads a row that has all columns. */
  readonly read: (row: Row) => StoredRecord<Fields>;
  readonly #fields: readonly StoredField[];
  readonly #replacePresent: string;

  constructor(name: string, fields: Fields) {
    this.name = name;
    this.#fields = Object.entries(fields).flatMap(([field, declared]) =>
      isStored(declared.kind)
        ? [{ name: field, column: snakeCase(field), field: declared, kind: COLUMNS[declared.kind] }]
        : [],
    );
    this.columns = this.#fields.map(({ column }) => column);
    this.read = compile(
      `(row) => ({ ${this.#fields.map((one, i) => `${one.name}: kinds[${i}].read(row, "${one.column}", fields[${i}])`).join(", ")} })`,
      { kinds: this.#fields.map(({ kind }) => kind), fields: this.#fields.map(({ field }) => field) },
    );
    const others = this.columns.filter((column) => column !== "id");
    this.#replacePresent = `ON CONFLICT (id) DO UPDATE SET ${others.map((column) => `${column} = excluded.${column}`).join(", ")}`;
  }

  /** In the order of the columns. */
  values(record: StoredRecord<Fields>): SqlValue[] {
    const values: Readonly<Record<string, unknown>> = record;
    return this.#fields.map(({ name, kind }) => (kind.toValue ?? asIs)(values[name]));
  }

  /** Sets those of `settings` that the file has, and further columns. False if there is no record. */
  async update(
    tx: Db,
    id: string,
    settings: Partial<FileRecord<Fields>>,
    further: Readonly<Record<string, SqlValue>>,
  ): Promise<boolean> {
    const values: Readonly<Record<string, unknown>> = settings;
    const changed = this.#fields.filter(
      ({ name, field }) => field.file !== null && values[name] !== undefined,
    );
    const columns = [...changed.map(({ column }) => column), ...Object.keys(further)];
    const assignments = columns.map((column, i) => `${column} = ${placeholder(tx.engine, i + 1)}`);
    const rows = await tx.sql.text(
      `UPDATE ${this.name} SET ${assignments.join(", ")} WHERE id = ${placeholder(tx.engine, columns.length + 1)} RETURNING id`,
      [
        ...changed.map(({ name, kind }) => (kind.toValue ?? asIs)(values[name])),
        ...Object.values(further),
        id,
      ],
    );
    return rows.length > 0;
  }

  /** All records, the oldest first. */
  async list(db: Db): Promise<StoredRecord<Fields>[]> {
    const rows = await db.sql.text(
      `SELECT ${this.columns.join(", ")} FROM ${this.name} ORDER BY created_at_ms, id`,
      [],
    );
    return rows.map(this.read);
  }

  /** Creates the record, or replaces the one with its id. */
  async put(tx: Db, record: StoredRecord<Fields>): Promise<void> {
    await insertRows(tx, this.name, this.columns, [this.values(record)], this.#replacePresent);
  }
}
