/** The signed-in tools of the user. */

import { useState } from "react";
import type { ResponseBody } from "../../api.ts";
import { useApi, useChange, wholeList } from "../../data.ts";
import { useText } from "../../text/text.tsx";
import { Button, LinkButton } from "../../ui/button.tsx";
import { ConfirmDialog } from "../../ui/dialog.tsx";
import { Section } from "../../ui/page.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { useToast } from "../../ui/toast.tsx";
import { Time } from "../../ui/values.tsx";

type Tool = ResponseBody<"tools.list">["data"][number];

/** Not shown before the first sign-in of a tool: most installations have none. */
export function ToolsSection() {
  const t = useText("profile").tools;
  const tools = useApi("tools.list");
  const [ending, setEnding] = useState<Tool | null>(null);
  const columns = useToolColumns(setEnding);
  if ((tools.data?.data ?? []).length === 0) return null;
  return (
    <Section title={t.title} about={t.about} actions={<LinkButton to="/device">{t.enterCode}</LinkButton>}>
      <Table
        label={t.title}
        rows={wholeList(tools)}
        rowKey={({ id }) => id}
        href={({ id }) => `/keys/${id}`}
        empty={null}
        columns={columns}
      />
      {ending !== null && <EndTool tool={ending} onClose={() => setEnding(null)} />}
    </Section>
  );
}

function useToolColumns(onEnd: (tool: Tool) => void): readonly Column<Tool>[] {
  const t = useText("profile").tools;
  return [
    {
      key: "name",
      header: t.name,
      kind: "primary",
      cell: ({ name }) => <span className="breakable">{name}</span>,
    },
    { key: "group", header: t.group, cell: ({ group }) => <span className="breakable">{group}</span> },
    {
      key: "address",
      header: t.address,
      cell: ({ address }) => <span className="mono small">{address}</span>,
    },
    { key: "used", header: t.used, cell: ({ last_used_at: at }) => <Time at={at} /> },
    { key: "signedIn", header: t.signedIn, cell: ({ signed_in_at: at }) => <Time at={at} /> },
    { key: "ends", header: t.ends, cell: ({ ends_at: at }) => <Time at={at} /> },
    {
      key: "tools",
      header: t.actions,
      kind: "tools",
      cell: (tool) => (
        <Button small onClick={() => onEnd(tool)}>
          {t.end}
        </Button>
      ),
    },
  ];
}

function EndTool({ tool, onClose }: { tool: Tool; onClose(): void }) {
  const t = useText("profile").tools;
  const showToast = useToast();
  const revoke = useChange("keys.revoke", { invalidates: ["tools.", "keys."] });
  return (
    <ConfirmDialog
      title={t.endTitle}
      confirm={t.end}
      onClose={onClose}
      onConfirm={async () => {
        await revoke.mutateAsync({ params: { id: tool.id } });
        showToast(t.ended);
      }}
    >
      <p className="breakable">{t.endText(tool.name)}</p>
    </ConfirmDialog>
  );
}
