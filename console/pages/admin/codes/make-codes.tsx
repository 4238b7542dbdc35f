/** Creates a batch of codes and shows them once. */

import { useEffect, useState } from "react";
import type { ResponseBody } from "../../../api.ts";
import { useChange, useList } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Button, DownloadButton } from "../../../ui/button.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { NumberField, SelectField, TextField } from "../../../ui/field.tsx";
import { CancelButton, Form, useForm } from "../../../ui/form.tsx";
import { Notice } from "../../../ui/notice.tsx";
import { CodeBlock } from "../../../ui/values.tsx";

const KINDS = ["money", "plan"] as const;
const DAY_MS = 86_400_000;

type Made = ResponseBody<"admin.codes.create">;

export function MakeCodes({ onClose }: { onClose(): void }) {
  const t = useText("adminCodes");
  const [made, setMade] = useState<Made | null>(null);
  const plans = useList("admin.plans.list", { query: { limit: 200 } });
  const names = plans.rows.map(({ name }) => name);
  const create = useChange("admin.codes.create", { invalidates: ["admin.codes."] });
  const form = useForm(
    {
      name: "",
      count: 10 as number | null,
      kind: "money" as (typeof KINDS)[number],
      amount: "",
      plan: "",
      days: 30 as number | null,
      expires: "",
    },
    async ({ name, count, kind, amount, plan, days, expires }) => {
      const worth =
        kind === "money" ? { amount: amount.trim() } : { plan: plan || (names[0] ?? ""), days: days ?? 0 };
      // Until the end of that day in the browser's time zone.
      const expires_at = expires === "" ? null : new Date(`${expires}T00:00:00`).getTime() + DAY_MS;
      const body = { name: name.trim(), count: count ?? 0, expires_at, ...worth };
      setMade(await create.mutateAsync({ body }));
    },
  );
  const { kind } = form.values;
  if (made !== null) return <ShownCodes made={made} onClose={onClose} />;
  return (
    <Dialog title={t.create} onClose={onClose}>
      <Form form={form} submit={t.create} atEnd actions={<CancelButton onClick={onClose} />}>
        <TextField {...form.bind("name")} label={t.name} hint={t.nameHint} maxLength={64} />
        <div className="columns">
          <NumberField {...form.bind("count")} label={t.count} min={1} max={10_000} />
          <SelectField
            {...form.bind("kind")}
            label={t.kind}
            choices={KINDS.map((value) => ({ value, label: t.kinds[value] }))}
          />
        </div>
        {kind === "money" && <TextField {...form.bind("amount")} label={t.amount} inputMode="decimal" />}
        {kind === "plan" && names.length === 0 && !plans.isLoading && (
          <Notice tone="warn">{t.noPlans}</Notice>
        )}
        {kind === "plan" && (
          <div className="columns">
            <SelectField
              {...form.bind("plan")}
              value={form.values.plan || (names[0] ?? "")}
              label={t.plan}
              choices={names.map((name) => ({ value: name, label: name }))}
            />
            <NumberField {...form.bind("days")} label={t.days} min={1} max={3660} />
          </div>
        )}
        <TextField
          {...form.bind("expires", "expires_at")}
          type="date"
          label={t.expires}
          hint={t.expiresHint}
          optional
        />
      </Form>
    </Dialog>
  );
}

function ShownCodes({ made: { codes, name }, onClose }: { made: Made; onClose(): void }) {
  const t = useText("adminCodes").made;
  const [file, setFile] = useState<string | null>(null);
  useEffect(() => {
    const text = ["code", ...codes].join("\r\n");
    const url = URL.createObjectURL(new File([text], `${name}.csv`, { type: "text/csv" }));
    setFile(url);
    return () => URL.revokeObjectURL(url);
  }, [codes, name]);
  return (
    <Dialog title={t.title(codes.length)}>
      <div className="stack">
        <Notice tone="warn">
          <p>{t.once}</p>
        </Notice>
        <CodeBlock code={codes.join("\n")} label={t.list} />
        <div className="form-actions end">
          {file !== null && (
            <DownloadButton href={file} name={`${name}.csv`}>
              {t.download}
            </DownloadButton>
          )}
          <Button tone="primary" onClick={onClose}>
            {t.done}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
