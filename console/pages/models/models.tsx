/** The models that the user's keys can call, with prices and availability. */

import { useState } from "react";
import { useLocation, useSearch } from "wouter";
import { useApi, useList } from "../../data.ts";
import { useFormat, useText } from "../../text/text.tsx";
import { Button, IconButton, Link } from "../../ui/button.tsx";
import { InterfaceNames } from "../../ui/interface-names.tsx";
import { EmptyState } from "../../ui/notice.tsx";
import { Page, PageHeader } from "../../ui/page.tsx";
import { SearchBox } from "../../ui/search.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { Badge } from "../../ui/values.tsx";
import { type CallableModel, InputPrice, OutputPrice } from "./prices.tsx";
import { WhyDialog, type WhyQuestion } from "./why.tsx";
import "./models.css";

/** The availability of models changes while the page is open. */
const REFRESH_MS = 15_000;

/** `?key=` shows the models of one key; `?why=` opens the explanation of one model. */
export default function ModelsPage() {
  const t = useText("models");
  const given = new URLSearchParams(useSearch());
  const key = given.get("key");
  const why = given.get("why");
  const [search, setSearch] = useState("");
  const [asked, setAsked] = useState<WhyQuestion | null>(why === null ? null : { key: why });
  const models = useList(
    "models.list",
    { query: { ...(search === "" ? {} : { search }), ...(key === null ? {} : { key }) } },
    { refreshMs: REFRESH_MS },
  );
  const columns = useModelColumns({ onWhy: (model) => setAsked(questionAbout(model, key)) });
  return (
    <Page>
      <PageHeader
        title={t.title}
        about={t.about}
        actions={
          <Button icon="help" onClick={() => setAsked(key === null ? {} : { key })}>
            {t.why.action}
          </Button>
        }
      />
      <div className="row apart">
        <SearchBox label={t.search} onSearch={setSearch} />
        {key !== null && <OfOneKey id={key} />}
      </div>
      <Table
        label={t.title}
        rows={models}
        rowKey={({ id, group }) => `${id} ${group}`}
        columns={columns}
        empty={<NoModels isSearch={search !== ""} />}
      />
      <p className="small soft">{t.perMillion}</p>
      {asked !== null && <WhyDialog question={asked} onClose={() => setAsked(null)} />}
    </Page>
  );
}

function useModelColumns({ onWhy }: { onWhy(model: CallableModel): void }): readonly Column<CallableModel>[] {
  const t = useText("models");
  return [
    {
      key: "model",
      header: t.columns.model,
      kind: "primary",
      cell: ({ id, interfaces, translated_interfaces: translated }) => (
        <span className="model-name">
          <span className="mono breakable">{id}</span>
          <InterfaceNames
            native={interfaces.filter((name) => !translated.includes(name))}
            translated={translated}
          />
        </span>
      ),
    },
    {
      key: "group",
      header: t.columns.group,
      cell: ({ group }) => <span className="named">{group}</span>,
    },
    {
      key: "input",
      header: t.columns.input,
      kind: "end",
      cell: (model) => <InputPrice model={model} />,
    },
    {
      key: "output",
      header: t.columns.output,
      kind: "end",
      cell: (model) => <OutputPrice model={model} />,
    },
    { key: "now", header: t.columns.status, cell: ({ now }) => <Now now={now} /> },
    { key: "keys", header: t.columns.keys, cell: ({ keys }) => <YourKeys keys={keys} /> },
    {
      key: "why",
      header: t.columns.tools,
      kind: "tools",
      cell: (model) => <IconButton icon="help" label={t.why.about(model.id)} onClick={() => onWhy(model)} />,
    },
  ];
}

function questionAbout({ id, interfaces, keys }: CallableModel, key: string | null): WhyQuestion {
  const [iface] = interfaces;
  const chosen = key ?? keys.some[0]?.id;
  return {
    model: id,
    ...(iface === undefined ? {} : { interface: iface }),
    ...(chosen === undefined ? {} : { key: chosen }),
  };
}

const TONES = { available: "good", busy: "warn", unavailable: "bad" } as const;

function Now({ now }: Pick<CallableModel, "now">) {
  const t = useText("models");
  const format = useFormat();
  const when = now.frees_at === null ? "" : ` ${t.steps.frees(format.dateTime(now.frees_at))}`;
  return (
    <span title={`${t.statusHelp[now.status]}${when}`}>
      <Badge tone={TONES[now.status]}>{t.status[now.status]}</Badge>
    </span>
  );
}

function YourKeys({ keys }: Pick<CallableModel, "keys">) {
  const t = useText("models");
  const [only] = keys.some;
  if (keys.count === 0) return <Link to="/keys">{t.makeKey}</Link>;
  if (keys.count === 1 && only)
    return (
      <Link to={`/keys/${only.id}`}>
        <span className="named">{only.name}</span>
      </Link>
    );
  return <span title={keys.some.map(({ name }) => name).join(", ")}>{t.keys(keys.count)}</span>;
}

/** Names the key whose models are shown, with a link to all models. */
function OfOneKey({ id }: { id: string }) {
  const kit = useText("kit");
  const [, go] = useLocation();
  const { data } = useApi("keys.get", { params: { id } });
  if (data === undefined) return null;
  return (
    <span className="row">
      <Badge tone="accent">{data.name}</Badge>
      <Button small onClick={() => go("/models")}>
        {kit.all}
      </Button>
    </span>
  );
}

function NoModels({ isSearch }: { isSearch: boolean }) {
  const t = useText("models");
  const { title, text } = isSearch ? t.noneFound : t.none;
  return (
    <EmptyState icon={isSearch ? "search" : "box"} title={title}>
      <p>{text}</p>
    </EmptyState>
  );
}
