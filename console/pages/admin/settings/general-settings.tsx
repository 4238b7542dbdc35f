/** The form of registration and retention. */

import { useText } from "../../../text/text.tsx";
import { NumberField, SelectField } from "../../../ui/field.tsx";
import { Form, useForm } from "../../../ui/form.tsx";
import { Notice } from "../../../ui/notice.tsx";
import { Card, Section } from "../../../ui/page.tsx";
import { type Settings, useSaveSettings } from "./saving.ts";

const REGISTRATIONS = ["closed", "invite", "open"] as const;

export function GeneralSettings({ settings }: { settings: Settings }) {
  return (
    <div className="stack wide">
      <Registration settings={settings} />
      <Retention settings={settings} />
    </div>
  );
}

function Registration({ settings }: { settings: Settings }) {
  const t = useText("adminSettings").registration;
  const kit = useText("kit");
  const save = useSaveSettings();
  const form = useForm({ registration: settings.registration }, async ({ registration }) => {
    await save({ registration });
    form.reset({ registration });
  });
  return (
    <Section title={t.title} about={t.about}>
      <Card>
        <Form form={form} submit={kit.save}>
          <SelectField
            {...form.bind("registration")}
            label={t.title}
            choices={REGISTRATIONS.map((value) => ({ value, label: t.choices[value] }))}
          />
          {form.values.registration === "open" && <Notice tone="warn">{t.openWarning}</Notice>}
        </Form>
      </Card>
    </Section>
  );
}

function Retention({ settings }: { settings: Settings }) {
  const t = useText("adminSettings").retention;
  const kit = useText("kit");
  const save = useSaveSettings();
  const present = daysIn(settings.retention.usage_rows);
  const presentResponses = daysIn(settings.retention.responses) ?? 0;
  const form = useForm({ days: present, responseDays: presentResponses }, async (values) => {
    const { days, responseDays } = values;
    const usage_rows = days === null ? "forever" : `${days}d`;
    // A setting in hours is shown in days. It keeps its exact value unless it is changed here.
    const responses = responseDays === 0 ? "none" : `${responseDays}d`;
    const isChanged = responseDays !== presentResponses;
    await save({ retention: { usage_rows, ...(isChanged ? { responses } : {}) } });
    form.reset(values);
  });
  const { days } = form.values;
  const isShorter = days !== null && (present === null || days < present);
  return (
    <Section title={t.title} about={t.about}>
      <Card>
        <Form form={form} submit={kit.save}>
          <NumberField
            {...form.bind("days", "usage_rows")}
            label={t.days}
            hint={t.daysHint}
            min={7}
            optional
          />
          <NumberField
            {...form.bind("responseDays", "responses")}
            label={t.responseDays}
            hint={t.responseDaysHint}
            min={0}
          />
          {isShorter && <Notice tone="warn">{t.warning}</Notice>}
        </Form>
      </Card>
    </Section>
  );
}

const UNIT_DAYS: Readonly<Record<string, number>> = { h: 1 / 24, d: 1, w: 7 };

/** The configuration file may use other units. */
function daysIn(kept: string): number | null {
  const [, count = "", unit = ""] = /^(\d+)([a-z]+)$/.exec(kept) ?? [];
  const days = UNIT_DAYS[unit];
  return days === undefined ? null : Math.round(Number(count) * days);
}
