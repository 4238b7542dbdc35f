/** The alert rules in the console's API: their settings in the shape of gateway.yaml, and what the form offers. */

import { z } from "zod";
import { durationText } from "../../config/schema/usage-limits.ts";
import {
  type AlertThresholdName,
  CONFIGURED_ALERT_RULES,
  type ConfiguredAlertRule,
} from "../../records/alert-rules.ts";
import type { DescribedField } from "../../records/fields.ts";
import { forAdmins } from "../http/route.ts";

const VALUES = { flag: z.boolean(), integer: z.number(), duration: z.string(), usd: z.string() };

/** By the name of the rule. The schema of the file validates the values. */
export const ruleSettings = Object.fromEntries(
  CONFIGURED_ALERT_RULES.map(({ rule, fields }) => [rule, createSettingsSchema(fields)]),
) as Record<ConfiguredAlertRule, ReturnType<typeof createSettingsSchema>>;

function createSettingsSchema(fields: (typeof CONFIGURED_ALERT_RULES)[number]["fields"]) {
  const values = fields.map(({ name, field }) => [name, VALUES[field.kind]] as const);
  return z.strictObject(Object.fromEntries(values)).optional();
}

const THRESHOLD_NAMES = CONFIGURED_ALERT_RULES.flatMap(({ fields }) =>
  fields.flatMap(({ name }) => (name === "enabled" ? [] : [name])),
);
const name = z.enum(THRESHOLD_NAMES);
const thresholdObject = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("integer"), name, default: z.number(), min: z.number(), max: z.number() }),
  /** Texts like `5m`. */
  z.object({ kind: z.literal("duration"), name, default: z.string(), min: z.string(), max: z.string() }),
  z.object({ kind: z.literal("usd"), name, default: z.string() }),
]);

const ruleObject = z.object({
  rule: z.enum(CONFIGURED_ALERT_RULES.map(({ rule }) => rule)),
  thresholds: z.array(thresholdObject),
});

export const alertRuleRoutes = {
  "admin.alert_rules.list": forAdmins({
    method: "GET",
    path: "/api/admin/alert-rules",
    summary: "List the alert rules that can be configured, with the fields of their thresholds",
    response: z.object({ data: z.array(ruleObject) }),
    async run() {
      return {
        data: CONFIGURED_ALERT_RULES.map(({ rule, fields }) => ({
          rule,
          thresholds: fields.flatMap(({ name, field }) =>
            name === "enabled" ? [] : describeThreshold(name, field),
          ),
        })),
      };
    },
  }),
};

function describeThreshold(
  name: AlertThresholdName,
  field: DescribedField,
): z.input<typeof thresholdObject>[] {
  switch (field.kind) {
    case "integer":
      return [{ kind: field.kind, name, default: field.default, min: field.min, max: field.max }];
    case "duration": {
      const [min, max] = [durationText(field.min), durationText(field.max)];
      return [{ kind: field.kind, name, default: durationText(field.default), min, max }];
    }
    case "usd":
      return [{ kind: field.kind, name, default: field.default }];
    // The only switch of a rule is `enabled`.
    case "flag":
      return [];
  }
}
