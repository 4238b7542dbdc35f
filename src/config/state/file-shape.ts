/**
 * Converts records to the shape of gateway.yaml and back, and formats them for differences, by the declaration of their
 * fields (`records/fields.ts`).
 */

import { snakeCase } from "../../base/name-case.ts";
import { instantText } from "../../base/time.ts";
import { parseUsd, usdText } from "../../money/nano.ts";
import { flatPrice } from "../../money/prices.ts";
import { ACCOUNT_FIELDS } from "../../records/account.ts";
import { ALERT_RULE_FIELDS } from "../../records/alert-rules.ts";
import type { FallbackStep, KeyFallback } from "../../records/fallback.ts";
import {
  type Field,
  type FieldMap,
  type FileName,
  type FileRecord,
  isSection,
  type SectionField,
  type ValueOf,
} from "../../records/fields.ts";
import { GROUP_FIELDS, type GroupBilling, NO_BILLING } from "../../records/group.ts";
import type { Interface } from "../../records/interfaces.ts";
import { KEY_FIELDS } from "../../records/key.ts";
import { MODEL_FIELDS } from "../../records/model.ts";
import type { FieldTypes } from "../../records/policy.ts";
import { type Price, TOKEN_UNITS } from "../../records/price.ts";
import { SCIM_FIELDS, type SettingsFieldTypes, SMTP_FIELDS, WEBHOOK_FIELDS } from "../../records/settings.ts";
import { PROVIDER_FIELDS } from "../../records/sign-in.ts";
import { TOOL_SIGN_IN_FIELDS } from "../../records/tool-sign-in.ts";
import type { FileGroup } from "../schema/schema.ts";
import {
  durationText,
  formatLimits,
  limitsToFile,
  parseCallerLimits,
  parseQueue,
  parseRateLimits,
  queueToFile,
} from "../schema/usage-limits.ts";
import { type FormattedFields, formatBelow, formatInterfaces, formatList, formatMap } from "./difference.ts";

interface FileKind<Value, Parsed, Written> {
  /** Undefined if the file omits the field. */
  parse(value: Parsed): Value;
  /** Undefined: the field is left out. */
  write(value: Value): Written;
  /** One text, or several with the names of fields below this one. */
  format(value: Value, field: string): string | null | FormattedFields;
}

function plain<Value>(format: (value: Value) => string): FileKind<Value, Value, Value> {
  return { parse: (value) => value, write: (value) => value, format };
}

function optional<Value>(
  format: (value: Value) => string,
): FileKind<Value | null, Value | undefined, Value | undefined> {
  return {
    parse: (value) => value ?? null,
    write: (value) => value ?? undefined,
    format: (value) => (value === null ? null : format(value)),
  };
}

/** A map without entries is none. */
function optionalMap<Value extends object>(format: (value: Value) => string) {
  return {
    ...optional(format),
    parse: (value: Value | undefined) =>
      value === undefined || Object.keys(value).length === 0 ? null : value,
  };
}

const asIs = (value: string) => value;

const asUsd = (value: string) => usdText(parseUsd(value));

const durationOrOff = (ms: number | null) => (ms === null ? "off" : durationText(ms));

const KINDS = {
  identity: plain<string>(asIs),
  text: plain<string>(asIs),
  address: {
    parse: (value: string | undefined) => value ?? "",
    write: (value: string) => (value === "" ? undefined : value),
    format: (value: string) => (value === "" ? null : value),
  },
  optionalText: optional<string>(asIs),
  integer: plain<number>(String),
  optionalInteger: optional<number>(String),
  optionalTime: {
    parse: (ms: number | undefined) => ms ?? null,
    write: (ms: number | null) => instantText(ms) ?? undefined,
    format: instantText,
  },
  flag: plain<boolean>(String),
  duration: { ...plain<number>(durationText), write: durationText },
  durationOrOff: { ...plain<number | null>(durationOrOff), write: durationOrOff },
  usd: { ...plain<string>(asUsd), parse: asUsd },
  textList: plain<string[]>(formatList),
  claimRoles: plain<SettingsFieldTypes["claimRoles"]>(JSON.stringify),
  claimGroups: plain<SettingsFieldTypes["claimGroups"]>(JSON.stringify),
  choice: plain<FieldTypes["choice"]>(asIs),
  optionalChoice: optional<NonNullable<FieldTypes["optionalChoice"]>>(asIs),
  interfaces: plain<Interface[]>(formatInterfaces),
  members: plain<string[]>(formatList),
  textMap: plain<Record<string, string>>(formatMap),
  profile: optionalMap<NonNullable<FieldTypes["profile"]>>((profile) =>
    formatMap(Object.fromEntries(Object.entries(profile).map(([name, value]) => [name, String(value)]))),
  ),
  price: {
    ...optionalMap<Price>((price) => formatMap(flatPrice(price))),
    write: (price: Price | null) => (price === null ? undefined : sortPriceUnits(price)),
  },
  rateLimits: {
    parse: parseRateLimits,
    write: (limits: FieldTypes["rateLimits"]) => limitsToFile(limits),
    format: (limits: FieldTypes["rateLimits"], field: string) => formatLimits(field, limits),
  },
  callerLimits: {
    parse: parseCallerLimits,
    write: (limits: FieldTypes["callerLimits"]) => limitsToFile(limits),
    format: (limits: FieldTypes["callerLimits"], field: string) => formatLimits(field, limits),
  },
  queue: {
    parse: parseQueue,
    write: queueToFile,
    format: ({ maxWaiting, timeoutMs }: FieldTypes["queue"]) => ({
      "queue.max_waiting": String(maxWaiting),
      "queue.timeout": durationText(timeoutMs),
    }),
  },
  groupFallback: {
    parse: (file: FileFallback<"group">[] | undefined) =>
      (file ?? []).map((step) => ({ ...parseConditions(step), group: step.group, model: null })),
    write: (steps: readonly FallbackStep[]) => writeSteps(steps, ({ group }) => ({ group: group ?? "" })),
    format: formatFallback,
  },
  modelFallback: {
    parse: (file: FileFallback<"model">[] | undefined) =>
      (file ?? []).map((step) => ({ ...parseConditions(step), group: null, model: step.model })),
    write: (steps: readonly FallbackStep[]) => writeSteps(steps, ({ model }) => ({ model: model ?? "" })),
    format: formatFallback,
  },
  keyFallback: {
    ...optional<"deny">(asIs),
    parse: (value: "allow" | "deny" | undefined): KeyFallback => (value === "deny" ? value : null),
  },
  billing: { parse: parseBilling, write: billingToFile, format: formatBilling },
} satisfies { [Kind in keyof FieldTypes]: FileKind<FieldTypes[Kind], never, unknown> } & {
  [Kind in Exclude<keyof SettingsFieldTypes, keyof FieldTypes | SettingsKindOutsideFile>]: FileKind<
    SettingsFieldTypes[Kind],
    never,
    unknown
  >;
};

type SettingsKindOutsideFile = "section" | "webhooks" | "managedSettings";

/** The fields of a section have its name and a dot before their own. */
function sectionKind({ fields, default: byDefault }: SectionField): FileKind<unknown, unknown, unknown> {
  const shape = new FileShape(fields, { leavesOutDefaults: false });
  const kind: FileKind<typeof byDefault, Parameters<typeof shape.parse>[0] | undefined, unknown> = {
    parse: (section) => (section === undefined ? byDefault : shape.parse(section)),
    write: (value) => shape.write(value),
    format: (value, name) => formatBelow(name, shape.format(value)),
  };
  return kind;
}

type Kinds = typeof KINDS;

/** The values of the file after validation. */
type Parsed<Declared> =
  Declared extends SectionField<infer Fields>
    ? ParsedShape<Fields> | undefined
    : Declared extends Field<unknown, "choice">
      ? ValueOf<Declared>
      : Declared extends Field<unknown, "optionalChoice">
        ? NonNullable<ValueOf<Declared>> | undefined
        : Declared extends Field<unknown, infer Kind extends keyof Kinds>
          ? Parameters<Kinds[Kind]["parse"]>[0]
          : never;

type WrittenValue<Declared> =
  Declared extends Field<unknown, "choice" | "optionalChoice">
    ? NonNullable<ValueOf<Declared>>
    : Declared extends Field<unknown, infer Kind extends keyof Kinds>
      ? ReturnType<Kinds[Kind]["write"]>
      : never;

/** The values that are written. A default is left out, but not in a section. */
type Written<Declared> =
  Declared extends SectionField<infer Fields>
    ? { [Name in keyof Fields as FileName<Name, Fields[Name]>]: WrittenValue<Fields[Name]> }
    : (Declared extends { readonly default: unknown } ? undefined : never) | WrittenValue<Declared>;

/** Properties that may be undefined are optional. */
type Omittable<Properties> = {
  [Name in keyof Properties as undefined extends Properties[Name] ? never : Name]: Properties[Name];
} & {
  [Name in keyof Properties as undefined extends Properties[Name] ? Name : never]?: Properties[Name];
};

type ParsedShape<Fields extends FieldMap> = Omittable<{
  [Name in keyof Fields as FileName<Name, Fields[Name]>]: Parsed<Fields[Name]>;
}>;
type WrittenShape<Fields extends FieldMap> = Omittable<{
  [Name in keyof Fields as FileName<Name, Fields[Name]>]: Written<Fields[Name]>;
}>;

interface FileField {
  readonly name: string;
  readonly file: string;
  readonly byDefault: unknown;
  readonly kind: FileKind<unknown, unknown, unknown>;
}

/** The shape of one section of the file. Fields that the file does not have are left out. */
class FileShape<Fields extends FieldMap> {
  readonly #fields: readonly FileField[];

  constructor(fields: Fields, { leavesOutDefaults = true } = {}) {
    this.#fields = Object.entries(fields).flatMap(([name, field]): FileField[] => {
      const { file = snakeCase(name) } = field;
      if (file === null) return [];
      if (isSection(field)) return [{ name, file, byDefault: undefined, kind: sectionKind(field) }];
      const byDefault = leavesOutDefaults ? field.default : undefined;
      return [{ name, file, byDefault, kind: KINDS[field.kind as keyof Kinds] }];
    });
  }

  parse(entry: ParsedShape<Fields>): FileRecord<Fields> {
    const values: Readonly<Record<string, unknown>> = entry;
    return Object.fromEntries(
      this.#fields.map(({ name, file, kind }) => [name, kind.parse(values[file])]),
    ) as FileRecord<Fields>;
  }

  write(record: FileRecord<Fields>): WrittenShape<Fields> {
    const values: Readonly<Record<string, unknown>> = record;
    const written = this.#fields.flatMap(({ name, file, kind, byDefault }) => {
      const value = values[name] === byDefault ? undefined : kind.write(values[name]);
      return value === undefined ? [] : [[file, value]];
    });
    return Object.fromEntries(written) as WrittenShape<Fields>;
  }

  /** With the names of the file. Never contains secrets, nor the name of the record. */
  format(record: FileRecord<Fields>): FormattedFields {
    const values: Readonly<Record<string, unknown>> = record;
    const formatted: Record<string, string | null> = {};
    for (const { name, file, kind } of this.#fields) {
      if (kind === KINDS.identity) continue;
      const shown = kind.format(values[name], file);
      if (typeof shown === "string" || shown === null) formatted[file] = shown;
      else Object.assign(formatted, shown);
    }
    return formatted;
  }
}

export const MODEL_SHAPE = new FileShape(MODEL_FIELDS);
export const ACCOUNT_SHAPE = new FileShape(ACCOUNT_FIELDS);
export const GROUP_SHAPE = new FileShape(GROUP_FIELDS);
export const KEY_SHAPE = new FileShape(KEY_FIELDS);
export const SMTP_SHAPE = new FileShape(SMTP_FIELDS);
export const WEBHOOK_SHAPE = new FileShape(WEBHOOK_FIELDS);
export const ALERT_RULES_SHAPE = new FileShape(ALERT_RULE_FIELDS);
export const SCIM_SHAPE = new FileShape(SCIM_FIELDS);
export const PROVIDER_SHAPE = new FileShape(PROVIDER_FIELDS);
export const TOOL_SIGN_IN_SHAPE = new FileShape(TOOL_SIGN_IN_FIELDS);

function parseBilling(file: FileGroup["billing"]): GroupBilling {
  return {
    charge: file?.charge ?? NO_BILLING.charge,
    plans: file?.plans ?? null,
    multiplier: file?.multiplier ?? NO_BILLING.multiplier,
    modelMultipliers: file?.model_multipliers ?? {},
    modelPrices: file?.model_prices ?? {},
  };
}

function billingToFile({ charge, plans, multiplier, modelMultipliers, modelPrices }: GroupBilling) {
  const prices = Object.entries(modelPrices).map(([model, price]) => [model, sortPriceUnits(price)]);
  return {
    charge,
    ...(plans === null ? {} : { plans }),
    multiplier,
    ...(Object.keys(modelMultipliers).length === 0 ? {} : { model_multipliers: modelMultipliers }),
    ...(prices.length === 0 ? {} : { model_prices: Object.fromEntries(prices) as Record<string, Price> }),
  };
}

/** The parsed form of the schema. */
interface FileConditions extends Pick<FallbackStep, "when"> {
  pay?: FallbackStep["pay"] | undefined;
  max_price?: string | undefined;
  leave_after?: number | undefined;
  stay?: number | undefined;
}
type FileFallback<Target extends "group" | "model"> = FileConditions & { [Name in Target]: string };

function parseConditions(step: FileConditions): Omit<FallbackStep, "group" | "model"> {
  return {
    when: step.when,
    pay: step.pay ?? null,
    maxPrice: step.max_price ?? null,
    leaveAfterMs: step.leave_after ?? null,
    stayMs: step.stay ?? null,
  };
}

function writeSteps<Target>(steps: readonly FallbackStep[], writeTarget: (step: FallbackStep) => Target) {
  if (steps.length === 0) return undefined;
  return steps.map((step) => ({
    ...writeTarget(step),
    when: step.when,
    ...(step.pay === null ? {} : { pay: step.pay }),
    ...(step.maxPrice === null ? {} : { max_price: step.maxPrice }),
    ...(step.leaveAfterMs === null ? {} : { leave_after: durationText(step.leaveAfterMs) }),
    ...(step.stayMs === null ? {} : { stay: durationText(step.stayMs) }),
  }));
}

/** One line for each step. */
function formatFallback(steps: readonly FallbackStep[], field: string): FormattedFields {
  const written = writeSteps(steps, ({ group, model }) => (group === null ? { model } : { group }));
  const lines = (written ?? []).map(({ when, ...step }, at) => [
    `${field}.${at + 1}`,
    `{${Object.entries({ ...step, when: formatList(when) })
      .map(([name, value]) => `${name}: ${value}`)
      .join(", ")}}`,
  ]);
  return Object.fromEntries(lines);
}

const PRICE_ORDER: readonly string[] = [
  ...TOKEN_UNITS,
  "image",
  "images",
  "request",
  "long_context",
] satisfies (keyof Price)[];

function sortPriceUnits(price: Price): Price {
  const order = (unit: string) => PRICE_ORDER.indexOf(unit);
  return Object.fromEntries(Object.entries(price).sort(([a], [b]) => order(a) - order(b)));
}

function formatBilling({
  charge,
  plans,
  multiplier,
  modelMultipliers,
  modelPrices,
}: GroupBilling): FormattedFields {
  const prices = Object.entries(modelPrices).map(([model, price]) => [
    `billing.model_prices.${model}`,
    formatMap(flatPrice(price)),
  ]);
  return {
    "billing.charge": charge,
    "billing.plans": plans === null ? null : formatList(plans),
    "billing.multiplier": multiplier,
    "billing.model_multipliers": formatMap(modelMultipliers),
    ...Object.fromEntries(prices),
  };
}
