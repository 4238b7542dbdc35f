/** The form of the alert rules. The API declares them with their fields. */

import { Fragment } from "react";
import type { ResponseBody } from "../../../api.ts";
import { useApi } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Awaited } from "../../../ui/awaited.tsx";
import { CheckboxField, NumberField, TextField } from "../../../ui/field.tsx";
import { Form, type FormState, useForm } from "../../../ui/form.tsx";
import { Card, Section } from "../../../ui/page.tsx";
import { type Alerts, webhooksBody } from "./alerts.ts";
import { useSaveSettings } from "./saving.ts";

type Rule = ResponseBody<"admin.alert_rules.list">["data"][number];
type Threshold = Rule["thresholds"][number];

/** By the path of the field, like `spend.enabled`. Durations are in the unit of their minimum. */
type RuleValues = Readonly<Record<string, boolean | number | string | null>>;

export function AlertRules({ alerts }: { alerts: Alerts }) {
  const t = useText("adminSettings").alerts;
  const rules = useApi("admin.alert_rules.list");
  return (
    <Section title={t.rules} about={t.rulesAbout}>
      {rules.data === undefined ? (
        <Awaited query={rules} height={300} />
      ) : (
        <RulesForm alerts={alerts} rules={rules.data.data} />
      )}
    </Section>
  );
}

function RulesForm({ alerts, rules }: { alerts: Alerts; rules: readonly Rule[] }) {
  const t = useText("adminSettings").alerts;
  const kit = useText("kit");
  const save = useSaveSettings();
  const form = useForm(readValues(rules, alerts), async (values) => {
    const saved = await save({
      alerts: { webhooks: webhooksBody(alerts.webhooks), ...writeSettings(rules, values) },
    });
    form.reset(readValues(rules, saved.alerts));
  });
  return (
    <Card>
      <Form form={form} submit={kit.save}>
        {rules.map(({ rule, thresholds }) => (
          <Fragment key={rule}>
            <CheckboxField
              {...form.bind(`${rule}.enabled`)}
              value={form.values[`${rule}.enabled`] === true}
              {...t.ruleTexts[rule]}
            />
            {thresholds.length > 0 && (
              <div className="columns">
                {thresholds.map((one) => (
                  <ThresholdField key={one.name} form={form} path={`${rule}.${one.name}`} threshold={one} />
                ))}
              </div>
            )}
          </Fragment>
        ))}
      </Form>
    </Card>
  );
}

interface ThresholdFieldProps {
  form: FormState<RuleValues>;
  path: string;
  threshold: Threshold;
}

function ThresholdField({ form, path, threshold }: ThresholdFieldProps) {
  const t = useText("adminSettings").alerts;
  const value = form.values[path];
  const field = { ...form.bind(path), label: t.thresholds[threshold.name] };
  if (threshold.kind === "usd") return <TextField {...field} value={String(value)} inputMode="decimal" />;
  return (
    <NumberField
      {...field}
      value={typeof value === "number" ? value : null}
      min={readNumber(threshold, threshold.min)}
      max={readNumber(threshold, threshold.max)}
      {...(threshold.name === "percent" && { suffix: "%" })}
    />
  );
}

function readValues(rules: readonly Rule[], alerts: Alerts): RuleValues {
  const values = rules.flatMap(({ rule, thresholds }) => {
    const settings = alerts[rule] ?? {};
    return [
      [`${rule}.enabled`, settings.enabled === true] as const,
      ...thresholds.map((one) => {
        const value = settings[one.name] ?? one.default;
        return [`${rule}.${one.name}`, one.kind === "usd" ? String(value) : readNumber(one, value)] as const;
      }),
    ];
  });
  return Object.fromEntries(values);
}

function writeSettings(rules: readonly Rule[], values: RuleValues) {
  const settings = rules.map(({ rule, thresholds }) => {
    const written = thresholds.map((one) => {
      const value = values[`${rule}.${one.name}`] ?? 0;
      if (one.kind === "usd") return [one.name, String(value).trim()] as const;
      return [one.name, one.kind === "duration" ? `${value}${durationUnit(one.min)}` : value] as const;
    });
    return [rule, { enabled: values[`${rule}.enabled`] === true, ...Object.fromEntries(written) }] as const;
  });
  return Object.fromEntries(settings);
}

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

function durationUnit(duration: string): string {
  return duration.replace(/^\d+/, "");
}

/** A duration in the unit of the field. */
function readNumber(
  threshold: Exclude<Threshold, { kind: "usd" }>,
  value: boolean | number | string,
): number {
  if (threshold.kind === "integer") return Number(value);
  const text = String(value);
  const ms = Number.parseInt(text, 10) * (UNIT_MS[durationUnit(text)] ?? 1);
  return Math.round(ms / (UNIT_MS[durationUnit(threshold.min)] ?? 1));
}
