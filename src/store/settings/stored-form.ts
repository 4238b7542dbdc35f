/** The JSON of settings in the database, by the declaration of their fields (`records/fields.ts`). */

import { z } from "zod";
import { type Field, type FieldMap, isSection, type RecordOf } from "../../records/fields.ts";
import { type SettingsFieldTypes, WEBHOOK_FIELDS } from "../../records/settings.ts";

const text = z.string();
const texts = z.array(text);

type Forms = {
  readonly [Kind in Exclude<keyof SettingsFieldTypes, "section">]: (
    field: Field<SettingsFieldTypes[Kind]>,
  ) => z.ZodType<SettingsFieldTypes[Kind]>;
};

const FORMS: Forms = {
  identity: () => text,
  text: () => text,
  optionalText: () => text.nullable(),
  textList: () => texts,
  usd: () => text,
  integer: () => z.int(),
  duration: () => z.int(),
  durationOrOff: () => z.int().nullable(),
  flag: () => z.boolean(),
  choice: ({ values = [] }) => z.enum(values),
  claimRoles: () => z.object({ admin: texts, auditor: texts }),
  claimGroups: () => z.record(text, texts),
  managedSettings: () => z.record(text, z.object({ path: text, text })),
  webhooks: () => z.array(storedForm(WEBHOOK_FIELDS)),
};

export function storedForm<Fields extends FieldMap>(fields: Fields) {
  const forms = Object.entries(fields).map(([name, field]) => [name, storedValue(field)]);
  return z.object(Object.fromEntries(forms)) as z.ZodType<RecordOf<Fields>>;
}

function storedValue(field: Field<unknown>): z.ZodType {
  // Settings that an earlier version stored lack the sections of later ones.
  if (isSection(field)) return storedForm(field.fields).default(() => field.default);
  return (FORMS[field.kind as keyof Forms] as (field: Field<unknown>) => z.ZodType)(field);
}
