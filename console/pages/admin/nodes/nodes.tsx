/** The running nodes, with version, state and clock. */

import type { ResponseBody } from "../../../api.ts";
import { useApi, wholeList } from "../../../data.ts";
import { useFormat, useText } from "../../../text/text.tsx";
import { EmptyState, Notice } from "../../../ui/notice.tsx";
import { Page, PageHeader } from "../../../ui/page.tsx";
import { Table } from "../../../ui/table.tsx";
import { Badge, Time } from "../../../ui/values.tsx";

type Node = ResponseBody<"admin.nodes.list">["data"][number];

const REFRESH_MS = 3_000;
const CLOCK_SKEW_MAX_MS = 2_000;
const TONES = { ready: "good", starting: "warn", draining: "warn", silent: "bad", unknown: "soft" } as const;

export default function NodesPage() {
  const t = useText("adminNodes");
  const format = useFormat();
  const response = useApi("admin.nodes.list", {}, { refreshMs: REFRESH_MS });
  const nodes = response.data?.data ?? [];
  return (
    <Page>
      <PageHeader title={t.title} about={t.about} />
      {response.data?.is_shared === false && <Notice>{t.oneNode}</Notice>}
      <Warnings nodes={nodes} />
      <Table<Node>
        label={t.title}
        rows={wholeList(response)}
        rowKey={(node) => node.id}
        columns={[
          { key: "node", header: t.node, kind: "primary", cell: (node) => <Name node={node} /> },
          { key: "condition", header: t.condition, cell: (node) => <Condition node={node} /> },
          { key: "version", header: t.version, cell: (node) => <Version node={node} /> },
          { key: "started", header: t.started, cell: (node) => <Time at={node.started_at} /> },
          {
            key: "clock",
            header: t.clock,
            kind: "end",
            isMinor: true,
            cell: (node) => <Clock node={node} />,
          },
          {
            key: "limits",
            header: t.limits,
            isMinor: true,
            cell: ({ coordinator }) =>
              coordinator === null ? "–" : (t.coordinators[coordinator] ?? coordinator),
          },
          {
            key: "jobs",
            header: t.jobs,
            cell: ({ jobs }) =>
              jobs.length === 0 ? (
                <span className="soft">{t.noJobs}</span>
              ) : (
                format.list(jobs.map((job) => t.jobNames[job] ?? job))
              ),
          },
        ]}
        empty={
          <EmptyState icon="server" title={t.none.title}>
            <p>{t.none.text}</p>
          </EmptyState>
        }
      />
    </Page>
  );
}

function Warnings({ nodes }: { nodes: readonly Node[] }) {
  const t = useText("adminNodes");
  const silent = nodes.filter(({ condition }) => condition === "silent").length;
  const versions = new Set(nodes.map(({ version, schema }) => `${version} ${schema}`));
  const isSkewed = nodes.some(({ clock_skew_ms: skewMs }) => Math.abs(skewMs ?? 0) > CLOCK_SKEW_MAX_MS);
  return (
    <>
      {silent > 0 && (
        <Notice tone="bad" title={t.silent.title(silent)}>
          <p>{t.silent.text}</p>
        </Notice>
      )}
      {versions.size > 1 && (
        <Notice tone="warn" title={t.mixed.title}>
          <p>{t.mixed.text}</p>
        </Notice>
      )}
      {isSkewed && (
        <Notice tone="warn" title={t.skewed.title}>
          <p>{t.skewed.text}</p>
        </Notice>
      )}
    </>
  );
}

function Name({ node }: { node: Node }) {
  return (
    <span className="breakable" title={`${node.id}, PID ${node.pid}`}>
      {node.address ?? node.host}
    </span>
  );
}

function Condition({ node }: { node: Node }) {
  const t = useText("adminNodes");
  const format = useFormat();
  const { condition, since_heartbeat_ms: silentMs } = node;
  return (
    <span>
      <Badge tone={TONES[condition]}>{t.conditions[condition]}</Badge>
      {condition === "silent" && (
        <span className="small soft"> {t.silentSince(format.duration(silentMs))}</span>
      )}
    </span>
  );
}

function Version({ node: { version, schema } }: { node: Node }) {
  const t = useText("adminNodes");
  return (
    <span>
      {version ?? "–"} {schema !== null && <span className="small soft">{t.schema(schema)}</span>}
    </span>
  );
}

function Clock({ node: { clock_skew_ms: skewMs } }: { node: Node }) {
  const t = useText("adminNodes");
  const format = useFormat();
  if (skewMs === null) return "–";
  const sign = skewMs < 0 ? "−" : "+";
  return (
    <span className="number nowrap" title={t.clockTitle}>
      {sign}
      {format.duration(Math.abs(skewMs))}
    </span>
  );
}
