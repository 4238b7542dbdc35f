/** What the directory pushes by SCIM: the last push, and rejected ones with their reason. */

import type { ResponseBody } from "../../../api.ts";
import { useApi, wholeList } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { EmptyState } from "../../../ui/notice.tsx";
import { Facts, Section } from "../../../ui/page.tsx";
import { type Column, Table } from "../../../ui/table.tsx";
import { Time } from "../../../ui/values.tsx";

type ScimState = ResponseBody<"admin.directory.scim">;
type RejectedPush = ScimState["rejected"][number];

/** Nothing, if SCIM is off and nothing was rejected. */
export function Pushes() {
  const t = useText("adminDirectory");
  const response = useApi("admin.directory.scim");
  const { data } = response;
  if (data === undefined || (data.provider === null && data.rejected.length === 0)) return null;
  const columns: readonly Column<RejectedPush>[] = [
    { key: "at", header: t.at, cell: ({ at }) => <Time at={at} /> },
    {
      key: "request",
      header: t.scim.request,
      kind: "primary",
      cell: ({ request }) => <code className="small breakable">{request}</code>,
    },
    { key: "status", header: t.code, cell: ({ status }) => status },
    { key: "reason", header: t.reason, cell: ({ reason }) => <span className="breakable">{reason}</span> },
    { key: "by", header: t.scim.by, cell: ({ service_account: name }) => name },
  ];
  return (
    <Section title={t.scim.title} about={data.provider === null ? t.scim.off : t.scim.about(data.provider)}>
      <LastPush state={data} />
      <Table
        label={t.scim.rejected}
        rows={wholeList({ ...response, data: { data: data.rejected } })}
        rowKey={({ at, request, reason }) => `${at} ${request} ${reason}`}
        columns={columns}
        empty={<EmptyState icon="check" title={t.scim.noRejected} />}
      />
    </Section>
  );
}

function LastPush({ state }: { state: ScimState }) {
  const t = useText("adminDirectory");
  if (state.provider === null) return null;
  const { last_push_at: at, last_push_by: by, groups_from: source } = state;
  const lastPush = at === null ? t.scim.noPush : <Time at={at} />;
  return (
    <Facts
      facts={[
        [t.scim.lastPush, lastPush],
        [t.scim.by, by ?? "–"],
        [t.scim.pushed, t.scim.counts(state.people, state.groups)],
        [t.scim.source, t.scim.sources[source ?? "pushed"]],
      ]}
    />
  );
}
