/** The one-time links that are still valid. */

import { useChange, useList } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { IconButton } from "../../../ui/button.tsx";
import { Section } from "../../../ui/page.tsx";
import { Table } from "../../../ui/table.tsx";
import { useProblemToast, useToast } from "../../../ui/toast.tsx";
import { Badge, Time } from "../../../ui/values.tsx";

/** Renders nothing if there are none. */
export function OpenLinks() {
  const users = useText("adminUsers");
  const t = users.link;
  const links = useList("admin.links.list");
  const showToast = useToast();
  const showProblem = useProblemToast();
  const revoke = useChange("admin.links.revoke", {
    invalidates: ["admin.links."],
    onDone: () => showToast(t.revoked),
  });
  if (links.rows.length === 0) return null;
  return (
    <Section title={t.open} about={t.openAbout}>
      <Table
        label={t.open}
        rows={links}
        rowKey={(link) => link.id}
        columns={[
          { key: "email", header: users.email, kind: "primary", cell: (link) => link.email },
          {
            key: "purpose",
            header: t.purpose,
            cell: (link) => (
              <span className="row">
                {t.purposes[link.purpose]}
                {link.role !== null && link.role !== "user" && (
                  <Badge tone="accent">{users.roles[link.role]}</Badge>
                )}
              </span>
            ),
          },
          { key: "by", header: t.by, cell: (link) => link.created_by },
          { key: "expires", header: t.expires, cell: (link) => <Time at={link.expires_at} /> },
          {
            key: "tools",
            header: t.revoke,
            kind: "tools",
            cell: (link) => (
              <IconButton
                small
                icon="trash"
                label={t.revokeLink(link.email)}
                onClick={() => revoke.mutate({ params: { id: link.id } }, { onError: showProblem })}
              />
            ),
          },
        ]}
        empty={null}
      />
    </Section>
  );
}
