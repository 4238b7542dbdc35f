/** The health of the accounts on the dashboard. Accounts that need attention are listed first. */

import { useFormat, useText } from "../../../text/text.tsx";
import { LinkButton } from "../../../ui/button.tsx";
import { EmptyState } from "../../../ui/notice.tsx";
import { Section } from "../../../ui/page.tsx";
import { Table } from "../../../ui/table.tsx";
import { Badge, Count } from "../../../ui/values.tsx";
import type { Frame } from "./live.ts";

const TONES = { well: "good", untried: "soft", cooling: "warn", probing: "warn", parked: "bad" } as const;
const NO_ROWS = { rows: [], isLoading: true, error: null, more: null, retry: () => {} };

type Account = Frame["accounts"][number];

export function AccountHealth({ frame }: { frame: Frame | null }) {
  const t = useText("adminDashboard").accounts;
  const format = useFormat();
  return (
    <Section title={t.title} about={t.about}>
      <Table<Account>
        label={t.title}
        rows={frame === null ? NO_ROWS : frame.accounts}
        rowKey={(account) => account.id}
        href={(account) => `/admin/accounts/${encodeURIComponent(account.name)}`}
        columns={[
          { key: "name", header: t.name, kind: "primary", cell: (account) => account.name },
          { key: "condition", header: t.condition, cell: (account) => <Condition account={account} /> },
          {
            key: "inFlight",
            header: t.inFlight,
            kind: "end",
            cell: (account) => <Count value={account.in_flight} />,
          },
          {
            key: "latency",
            header: t.latency,
            kind: "end",
            cell: (account) => (account.latency_ms === null ? "–" : format.duration(account.latency_ms)),
          },
        ]}
        empty={
          <EmptyState
            icon="plug"
            title={t.none}
            actions={
              <LinkButton to="/admin/accounts" tone="primary" icon="add">
                {t.add}
              </LinkButton>
            }
          >
            <p>{t.noneYet}</p>
          </EmptyState>
        }
      />
    </Section>
  );
}

function Condition({ account }: { account: Account }) {
  const t = useText("adminDashboard").accounts;
  const { states } = useText("adminAccounts");
  const format = useFormat();
  const { condition, frees_in_ms: freesInMs, ill_models: illModels } = account;
  return (
    <span>
      <Badge tone={TONES[condition]}>{states[condition]}</Badge>
      {freesInMs !== null && <span className="small soft"> {t.until(format.duration(freesInMs))}</span>}
      {condition === "well" && illModels > 0 && <span className="small soft"> {t.models(illModels)}</span>}
    </span>
  );
}
