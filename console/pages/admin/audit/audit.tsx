/** The audit log: all changes made by people, with search and export. */

import "./audit.css";
import { useState } from "react";
import { buildAddress, type ResponseBody } from "../../../api.ts";
import { useApi, useList } from "../../../data.ts";
import { useFormat, useText } from "../../../text/text.tsx";
import { Button, DownloadButton } from "../../../ui/button.tsx";
import { EmptyState, Notice } from "../../../ui/notice.tsx";
import { Page, PageHeader } from "../../../ui/page.tsx";
import { SearchBox } from "../../../ui/search.tsx";
import { type Column, Table } from "../../../ui/table.tsx";
import { Badge, Copy, Time } from "../../../ui/values.tsx";

type Entry = ResponseBody<"admin.audit.list">["data"][number];

export default function AuditPage() {
  const t = useText("adminAudit");
  const [kind, setKind] = useState<Kind>("all");
  const [search, setSearch] = useState("");
  const [target, setTarget] = useState<string | null>(null);
  const query = {
    ...(search === "" ? {} : { search }),
    ...(kind === "all" ? {} : { action: kind }),
    ...(target === null ? {} : { target }),
  };
  const entries = useList("admin.audit.list", { query });
  const columns = useEntryColumns({ onTarget: setTarget });
  return (
    <Page>
      <PageHeader
        title={t.title}
        about={t.about}
        actions={
          <DownloadButton href={buildAddress("admin.audit.export", { query })}>{t.export}</DownloadButton>
        }
      />
      <Chain />
      <div className="row">
        <SearchBox label={t.search} onSearch={setSearch} />
        <KindFilter kind={kind} onChange={setKind} />
        {target !== null && (
          <Button small icon="close" onClick={() => setTarget(null)}>
            {t.of(target)}
          </Button>
        )}
      </div>
      <Table<Entry>
        label={t.title}
        rows={entries}
        rowKey={(entry) => String(entry.seq)}
        columns={columns}
        empty={
          <EmptyState icon="history" title={t.none.title}>
            <p>{t.none.text}</p>
          </EmptyState>
        }
      />
    </Page>
  );
}

function useEntryColumns({ onTarget }: { onTarget(target: string): void }): readonly Column<Entry>[] {
  const t = useText("adminAudit");
  return [
    {
      key: "target",
      header: t.target,
      kind: "primary",
      cell: (entry) => (
        <button
          type="button"
          className="audit-target breakable"
          title={t.only}
          onClick={() => onTarget(entry.target)}
        >
          {entry.target}
        </button>
      ),
    },
    { key: "action", header: t.action, cell: (entry) => <code>{entry.action}</code> },
    {
      key: "actor",
      header: t.actor,
      cell: (entry) => (
        <span className="breakable">
          {entry.actor}
          <span className="small soft"> {t.actors[entry.actor_kind]}</span>
        </span>
      ),
    },
    { key: "at", header: t.at, cell: (entry) => <Time at={entry.at} exact /> },
    { key: "changes", header: t.changed, cell: (entry) => <Changes entry={entry} /> },
    { key: "address", header: t.address, cell: (entry) => entry.address ?? "–" },
  ];
}

interface KindFilterProps {
  kind: Kind;
  onChange(kind: Kind): void;
}

function KindFilter({ kind, onChange }: KindFilterProps) {
  const t = useText("adminAudit");
  const kinds = Object.keys(t.kinds).filter(isKind);
  return (
    <label className="audit-kind">
      <span className="unseen">{t.kind}</span>
      <select
        className="input"
        value={kind}
        onChange={(event) => onChange(kinds.find((one) => one === event.target.value) ?? "all")}
      >
        {kinds.map((value) => (
          <option key={value} value={value}>
            {t.kinds[value]}
          </option>
        ))}
      </select>
    </label>
  );
}

type Kind = keyof ReturnType<typeof useText<"adminAudit">>["kinds"];

function isKind(value: string): value is Kind {
  return value === "all" || value.endsWith(".");
}

function Changes({ entry: { changes } }: { entry: Entry }) {
  const t = useText("adminAudit");
  if (changes.length === 0) return <span className="soft">{t.noChanges}</span>;
  return (
    <details className="audit-changes">
      <summary>{t.changes(changes.length)}</summary>
      <table>
        <thead>
          <tr>
            <th scope="col">{t.field}</th>
            <th scope="col">{t.before}</th>
            <th scope="col">{t.after}</th>
          </tr>
        </thead>
        <tbody>
          {changes.map(({ field, from, to }) => (
            <tr key={field}>
              <th scope="row">{field}</th>
              <td>{from ?? <span className="soft">{t.nothing}</span>}</td>
              <td>{to ?? <span className="soft">{t.nothing}</span>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}

/** The result of verifying the hash chain. */
function Chain() {
  const t = useText("adminAudit").chain;
  const format = useFormat();
  const [fresh, setFresh] = useState<"true" | "false">("false");
  const { data, isFetching, refetch } = useApi(
    "admin.audit.verify",
    { query: { fresh } },
    { keepPrevious: true },
  );
  if (!data) return <Badge>{t.checking}</Badge>;
  const again = (
    <Button
      small
      icon="refresh"
      isBusy={isFetching}
      onClick={() => {
        if (fresh === "false") setFresh("true");
        else void refetch();
      }}
    >
      {t.again}
    </Button>
  );
  if (data.broken.length > 0) {
    return (
      <Notice tone="bad" title={t.broken(data.broken.length)} isUrgent>
        {data.broken.map(({ seq, kind }) => (
          <p key={`${seq} ${kind}`}>{t.brokenAt(seq, kind)}</p>
        ))}
        {again}
      </Notice>
    );
  }
  return (
    <div className="row">
      <Badge tone="good">{t.whole(format.number(data.entries))}</Badge>
      {data.head !== "" && (
        <span className="small soft">
          {t.head} <Copy text={data.head} shown={`${data.head.slice(0, 12)}…`} />
        </span>
      )}
      {again}
    </div>
  );
}
