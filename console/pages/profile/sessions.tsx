import { useState } from "react";
import type { Answer } from "../../api.ts";
import { useApi, useChange, wholeList } from "../../data.ts";
import { useText } from "../../text/text.tsx";
import { Button } from "../../ui/button.tsx";
import { ConfirmDialog } from "../../ui/dialog.tsx";
import { Section } from "../../ui/page.tsx";
import { Table } from "../../ui/table.tsx";
import { useToast } from "../../ui/toast.tsx";
import { Badge, Time } from "../../ui/values.tsx";
import { browserIn } from "./user-agent.ts";

type Session = Answer<"sessions.list">["data"][number];

export function SessionsSection() {
  const t = useText("profile").sessions;
  const say = useToast();
  const sessions = useApi("sessions.list");
  const [ending, setEnding] = useState<Session | "others" | null>(null);
  const invalidates = ["sessions."] as const;
  const revoke = useChange("sessions.revoke", { invalidates });
  const revokeOthers = useChange("sessions.revoke_others", { invalidates });
  const name = useBrowserName();
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
        columns={[
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
                <Button small onClick={() => setEnding(session)}>
                  {t.end}
                </Button>
              ),
          },
        ]}
      />
      {ending !== null && (
        <ConfirmDialog
          title={ending === "others" ? t.othersTitle : t.endTitle}
          confirm={ending === "others" ? t.others : t.end}
          onClose={() => setEnding(null)}
          onConfirm={async () => {
            if (ending === "others") await revokeOthers.mutateAsync({});
            else await revoke.mutateAsync({ params: { id: ending.id } });
            say(t.ended);
          }}
        >
          <p className="breakable">{ending === "others" ? t.othersText : t.endText(name(ending))}</p>
        </ConfirmDialog>
      )}
    </Section>
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
