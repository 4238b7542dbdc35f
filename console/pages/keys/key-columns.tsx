/** The columns of every list of keys. */

import type { ListRow } from "../../api.ts";
import { Spark } from "../../charts/small.tsx";
import { useText } from "../../text/text.tsx";
import type { Column } from "../../ui/table.tsx";
import { Money, Time } from "../../ui/values.tsx";
import { KeyHint, KeyStatus, RequestCount } from "./key-values.tsx";
import "./keys.css";

type Key = ListRow<"keys.list">;

export function useKeyColumns(): readonly Column<Key>[] {
  const t = useText("keys");
  return [
    {
      key: "name",
      header: t.columns.name,
      kind: "primary",
      cell: (key) => (
        <span className="key-name">
          <span className="breakable">{key.name}</span>
          <KeyHint {...key} />
        </span>
      ),
    },
    {
      key: "group",
      header: t.columns.group,
      cell: ({ group }) => <span className="named">{group}</span>,
    },
    { key: "status", header: t.columns.status, cell: (key) => <KeyStatus status={key.status} /> },
    { key: "used", header: t.columns.lastUsed, cell: (key) => <Time at={key.last_used_at} /> },
    {
      key: "requests",
      header: t.columns.requests,
      kind: "end",
      cell: ({ id, usage }) => (
        <span className="key-use">
          <Spark values={usage.requests_by_day} label={t.requestsIn30Days(usage.requests)} />
          <RequestCount keyId={id} range="month" value={usage.requests} />
        </span>
      ),
    },
    {
      key: "spend",
      header: t.columns.spend,
      kind: "end",
      cell: ({ usage }) => <Money value={usage.charged} />,
    },
    { key: "expires", header: t.columns.expires, cell: (key) => <Time at={key.expires_at} /> },
  ];
}
