/** The plans, and the subscriptions to them. */

import { useState } from "react";
import { useChange, useList } from "../../../data.ts";
import { useFormat, useText } from "../../../text/text.tsx";
import { Button, IconButton } from "../../../ui/button.tsx";
import { ConfirmDialog } from "../../../ui/dialog.tsx";
import { EmptyState } from "../../../ui/notice.tsx";
import { Page, PageHeader } from "../../../ui/page.tsx";
import { type Column, Table } from "../../../ui/table.tsx";
import { Count } from "../../../ui/values.tsx";
import type { Plan } from "./plan.ts";
import { PlanDialog } from "./plan-dialog.tsx";
import { Subscriptions } from "./subscriptions.tsx";

export default function PlansPage() {
  const t = useText("adminPlans");
  const [edited, setEdited] = useState<Plan | "new" | null>(null);
  const [removed, setRemoved] = useState<Plan | null>(null);
  const plans = useList("admin.plans.list");
  const columns = usePlanColumns({ onEdit: setEdited, onDelete: setRemoved });
  const create = (
    <Button tone="primary" icon="add" isNew onClick={() => setEdited("new")}>
      {t.create}
    </Button>
  );
  return (
    <Page>
      <PageHeader title={t.title} about={t.about} actions={create} />
      <Table
        label={t.title}
        rows={plans}
        rowKey={(plan) => plan.name}
        columns={columns}
        empty={
          <EmptyState icon="ticket" title={t.none.title} actions={create}>
            <p>{t.none.text}</p>
          </EmptyState>
        }
      />
      <Subscriptions />
      {edited !== null && (
        <PlanDialog plan={edited === "new" ? null : edited} onClose={() => setEdited(null)} />
      )}
      {removed !== null && <DeletePlan plan={removed} onClose={() => setRemoved(null)} />}
    </Page>
  );
}

function DeletePlan({ plan: { name }, onClose }: { plan: Plan; onClose(): void }) {
  const t = useText("adminPlans");
  const kit = useText("kit");
  const remove = useChange("admin.plans.delete", { invalidates: ["admin.plans."] });
  return (
    <ConfirmDialog
      title={t.deleting(name)}
      confirm={kit.delete}
      onClose={onClose}
      onConfirm={() => remove.mutateAsync({ params: { name } })}
    >
      <p>{t.deletingText}</p>
    </ConfirmDialog>
  );
}

interface PlanColumnsInput {
  onEdit(plan: Plan): void;
  onDelete(plan: Plan): void;
}

function usePlanColumns({ onEdit, onDelete }: PlanColumnsInput): readonly Column<Plan>[] {
  const t = useText("adminPlans");
  const kit = useText("kit");
  const format = useFormat();
  return [
    { key: "name", header: t.name, kind: "primary", cell: (plan) => plan.name },
    {
      key: "windows",
      header: t.windows,
      cell: (plan) =>
        format.list(plan.windows.map(({ per, usd }) => t.grants(format.money(usd), t.per[per]))),
    },
    { key: "zone", header: t.timeZone, cell: (plan) => plan.time_zone },
    {
      key: "pays",
      header: t.pays,
      cell: (plan) => (plan.groups.length === 0 ? t.anyGroup : format.list(plan.groups)),
    },
    { key: "have", header: t.have, kind: "end", cell: (plan) => <Count value={plan.subscriptions} /> },
    {
      key: "tools",
      header: kit.edit,
      kind: "tools",
      cell: (plan) => (
        <span className="nowrap">
          <IconButton small icon="edit" label={t.editing(plan.name)} onClick={() => onEdit(plan)} />
          <IconButton small icon="trash" label={t.deleting(plan.name)} onClick={() => onDelete(plan)} />
        </span>
      ),
    },
  ];
}
