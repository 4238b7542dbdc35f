/** The form of the alert rules. */

import { useText } from "../../../text/text.tsx";
import { CheckboxField, NumberField, TextField } from "../../../ui/field.tsx";
import { Form, type FormState, useForm } from "../../../ui/form.tsx";
import { Card, Section } from "../../../ui/page.tsx";
import { type Alerts, webhooksBody } from "./alerts.ts";
import { useSaveSettings } from "./saving.ts";

const UNIT_SECONDS: Readonly<Record<string, number>> = { ms: 0.001, s: 1, m: 60, h: 3_600 };

function secondsIn(duration: string | undefined): number | null {
  const [, count = "", unit = ""] = /^(\d+)([a-z]+)$/.exec(duration ?? "") ?? [];
  const seconds = UNIT_SECONDS[unit];
  return seconds === undefined ? null : Number(count) * seconds;
}

type RuleValues = ReturnType<typeof ruleValues>;

function ruleValues({ account_parked, pool_empty, spend, error_rate, fallback_rate, overruns }: Alerts) {
  return {
    accountParked: account_parked?.enabled ?? true,
    poolEmpty: pool_empty?.enabled ?? true,
    poolEmptyFor: secondsIn(pool_empty?.for),
    spend: spend?.enabled ?? false,
    spendUsd: spend?.usd_per_day ?? "100",
    errorRate: error_rate?.enabled ?? true,
    percent: (error_rate?.percent ?? 20) as number | null,
    minutes: Math.round((secondsIn(error_rate?.over) ?? 300) / 60) as number | null,
    minRequests: (error_rate?.min_requests ?? 20) as number | null,
    fallbackRate: fallback_rate?.enabled ?? true,
    fallbackPercent: (fallback_rate?.percent ?? 50) as number | null,
    fallbackMinutes: Math.round((secondsIn(fallback_rate?.over) ?? 300) / 60) as number | null,
    fallbackRequests: (fallback_rate?.min_requests ?? 20) as number | null,
    overruns: overruns?.enabled ?? true,
    overrunCount: (overruns?.count ?? 3) as number | null,
    overrunMinutes: Math.round((secondsIn(overruns?.over) ?? 3_600) / 60) as number | null,
  };
}

function rulesBody(values: RuleValues) {
  return {
    account_parked: { enabled: values.accountParked },
    pool_empty: { enabled: values.poolEmpty, for: `${values.poolEmptyFor ?? 0}s` },
    spend: { enabled: values.spend, usd_per_day: values.spendUsd.trim() },
    error_rate: {
      enabled: values.errorRate,
      percent: values.percent ?? 0,
      over: `${values.minutes ?? 0}m`,
      min_requests: values.minRequests ?? 0,
    },
    fallback_rate: {
      enabled: values.fallbackRate,
      percent: values.fallbackPercent ?? 0,
      over: `${values.fallbackMinutes ?? 0}m`,
      min_requests: values.fallbackRequests ?? 0,
    },
    overruns: {
      enabled: values.overruns,
      count: values.overrunCount ?? 0,
      over: `${values.overrunMinutes ?? 0}m`,
    },
  };
}

export function AlertRules({ alerts }: { alerts: Alerts }) {
  const t = useText("adminSettings").alerts;
  const kit = useText("kit");
  const save = useSaveSettings();
  const form = useForm(ruleValues(alerts), async (values) => {
    const saved = await save({
      alerts: { webhooks: webhooksBody(alerts.webhooks), ...rulesBody(values) },
    });
    form.reset(ruleValues(saved.alerts));
  });
  return (
    <Section title={t.rules} about={t.rulesAbout}>
      <Card>
        <Form form={form} submit={kit.save}>
          <CheckboxField {...form.bind("accountParked")} label={t.accountParked} hint={t.accountParkedHint} />
          <CheckboxField {...form.bind("poolEmpty")} label={t.poolEmpty} hint={t.poolEmptyHint} />
          <div className="columns">
            <NumberField {...form.bind("poolEmptyFor", "pool_empty.for")} label={t.poolEmptyFor} min={1} />
          </div>
          <CheckboxField {...form.bind("spend")} label={t.spend} hint={t.spendHint} />
          <div className="columns">
            <TextField
              {...form.bind("spendUsd", "spend.usd_per_day")}
              label={t.spendUsd}
              inputMode="decimal"
            />
          </div>
          <ErrorRateFields form={form} />
          <FallbackRateFields form={form} />
          <OverrunFields form={form} />
        </Form>
      </Card>
    </Section>
  );
}

function ErrorRateFields({ form }: { form: FormState<RuleValues> }) {
  const t = useText("adminSettings").alerts;
  return (
    <>
      <CheckboxField {...form.bind("errorRate")} label={t.errorRate} hint={t.errorRateHint} />
      <div className="columns">
        <NumberField
          {...form.bind("percent", "error_rate.percent")}
          label={t.percent}
          min={1}
          max={100}
          suffix="%"
        />
        <NumberField {...form.bind("minutes", "error_rate.over")} label={t.minutes} min={1} max={60} />
        <NumberField {...form.bind("minRequests", "error_rate.min_requests")} label={t.minRequests} min={1} />
      </div>
    </>
  );
}

function FallbackRateFields({ form }: { form: FormState<RuleValues> }) {
  const t = useText("adminSettings").alerts;
  return (
    <>
      <CheckboxField {...form.bind("fallbackRate")} label={t.fallbackRate} hint={t.fallbackRateHint} />
      <div className="columns">
        <NumberField
          {...form.bind("fallbackPercent", "fallback_rate.percent")}
          label={t.percent}
          min={1}
          max={100}
          suffix="%"
        />
        <NumberField
          {...form.bind("fallbackMinutes", "fallback_rate.over")}
          label={t.minutes}
          min={1}
          max={60}
        />
        <NumberField
          {...form.bind("fallbackRequests", "fallback_rate.min_requests")}
          label={t.minRequests}
          min={1}
        />
      </div>
    </>
  );
}

function OverrunFields({ form }: { form: FormState<RuleValues> }) {
  const t = useText("adminSettings").alerts;
  return (
    <>
      <CheckboxField {...form.bind("overruns")} label={t.overruns} hint={t.overrunsHint} />
      <div className="columns">
        <NumberField {...form.bind("overrunCount", "overruns.count")} label={t.overrunCount} min={1} />
        <NumberField {...form.bind("overrunMinutes", "overruns.over")} label={t.minutes} min={1} max={60} />
      </div>
    </>
  );
}
