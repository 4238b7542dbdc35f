/** The active sessions of the user. */

import { useState } from "react";
import type { ResponseBody } from "../../api.ts";
import { useApi, useChange, wholeList } from "../../data.ts";
import { useText } from "../../text/text.tsx";
import { Button } from "../../ui/button.tsx";
import { ConfirmDialog } from "../../ui/dialog.tsx";
import { Section } from "../../ui/page.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { useToast } from "../../ui/toast.tsx";
import { Badge, Time } from "../../ui/values.tsx";
import { browserIn } from "./user-agent.ts";

type Session = ResponseBody<"sessions.list">["data"][number];

export function SessionsSection() {
  const t = useText("profile").sessions;
  const sessions = useApi("sessions.list");
  const [ending, setEnding] = useState<Session | "others" | null>(null);
  const columns = useSessionColumns({ onEnd: setEnding });
  const rows = sessions.data?.data ?? [];
  return (
    <Section
      title={t.title}
      about={t.about}
      actions={
        rows.length > 1 && (
          <Button icon="signOut" onClick={() => setEnding("others")}>
            {t.others}
          </Button>
        )
      }
    >
      <Table
        label={t.title}
        rows={wholeList(sessions)}
        rowKey={({ id }) => id}
        empty={null}
        columns={columns}
      />
      {ending !== null && <EndSessions ending={ending} onClose={() => setEnding(null)} />}
    </Section>
  );
}

function useSessionColumns({ onEnd }: { onEnd(session: Session): void }): readonly Column<Session>[] {
  const t = useText("profile").sessions;
  const name = useBrowserName();
  return [
    {
      key: "browser",
      header: t.browser,
      kind: "primary",
      cell: (session) => (
        <span className="row" title={session.user_agent}>
          <span className="breakable">{name(session)}</span>
          {session.current && <Badge tone="good">{t.current}</Badge>}
        </span>
      ),
    },
    {
      key: "address",
      header: t.address,
      cell: ({ address }) => <span className="mono small">{address}</span>,
    },
    { key: "seen", header: t.seen, cell: ({ seen_at: at }) => <Time at={at} /> },
    { key: "created", header: t.created, cell: ({ created_at: at }) => <Time at={at} /> },
    {
      key: "tools",
      header: t.tools,
      kind: "tools",
      cell: (session) =>
        session.current ? null : (
          <Button small onClick={() => onEnd(session)}>
            {t.end}
          </Button>
        ),
    },
  ];
}

interface EndSessionsProps {
  ending: Session | "others";
  onClose(): void;
}

function EndSessions({ ending, onClose }: EndSessionsProps) {
  const t = useText("profile").sessions;
  const showToast = useToast();
  const name = useBrowserName();
  const invalidates = ["sessions."] as const;
  const revoke = useChange("sessions.revoke", { invalidates });
  const revokeOthers = useChange("sessions.revoke_others", { invalidates });
  return (
    <ConfirmDialog
      title={ending === "others" ? t.othersTitle : t.endTitle}
      confirm={ending === "others" ? t.others : t.end}
      onClose={onClose}
      onConfirm={async () => {
        if (ending === "others") await revokeOthers.mutateAsync({});
        else await revoke.mutateAsync({ params: { id: ending.id } });
        showToast(t.ended);
      }}
    >
      <p className="breakable">{ending === "others" ? t.othersText : t.endText(name(ending))}</p>
    </ConfirmDialog>
  );
}

export function useBrowserName(): (session: Pick<Session, "user_agent">) => string {
  const t = useText("profile").sessions;
  return ({ user_agent: agent }) => {
    const found = browserIn(agent);
    if (found === null) return agent === "" ? t.unknown : agent.slice(0, 60);
    return found.system === null ? found.browser : t.on(found.browser, found.system);
  };
}
