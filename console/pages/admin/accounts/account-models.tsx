/** What this process has learnt about each upstream model of an account. */

import type { ResponseBody } from "../../../api.ts";
import { useFormat, useText } from "../../../text/text.tsx";
import { EmptyState } from "../../../ui/notice.tsx";
import { Table } from "../../../ui/table.tsx";
import { Time } from "../../../ui/values.tsx";
import { AccountState } from "./account-state.tsx";

type Model = ResponseBody<"admin.accounts.get">["facts"]["models"][number];

export function AccountModels({ models }: { models: readonly Model[] }) {
  const t = useText("adminAccounts");
  const format = useFormat();
  return (
    <Table
      label={t.facts.models}
      rows={models}
      rowKey={(model) => model.upstream_model}
      columns={[
        {
          key: "model",
          header: t.facts.upstreamModel,
          kind: "primary",
          cell: (model) => <code className="breakable">{model.upstream_model}</code>,
        },
        {
          key: "state",
          header: t.columns.state,
          cell: (model) => <AccountState facts={model} />,
        },
        {
          key: "latency",
          header: t.columns.latency,
          kind: "end",
          cell: (model) => (model.latency_ms === null ? "" : format.duration(model.latency_ms)),
        },
        {
          key: "errors",
          header: t.columns.errors,
          kind: "end",
          cell: (model) => format.percent(model.error_share),
        },
        {
          key: "limits",
          header: t.facts.reportedLimits,
          cell: (model) =>
            model.limits.length === 0 ? (
              <span className="soft">{t.facts.notReported}</span>
            ) : (
              <ReportedLimits limits={model.limits} />
            ),
        },
      ]}
      empty={<EmptyState icon="clock" title={t.facts.none} />}
    />
  );
}

function ReportedLimits({ limits }: { limits: Model["limits"] }) {
  const t = useText("adminAccounts").facts;
  const format = useFormat();
  const count = (value: number | null) => (value === null ? t.unknown : format.compact(value));
  return (
    <div className="stack small">
      {limits.map(({ unit, limit, remaining, resets_at: resetsAt }) => (
        <span key={unit}>
          {t[unit](count(remaining), count(limit))}
          {resetsAt !== null && resetsAt > Date.now() && (
            <span className="soft">
              {" "}
              · {t.resets} <Time at={resetsAt} />
            </span>
          )}
        </span>
      ))}
    </div>
  );
}
