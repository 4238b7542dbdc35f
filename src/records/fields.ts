/**
 * Declares the fields of records. The type of a record, its columns (`store/policy/record-table.ts`), its shape in
 * gateway.yaml and its differences (`config/state/file-shape.ts`) are derived from the declaration.
 */

import type { Interface } from "./interfaces.ts";
import { type CallerLimits, NO_LIMITS, NO_RATE_LIMITS, type RateLimits } from "./limits.ts";
import type { Price } from "./price.ts";

/** A field with values of one type. The kind decides how they are stored, written in the file and compared. */
export interface Field<Value, Kind extends string = string> {
  readonly kind: Kind;
  /** The value in a new record that does not set the field. The file leaves it out. */
  readonly default?: Value;
  /** The name in gateway.yaml; null if the file does not have the field. If omitted: the field's name in snake case. */
  readonly file?: string | null;
  /** The allowed values of a choice. */
  readonly values?: readonly NonNullable<Value>[];
}

export type FieldMap = Readonly<Record<string, Field<unknown>>>;

export type ValueOf<Declared> = Declared extends Field<infer Value> ? Value : never;

export type RecordOf<Fields extends FieldMap> = { -readonly [Name in keyof Fields]: ValueOf<Fields[Name]> };

type RequiredName<Fields extends FieldMap> = {
  [Name in keyof Fields]: Fields[Name] extends { readonly default: unknown } ? never : Name;
}[keyof Fields];

/** Creates a record: fields that `values` does not set have their defaults. */
export function createRecord<Fields extends FieldMap>(
  fields: Fields,
  values: Pick<RecordOf<Fields>, RequiredName<Fields>> & Partial<RecordOf<Fields>>,
): RecordOf<Fields> {
  return { ...listDefaults(fields), ...values } as RecordOf<Fields>;
}

function listDefaults(fields: FieldMap): object {
  return Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, field.default]));
}

/** The name of a field in SQL and, unless it is declared otherwise, in gateway.yaml. */
export type SnakeCase<Name> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${SnakeCase<Rest>}`
  : "";

/** Never for a field that is not in the file. */
export type FileName<Name, Declared> = Declared extends { readonly file: infer File }
  ? File extends string
    ? File
    : never
  : SnakeCase<Name>;

/** The part of a record that the file has. */
export type FileRecord<Fields extends FieldMap> = {
  [Name in keyof Fields as FileName<Name, Fields[Name]> extends never ? never : Name]: RecordOf<Fields>[Name];
};

export interface DefaultField<Value, Kind extends string> extends Field<Value, Kind> {
  readonly default: Value;
}

/** The field is not in the file: it identifies the record, is secret or changes by itself. */
export function internal<Declared extends Field<unknown>>(
  field: Declared,
): Declared & { readonly file: null } {
  return { ...field, file: null };
}

/** The field has another name in the file. */
export function named<File extends string, Declared extends Field<unknown>>(
  file: File,
  field: Declared,
): Declared & { readonly file: File } {
  return { ...field, file };
}

/** The name by which the file identifies the record. It never changes. */
export const identity: Field<string, "identity"> = { kind: "identity" };
export const text: Field<string, "text"> = { kind: "text" };
/** Empty: the record has none. */
export const address: DefaultField<string, "address"> = { kind: "address", default: "" };
export const optionalText: DefaultField<string | null, "optionalText"> = {
  kind: "optionalText",
  default: null,
};
export const integer: Field<number, "integer"> = { kind: "integer" };
export const optionalInteger: DefaultField<number | null, "optionalInteger"> = {
  kind: "optionalInteger",
  default: null,
};
/** A time in milliseconds since 1970. */
export const optionalTime: DefaultField<number | null, "optionalTime"> = {
  kind: "optionalTime",
  default: null,
};
/** A time in milliseconds, which the file has as a text like `5m`. */
export const duration: Field<number, "duration"> = { kind: "duration" };
/** Null: `off` in the file. */
export const durationOrOff: Field<number | null, "durationOrOff"> = { kind: "durationOrOff" };
export const textList: Field<string[], "textList"> = { kind: "textList" };
export const interfaceList: Field<Interface[], "interfaces"> = { kind: "interfaces" };
/** Other records, stored in a table of their own, in the operator's order. */
export const members: Field<string[], "members"> = { kind: "members" };
/** What a capability profile changes. */
export const profile: DefaultField<Readonly<Record<string, string | boolean>> | null, "profile"> = {
  kind: "profile",
  default: null,
};
export const price: DefaultField<Price | null, "price"> = { kind: "price", default: null };
export const textMap: Field<Record<string, string>, "textMap"> = { kind: "textMap" };
export const rateLimits: DefaultField<RateLimits, "rateLimits"> = {
  kind: "rateLimits",
  default: NO_RATE_LIMITS,
};
export const callerLimits: DefaultField<CallerLimits, "callerLimits"> = {
  kind: "callerLimits",
  default: NO_LIMITS,
};

export function choice<Value extends string>(values: readonly Value[]): Field<Value, "choice"> {
  return { kind: "choice", values };
}

/** A choice with a default, which the file leaves out. */
export function choiceOr<Value extends string>(
  byDefault: NoInfer<Value>,
  values: readonly Value[],
): DefaultField<Value, "choice"> {
  return { kind: "choice", values, default: byDefault };
}

/** Null: not chosen. */
export function optionalChoice<Value extends string>(
  values: readonly Value[],
): DefaultField<Value | null, "optionalChoice"> {
  return { kind: "optionalChoice", values, default: null };
}

/** A switch that the schema of the file describes. */
export const boolean: Field<boolean, "flag"> = { kind: "flag" };

export function booleanOr(byDefault: boolean): DefaultField<boolean, "flag"> {
  return { kind: "flag", default: byDefault };
}

/** A switch. Its description is that of the reference and of the JSON Schema, in Markdown. */
export interface FlagField extends DefaultField<boolean, "flag"> {
  readonly means: string;
  /** What it depends on. */
  readonly also?: string;
}

export function flag(byDefault: boolean, means: string, also?: string): FlagField {
  return { kind: "flag", default: byDefault, means, ...(also === undefined ? {} : { also }) };
}

/** A number that describes itself like a switch. */
export interface BoundedField<Kind extends "integer" | "duration"> extends DefaultField<number, Kind> {
  readonly min: number;
  readonly max: number;
  readonly means: string;
}

type Bounds = Pick<BoundedField<"integer">, "min" | "max">;

export function bounded(byDefault: number, bounds: Bounds, means: string): BoundedField<"integer"> {
  return { kind: "integer", default: byDefault, ...bounds, means };
}

export function boundedDuration(byDefault: number, bounds: Bounds, means: string): BoundedField<"duration"> {
  return { kind: "duration", default: byDefault, ...bounds, means };
}

/** An amount in USD as a decimal text. It describes itself like a switch. */
export interface UsdField extends DefaultField<string, "usd"> {
  readonly means: string;
}

export function usd(byDefault: string, means: string): UsdField {
  return { kind: "usd", default: byDefault, means };
}

/** A field that the schema of the file can be derived from. */
export type DescribedField = FlagField | BoundedField<"integer"> | BoundedField<"duration"> | UsdField;

type DescribedFields = Readonly<Record<string, DescribedField>>;

/** Fields with a name of their own. The file may leave them out, and is written with all of them. */
export interface SectionField<Fields extends DescribedFields = DescribedFields>
  extends DefaultField<RecordOf<Fields>, "section"> {
  readonly fields: Fields;
  readonly means: string;
}

export function section<Fields extends DescribedFields>(means: string, fields: Fields): SectionField<Fields> {
  return { kind: "section", means, fields, default: listDefaults(fields) as RecordOf<Fields> };
}

export function isFlag(field: Field<unknown>): field is FlagField {
  return field.kind === "flag" && "means" in field;
}

export function isSection(field: Field<unknown>): field is SectionField {
  return field.kind === "section";
}
