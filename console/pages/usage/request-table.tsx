/** The table of requests. */

import type { ListRow } from "../../api.ts";
import type { Listing } from "../../data.ts";
import { useUser } from "../../session.tsx";
import { useFormat, useText } from "../../text/text.tsx";
import { EmptyState } from "../../ui/notice.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { Money, Time } from "../../ui/values.tsx";
import { OutcomeBadge } from "./outcome.tsx";

export type RequestRow = ListRow<"usage.requests">;

/** `hasUsers`: the requests belong to several users. */
export function RequestTable({ requests, hasUsers }: { requests: Listing<RequestRow>; hasUsers: boolean }) {
  const { requests: t } = useText("usage");
  const { role } = useUser();
  const format = useFormat();
  const duration = (ms: number | null) => (ms === null ? "–" : format.duration(ms));
  const columns: Column<RequestRow>[] = [
    { key: "time", header: t.time, kind: "primary", cell: ({ at }) => <Time at={at} exact /> },
    {
      key: "model",
      header: t.model,
      cell: ({ model }) => <span className="named">{model === "" ? t.noModel : model}</span>,
    },
    {
      key: "key",
      header: t.key,
      isMinor: true,
      cell: ({ key }) => <span className="named">{key.name ?? key.id}</span>,
    },
    ...(hasUsers ? [nameColumn("user", t.user)] : []),
    ...(role !== "user" ? [nameColumn("account", t.account)] : []),
    {
      key: "outcome",
      header: t.outcome,
      cell: (one) => <OutcomeBadge outcome={one.outcome} status={one.status} count={one.request_count} />,
    },
    {
      key: "tokens",
      header: t.tokens,
      kind: "end",
      cell: (one) => t.inOut(format.compact(one.input_tokens), format.compact(one.output_tokens)),
    },
    {
      key: "first",
      header: t.firstToken,
      kind: "end",
      isMinor: true,
      cell: (one) => duration(one.first_byte_ms),
    },
    { key: "duration", header: t.duration, kind: "end", cell: (one) => duration(one.duration_ms) },
    { key: "cost", header: t.cost, kind: "end", cell: ({ cost }) => <Money value={cost} /> },
  ];
  return (
    <Table
      label={t.title}
      columns={columns}
      rows={requests}
      rowKey={({ id }) => id}
      href={({ id }) => `/requests/${id}`}
      empty={
        <EmptyState icon="search" title={t.none}>
          <p>{t.noneHint}</p>
        </EmptyState>
      }
    />
  );
}

function nameColumn(key: "user" | "account", header: string): Column<RequestRow> {
  return { key, header, cell: (row) => <span className="named">{row[key] ?? "–"}</span> };
}
