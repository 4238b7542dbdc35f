/** Schema of the alerts: their webhooks, and the settings of their rules (`records/alert-rules.ts`). */

import { z } from "zod";
import { type ALERT_RULE_FIELDS, CONFIGURED_ALERT_RULES } from "../../records/alert-rules.ts";
import type { DescribedField, FieldMap, FileName, ValueOf } from "../../records/fields.ts";
import { describeFields, type SchemaField, wholeNumber, windowUsd } from "./basic-values.ts";
import { durationWithin } from "./limits.ts";
import { durationText } from "./usage-limits.ts";
import { describeWebhooks } from "./webhooks.ts";

function valueRule(field: DescribedField): z.ZodType {
  switch (field.kind) {
    case "flag":
      return z.boolean().default(field.default);
    case "integer":
      return wholeNumber(field.min, field.max).default(field.default);
    case "duration":
      return durationWithin(field.min, field.max, "5m").prefault(durationText(field.default));
    case "usd":
      return windowUsd.default(field.default);
  }
}

type Rules = typeof ALERT_RULE_FIELDS;
type ParsedFields<Fields extends FieldMap> = {
  [Name in keyof Fields as FileName<Name, Fields[Name]>]: ValueOf<Fields[Name]>;
};
type RuleSchemas = {
  [Name in keyof Rules as FileName<Name, Rules[Name]>]: SchemaField<
    z.ZodOptional<z.ZodType<ParsedFields<Rules[Name]["fields"]>>>
  >;
};

const rules = Object.fromEntries(
  CONFIGURED_ALERT_RULES.map(({ rule, means, fields }) => {
    const described = fields.map(({ name, field }) => [name, { is: valueRule(field), means: field.means }]);
    const is = describeFields(Object.fromEntries(described)).optional();
    return [rule, { is, means: `alert: ${means}`, leftOut: "the defaults of its fields" }];
  }),
) as unknown as RuleSchemas;

export const alerts = describeFields({
  webhooks: describeWebhooks({
    name: "the name of the webhook",
    posted: "alerts are",
    enabled: "whether the webhook receives alerts",
    list: "the webhooks that receive alerts",
  }),
  ...rules,
});
