/** Creates or edits a plan. */

import { useChange } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { SelectField, TextField } from "../../../ui/field.tsx";
import { CancelButton, Form, useForm } from "../../../ui/form.tsx";
import { useToast } from "../../../ui/toast.tsx";
import type { Plan } from "./plan.ts";

const PERIODS = ["day", "week", "month"] as const;
type Period = (typeof PERIODS)[number];
const COUNTED = ["calendar", "rolling"] as const;
type Counted = (typeof COUNTED)[number];

interface PlanValues {
  name: string;
  timeZone: string;
  /** Empty: the plan has no such window. */
  usd: Readonly<Record<Period, string>>;
  counted: Readonly<Record<Period, Counted>>;
}

function readValues(plan: Plan | null): PlanValues {
  const of = (per: Period) => plan?.windows.find((window) => window.per === per);
  return {
    name: plan?.name ?? "",
    timeZone: plan?.time_zone ?? "UTC",
    usd: {
      day: of("day")?.usd ?? "",
      week: of("week")?.usd ?? "",
      month: of("month")?.usd ?? "",
    },
    counted: {
      day: of("day")?.counted ?? "calendar",
      week: of("week")?.counted ?? "calendar",
      month: of("month")?.counted ?? "calendar",
    },
  };
}

export function PlanDialog({ plan, onClose }: { plan: Plan | null; onClose(): void }) {
  const t = useText("adminPlans");
  const kit = useText("kit");
  const showToast = useToast();
  const save = useChange("admin.plans.save", { invalidates: ["admin.plans.", "admin.subscriptions."] });
  const form = useForm(readValues(plan), async ({ name, timeZone, usd, counted }) => {
    const windows = PERIODS.filter((per) => usd[per].trim() !== "").map((per) => ({
      per,
      usd: usd[per].trim(),
      counted: counted[per],
    }));
    const body = { name: name.trim(), time_zone: timeZone.trim(), windows };
    await save.mutateAsync({ params: { name: body.name }, body });
    showToast(t.saved);
    onClose();
  });
  const { usd, counted } = form.values;
  const given = PERIODS.filter((per) => usd[per].trim() !== "");
  return (
    <Dialog title={plan === null ? t.create : t.editing(plan.name)} onClose={onClose}>
      <Form form={form} submit={kit.save} atEnd actions={<CancelButton onClick={onClose} />}>
        {plan === null ? (
          <TextField {...form.bind("name")} label={t.name} maxLength={64} />
        ) : (
          <p className="soft">{t.changeNote}</p>
        )}
        <TextField {...form.bind("timeZone", "time_zone")} label={t.timeZone} hint={t.timeZoneHint} />
        <fieldset className="field">
          <legend>{t.windows}</legend>
          <div className="hint">{t.windowsHint}</div>
          <div className="stack">
            {PERIODS.map((per) => (
              <div key={per} className="columns">
                <TextField
                  name={`windows.${per}`}
                  label={t.usdPer(t.periods[per])}
                  inputMode="decimal"
                  optional
                  value={usd[per]}
                  onChange={(value) => form.set("usd", { ...usd, [per]: value })}
                  problem={given.includes(per) ? form.problemAt(`windows[${given.indexOf(per)}]`) : null}
                />
                <SelectField
                  name={`counted.${per}`}
                  label={t.counted}
                  value={counted[per]}
                  onChange={(value) => form.set("counted", { ...counted, [per]: value })}
                  choices={COUNTED.map((value) => ({ value, label: t.countedBy[value] }))}
                />
              </div>
            ))}
          </div>
        </fieldset>
      </Form>
    </Dialog>
  );
}
