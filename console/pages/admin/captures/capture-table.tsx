/** A list of captures, on their own page and on that of a key. */

import type { ReactNode } from "react";
import type { ListRow } from "../../../api.ts";
import type { Listing } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Table } from "../../../ui/table.tsx";
import { Time } from "../../../ui/values.tsx";
import { OutcomeBadge } from "../../usage/outcome.tsx";
import { useBytes } from "./bytes.ts";

type Capture = ListRow<"admin.captures.list">;

interface CaptureTableProps {
  label: string;
  rows: Listing<Capture>;
  empty: ReactNode;
  /** Omitted on the page of a key. */
  showsKey: boolean;
}

export function CaptureTable({ label, rows, empty, showsKey }: CaptureTableProps) {
  const t = useText("adminCaptures");
  const { columns } = t;
  const bytes = useBytes();
  return (
    <Table<Capture>
      label={label}
      rows={rows}
      rowKey={(capture) => capture.request_id}
      href={(capture) => `/admin/captures/${encodeURIComponent(capture.request_id)}`}
      columns={[
        { key: "at", header: columns.at, kind: "primary", cell: ({ at }) => <Time at={at} /> },
        {
          key: "model",
          header: columns.model,
          cell: ({ model }) => (
            <span className="breakable">
              {model === "" ? <span className="soft">{t.noModel}</span> : model}
            </span>
          ),
        },
        ...(showsKey
          ? [
              {
                key: "key",
                header: columns.key,
                cell: ({ key }: Capture) => <span className="breakable">{key.name ?? key.id}</span>,
              },
              {
                key: "user",
                header: columns.user,
                isMinor: true,
                cell: ({ user }: Capture) => <span className="breakable">{user ?? "–"}</span>,
              },
            ]
          : []),
        {
          key: "outcome",
          header: columns.outcome,
          cell: ({ outcome, status }) => <OutcomeBadge outcome={outcome} status={status} count={1} />,
        },
        {
          key: "size",
          header: columns.size,
          kind: "end",
          isMinor: true,
          cell: (capture) => <span className="number nowrap">{bytes(capture.bytes)}</span>,
        },
      ]}
      empty={empty}
    />
  );
}
