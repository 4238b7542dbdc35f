/** One batch of redeem codes. */

import { useState } from "react";
import type { ListRow } from "../../../api.ts";
import { useChange, useList } from "../../../data.ts";
import type { PageProps } from "../../../page-props.ts";
import { useText } from "../../../text/text.tsx";
import { Button, IconButton } from "../../../ui/button.tsx";
import { ConfirmDialog } from "../../../ui/dialog.tsx";
import { EmptyState } from "../../../ui/notice.tsx";
import { Page, PageHeader } from "../../../ui/page.tsx";
import { type Column, Table } from "../../../ui/table.tsx";
import { useProblemToast, useToast } from "../../../ui/toast.tsx";
import { Badge, Time } from "../../../ui/values.tsx";

type Code = ListRow<"admin.codes.get">;

const TONES = { open: "good", redeemed: "accent", voided: "soft", expired: "soft" } as const;

export default function BatchPage({ params: { name = "" } }: PageProps) {
  const codesText = useText("adminCodes");
  const t = codesText.batch;
  const [isWithdrawing, setWithdrawing] = useState(false);
  const showToast = useToast();
  const showProblem = useProblemToast();
  const codes = useList("admin.codes.get", { params: { name } });
  const withdraw = useChange("admin.codes.void", {
    invalidates: ["admin.codes."],
    onDone: ({ voided }) => showToast(t.withdrawn(voided)),
  });
  const columns = useCodeColumns({
    onWithdraw: (code) =>
      withdraw.mutate({ params: { name }, body: { code: code.id } }, { onError: showProblem }),
  });
  return (
    <Page>
      <PageHeader
        title={name}
        about={t.about}
        back={{ to: "/admin/codes", label: t.back }}
        actions={
          codes.rows.length > 0 && (
            <Button tone="danger" icon="close" onClick={() => setWithdrawing(true)}>
              {t.withdrawAll}
            </Button>
          )
        }
      />
      <Table
        label={name}
        rows={codes}
        rowKey={(code) => code.id}
        columns={columns}
        empty={<EmptyState icon="gift" title={codesText.none.title} />}
      />
      {isWithdrawing && (
        <ConfirmDialog
          title={t.confirm(name)}
          confirm={t.withdrawAll}
          onClose={() => setWithdrawing(false)}
          onConfirm={() => withdraw.mutateAsync({ params: { name }, body: {} })}
        >
          <p>{t.confirmText}</p>
        </ConfirmDialog>
      )}
    </Page>
  );
}

function useCodeColumns({ onWithdraw }: { onWithdraw(code: Code): void }): readonly Column<Code>[] {
  const t = useText("adminCodes").batch;
  return [
    { key: "code", header: t.code, kind: "primary", cell: (code) => <code>{code.hint}-…</code> },
    {
      key: "status",
      header: t.status,
      cell: (code) => <Badge tone={TONES[code.status]}>{t.statuses[code.status]}</Badge>,
    },
    {
      key: "when",
      header: t.when,
      cell: (code) => (code.redeemed_at === null ? "–" : <Time at={code.redeemed_at} />),
    },
    {
      key: "who",
      header: t.who,
      cell: (code) => <span className="breakable">{code.redeemed_by ?? "–"}</span>,
    },
    {
      key: "tools",
      header: t.withdraw,
      kind: "tools",
      cell: (code) =>
        code.status === "open" && (
          <IconButton small icon="close" label={t.withdrawOne(code.hint)} onClick={() => onWithdraw(code)} />
        ),
    },
  ];
}
