/** The batches of redeem codes. */

import { useState } from "react";
import { useList } from "../../../data.ts";
import { useFormat, useText } from "../../../text/text.tsx";
import { Button } from "../../../ui/button.tsx";
import { EmptyState } from "../../../ui/notice.tsx";
import { Page, PageHeader } from "../../../ui/page.tsx";
import { Table } from "../../../ui/table.tsx";
import { Count, Money, Time } from "../../../ui/values.tsx";
import { MakeCodes } from "./make-codes.tsx";

export default function CodesPage() {
  const t = useText("adminCodes");
  const format = useFormat();
  const [isMaking, setMaking] = useState(false);
  const batches = useList("admin.codes.list");
  const create = (
    <Button tone="primary" icon="add" isNew onClick={() => setMaking(true)}>
      {t.create}
    </Button>
  );
  return (
    <Page>
      <PageHeader title={t.title} about={t.about} actions={create} />
      <Table
        label={t.title}
        rows={batches}
        rowKey={(batch) => batch.name}
        href={(batch) => `/admin/codes/${encodeURIComponent(batch.name)}`}
        columns={[
          { key: "name", header: t.name, kind: "primary", cell: (batch) => batch.name },
          {
            key: "worth",
            header: t.worth,
            cell: (batch) =>
              batch.amount === null ? (
                t.planFor(batch.plan ?? "", batch.days ?? 0)
              ) : (
                <Money value={batch.amount} />
              ),
          },
          { key: "codes", header: t.total, kind: "end", cell: (batch) => <Count value={batch.codes} /> },
          {
            key: "redeemed",
            header: t.redeemed,
            kind: "end",
            cell: (batch) => <Count value={batch.redeemed} />,
          },
          { key: "open", header: t.open, kind: "end", cell: (batch) => <Count value={batch.open} /> },
          {
            key: "until",
            header: t.until,
            cell: (batch) => (batch.expires_at === null ? t.forEver : format.date(batch.expires_at)),
          },
          { key: "created", header: t.created, cell: (batch) => <Time at={batch.created_at} /> },
          { key: "by", header: t.by, cell: (batch) => <span className="breakable">{batch.created_by}</span> },
        ]}
        empty={
          <EmptyState icon="gift" title={t.none.title} actions={create}>
            <p>{t.none.text}</p>
          </EmptyState>
        }
      />
      {isMaking && <MakeCodes onClose={() => setMaking(false)} />}
    </Page>
  );
}
