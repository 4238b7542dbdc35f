/** Grants a plan to a user. */

import { useChange, useList } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { NumberField, SelectField, TextField } from "../../../ui/field.tsx";
import { CancelButton, Form, useForm } from "../../../ui/form.tsx";
import { useToast } from "../../../ui/toast.tsx";

const RENEWALS = ["none", "month", "year"] as const;
const DAY_MS = 86_400_000;

interface GrantDialogProps {
  /** Null lets the administrator enter the user. */
  email: string | null;
  onClose(): void;
}

export function GrantDialog({ email, onClose }: GrantDialogProps) {
  const t = useText("adminPlans").subscriptions;
  const plans = useList("admin.plans.list", { query: { limit: 200 } });
  const names = plans.rows.map(({ name }) => name);
  const [firstPlan = ""] = names;
  const form = useGrantForm({ email, firstPlan, onClose });
  return (
    <Dialog title={t.grant} onClose={onClose}>
      <Form form={form} submit={t.grant} atEnd actions={<CancelButton onClick={onClose} />}>
        {email === null ? <TextField {...form.bind("email")} type="email" label={t.email} /> : <p>{email}</p>}
        <SelectField
          {...form.bind("plan")}
          value={form.values.plan || firstPlan}
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

interface GrantFormInput extends GrantDialogProps {
  /** Granted unless another plan is selected. */
  firstPlan: string;
}

function useGrantForm({ email, firstPlan, onClose }: GrantFormInput) {
  const t = useText("adminPlans").subscriptions;
  const showToast = useToast();
  const grant = useChange("admin.subscriptions.grant", {
    invalidates: ["admin.subscriptions.", "admin.plans.", "wallet."],
  });
  const values = {
    email: email ?? "",
    plan: "",
    starts: "",
    ends: "",
    renews: "none" as (typeof RENEWALS)[number],
    priority: 1 as number | null,
  };
  return useForm(values, async ({ email, plan, starts, ends, renews, priority }) => {
    const body = {
      email: email.trim(),
      plan: plan || firstPlan,
      starts_at: starts === "" ? null : dayStartMs(starts),
      ends_at: ends === "" ? null : dayStartMs(ends) + DAY_MS,
      renews,
      priority: priority ?? 1,
    };
    await grant.mutateAsync({ body });
    showToast(t.granted(body.plan, body.email));
    onClose();
  });
}

/** In the time zone of the browser. */
function dayStartMs(day: string): number {
  return new Date(`${day}T00:00:00`).getTime();
}
