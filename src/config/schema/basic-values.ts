/** Schemas of basic values in gateway.yaml: names, amounts, times, addresses. Each one states its rule. */

import { z } from "zod";
import { snakeCase } from "../../base/name-case.ts";
import { parseUsd } from "../../money/nano.ts";
import { type FieldMap, type FileName, type FlagField, isFlag } from "../../records/fields.ts";
import { limits } from "../limits/product-limits.ts";

/**
 * A strict object. Its error about unknown fields contains the allowed ones, and config/parse/file.ts reads
 * them from it.
 */
export function fields<Shape extends z.ZodRawShape>(shape: Shape) {
  const allowed = Object.keys(shape).join(", ");
  return z.strictObject(shape, {
    error: (issue) => (issue.code === "unrecognized_keys" ? allowed : undefined),
  });
}

/**
 * A field of gateway.yaml: its rule, and what a rule cannot express. The reference and the JSON Schema for
 * editors are generated from both.
 */
export interface SchemaField<Is extends z.ZodType = z.ZodType> {
  is: Is;
  /** In Markdown, like the other texts. */
  means: string;
  /** The default, if it is not a value of the schema or needs an explanation. */
  leftOut?: string;
  /** Constraints besides the rule of the field itself. */
  also?: string;
}

interface Description {
  fields: Readonly<Record<string, SchemaField>>;
  /** The heading under which these fields are described once, if several sections have them. */
  heading: string | null;
}

const DESCRIPTIONS = new WeakMap<z.core.$ZodType, Description>();

/** Descriptions are plain literals beside the schema: the metadata of the library would copy every schema at start. */
export function describeFields<Fields extends Record<string, SchemaField>>(
  fieldMap: Fields,
  heading: string | null = null,
) {
  const shape = Object.fromEntries(Object.entries(fieldMap).map(([name, { is }]) => [name, is]));
  const schema = fields(shape as { [Name in keyof Fields]: Fields[Name]["is"] });
  DESCRIPTIONS.set(schema, { fields: fieldMap, heading });
  return schema;
}

type FlagSchemas<Fields extends FieldMap> = {
  [Name in keyof Fields as Fields[Name] extends FlagField
    ? FileName<Name, Fields[Name]>
    : never]: SchemaField<z.ZodDefault<z.ZodBoolean>>;
};

/** The switches among the fields of a record, which describe themselves. */
export function flagFields<Fields extends FieldMap>(fields: Fields): FlagSchemas<Fields> {
  const flags = Object.entries(fields).filter((entry): entry is [string, FlagField] => isFlag(entry[1]));
  return Object.fromEntries(
    flags.map(([name, { default: byDefault, kind: _, ...texts }]) => [
      snakeCase(name),
      { is: z.boolean().default(byDefault), ...texts },
    ]),
  ) as FlagSchemas<Fields>;
}

/** A refined schema is a new object that refers to its parent. */
export function readDescription(schema: z.core.$ZodType): Description | null {
  const { parent } = schema._zod;
  return DESCRIPTIONS.get(schema) ?? (parent === undefined ? null : readDescription(parent));
}

/** `rule` states the valid form, as the end of the sentence "must be …". */
export function text(rule: string, test: (value: string) => boolean) {
  return z.string({ error: rule }).refine(test, { error: rule });
}

/** An interpolated `${PORT}` is always text, so digits in a text count as a whole number too. */
export function wholeNumber(min: number, max: number) {
  const rule =
    max === Number.MAX_SAFE_INTEGER
      ? `a whole number, ${min} or more`
      : `a whole number from ${min} to ${max}`;
  return z.preprocess(
    (value) => (typeof value === "string" && /^\d{1,15}$/.test(value) ? Number(value) : value),
    z.int({ error: rule }).min(min, { error: rule }).max(max, { error: rule }),
  );
}

export const COUNT_MAX = Number.MAX_SAFE_INTEGER;

/** With six decimals, a price of this length is still exact as a number. */
const WHOLE_DIGITS_MAX = 9;

/** A decimal as text. Money never uses floating point, which cannot represent 0.1 exactly. */
export function decimal(decimalsMax: number) {
  const rule = `a non-negative decimal number like "0.15", with at most ${WHOLE_DIGITS_MAX} digits before the point and ${decimalsMax} after it`;
  const pattern = new RegExp(`^\\d{1,${WHOLE_DIGITS_MAX}}(\\.\\d{1,${decimalsMax}})?$`);
  return text(rule, (value) => pattern.test(value));
}

export const usd = decimal(9);

/** The limiter counts nano-USD in numbers, which are exact slightly beyond this amount. */
const WINDOW_USD_MAX = "9000000";
export const WINDOW_USD_RULE = `an amount in USD like "5.00", above 0 and at most ${WINDOW_USD_MAX}, with at most 9 decimals`;
export const windowUsd = text(WINDOW_USD_RULE, (value) => {
  if (!usd.safeParse(value).success) return false;
  const nano = parseUsd(value);
  return nano > 0n && nano <= parseUsd(WINDOW_USD_MAX);
});

/** The end of the year 9999. A later instant, like one before 1970, could be stored but not written back to a file. */
export const INSTANT_MS_MAX = 253_402_300_799_999;

/** A date without a time means the end of that day in UTC: a key that expires on Friday still works on Friday. */
export function instantMs(value: string): number | null {
  const day = /^\d{4}-\d{2}-\d{2}$/.test(value);
  if (!day && !/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2})$/.test(value))
    return null;
  const ms = Date.parse(day ? `${value}T23:59:59.999Z` : value);
  // Date.parse turns 31 February into March, so the parsed day is compared with the written one.
  const dayExists = new Date(`${value.slice(0, 10)}T00:00:00Z`);
  if (Number.isNaN(ms) || Number.isNaN(dayExists.getTime())) return null;
  if (ms < 0 || ms > INSTANT_MS_MAX) return null;
  return dayExists.toISOString().slice(0, 10) === value.slice(0, 10) ? ms : null;
}

export const INSTANT_RULE = "an ISO date like 2027-01-31, or a date and time like 2027-01-31T12:00:00Z";
export const instant = text(INSTANT_RULE, (value) => instantMs(value) !== null).transform(
  (value) => instantMs(value) ?? 0,
);

/** A date without a time means the start of that day in UTC. */
export function startMs(value: string): number | null {
  const ms = instantMs(value);
  return ms === null || value.length > 10 ? ms : Date.parse(`${value}T00:00:00Z`);
}
export const start = text(INSTANT_RULE, (value) => startMs(value) !== null).transform(
  (value) => startMs(value) ?? 0,
);

const CONTROL = /\p{C}/u;

export const NAME_RULE =
  "a name of 1 to 64 characters, without control characters and without leading or trailing spaces";
export function isName(value: string): boolean {
  return value.length >= 1 && value.length <= 64 && value.trim() === value && !CONTROL.test(value);
}
export const name = text(NAME_RULE, isName);

export const modelName = text(
  `a model name of 1 to ${limits.modelNameCharsMax} characters, without spaces or *`,
  (value) => value.length >= 1 && value.length <= limits.modelNameCharsMax && !/[\s*\p{C}]/u.test(value),
);

export const EMAIL_RULE = "an e-mail address like ops@example.com";
export function isEmail(value: string): boolean {
  return value.length <= 254 && /^[^\s@\p{C}]+@[^\s@.\p{C}]+(\.[^\s@.\p{C}]+)*$/u.test(value);
}
/** E-mail addresses are compared case-insensitively, so they are stored in lower case. */
export const email = text(EMAIL_RULE, isEmail).transform((value) => value.toLowerCase());

function httpUrl(value: string): URL | null {
  if (!/^https?:\/\//i.test(value) || !URL.canParse(value)) return null;
  const url = new URL(value);
  const plain = url.username === "" && url.password === "" && url.hash === "";
  return plain && url.hostname !== "" ? url : null;
}
export const PUBLIC_URL_RULE = "an http:// or https:// address without user, password, query or fragment";
export function isHttpUrl(value: string): boolean {
  return httpUrl(value)?.search === "";
}
export const url = text(PUBLIC_URL_RULE, isHttpUrl).transform(trimSlashes);

/** Not a pattern: it would start again at each slash of a path that ends with something else. */
function trimSlashes(value: string): string {
  let end = value.length;
  while (value[end - 1] === "/") end--;
  return value.slice(0, end);
}

/** The path is sent unchanged, so it must not contain characters that need encoding. */
export const baseUrl = text(
  `${PUBLIC_URL_RULE}, with a path in ASCII without spaces (write %20)`,
  (value) => isHttpUrl(value) && /^[^/]+\/\/[^/\\\s]+(?:\/[\x21-\x5b\x5d-\x7e]*)?$/.test(value),
).transform(trimSlashes);

/** The URL of a webhook. Many such URLs have a query. */
export const postUrl = text(
  "an http:// or https:// address without user, password or fragment",
  (value) => value.length <= 2048 && httpUrl(value) !== null,
);

export const HOST_RULE = "a host name or address, like smtp.example.com";
export const host = text(HOST_RULE, (value) => /^[A-Za-z0-9.:_-]{1,253}$/.test(value));
