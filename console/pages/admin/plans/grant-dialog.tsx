import { useChange, useList } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { NumberField, SelectField, TextField } from "../../../ui/field.tsx";
import { CancelButton, Form, useForm } from "../../../ui/form.tsx";
import { useToast } from "../../../ui/toast.tsx";

const RENEWALS = ["none", "month", "year"] as const;
const DAY_MS = 86_400_000;

/** A day begins, or ends, in the browser's own time. */
function dayMs(day: string, end: boolean): number | null {
  if (day === "") return null;
  const startMs = new Date(`${day}T00:00:00`).getTime();
  return end ? startMs + DAY_MS : startMs;
}

export function GrantDialog({ email, onClose }: { email: string | null; onClose(): void }) {
  const t = useText("adminPlans").subscriptions;
  const say = useToast();
  const plans = useList("admin.plans.list", { query: { limit: 200 } });
  const grant = useChange("admin.subscriptions.grant", {
    invalidates: ["admin.subscriptions.", "admin.plans.", "wallet."],
  });
  const names = plans.rows.map(({ name }) => name);
  const form = useForm(
    {
      email: email ?? "",
      plan: "",
      starts: "",
      ends: "",
      renews: "none" as (typeof RENEWALS)[number],
      priority: 1 as number | null,
    },
    async (values) => {
      const body = {
        email: values.email.trim(),
        plan: values.plan || (names[0] ?? ""),
        starts_at: dayMs(values.starts, false),
        ends_at: dayMs(values.ends, true),
        renews: values.renews,
        priority: values.priority ?? 1,
      };
      await grant.mutateAsync({ body });
      say(t.granted(body.plan, body.email));
      onClose();
    },
  );
  return (
    <Dialog title={t.grant} onClose={onClose}>
      <Form form={form} submit={t.grant} atEnd actions={<CancelButton onClick={onClose} />}>
        {email === null ? <TextField {...form.bind("email")} type="email" label={t.email} /> : <p>{email}</p>}
        <SelectField
          {...form.bind("plan")}
          value={form.values.plan || (names[0] ?? "")}
          label={t.plan}
          choices={names.map((name) => ({ value: name, label: name }))}
        />
        <div className="columns">
          <TextField
            {...form.bind("starts", "starts_at")}
            type="date"
            label={t.starts}
            hint={t.startsHint}
            optional
          />
          <TextField
            {...form.bind("ends", "ends_at")}
            type="date"
            label={t.ends}
            hint={t.endsHint}
            optional
          />
        </div>
        <div className="columns">
          <SelectField
            {...form.bind("renews")}
            label={t.renews}
            choices={RENEWALS.map((value) => ({ value, label: t.renewals[value] }))}
          />
          <NumberField
            {...form.bind("priority")}
            label={t.priority}
            hint={t.priorityHint}
            min={0}
            max={1000}
          />
        </div>
      </Form>
    </Dialog>
  );
}
