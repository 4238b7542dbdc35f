/** All models: where each is published, who serves it, what it costs; many can be changed at once. */

import { useState } from "react";
import type { ListRow } from "../../../api.ts";
import { useChange, useList } from "../../../data.ts";
import { useFormat, useText } from "../../../text/text.tsx";
import { Button, IconButton } from "../../../ui/button.tsx";
import { ConfirmDialog } from "../../../ui/dialog.tsx";
import { EmptyState } from "../../../ui/notice.tsx";
import { SearchBox } from "../../../ui/search.tsx";
import { Table } from "../../../ui/table.tsx";
import { useToast } from "../../../ui/toast.tsx";
import { Badge, Count, Money } from "../../../ui/values.tsx";
import { usePriceText } from "../policy/price-text.ts";
import { MapModels, PriceModels, PublishModels } from "./bulk.tsx";
import { ModelForm } from "./model-form.tsx";
import "./models.css";

export type Model = ListRow<"admin.models.list">;
type Open =
  | { kind: "new" }
  | { kind: "edit" | "delete"; model: Model }
  | { kind: "publish" | "map" | "price" };

export function ModelList() {
  const t = useText("adminModels");
  const [search, setSearch] = useState("");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [open, setOpen] = useState<Open | null>(null);
  const models = useList("admin.models.list", { query: { search } }, { keepPrevious: true });
  const picked = models.rows.filter(({ document }) => chosen.has(document.id));
  const close = () => setOpen(null);
  const done = () => {
    setOpen(null);
    setChosen(new Set());
  };
  const create = (
    <Button tone="primary" icon="add" isNew onClick={() => setOpen({ kind: "new" })}>
      {t.create}
    </Button>
  );
  return (
    <div className="stack">
      <div className="row apart">
        <SearchBox label={t.search} onSearch={setSearch} />
        {create}
      </div>
      {picked.length > 0 && (
        <section className="models-chosen row" aria-label={t.chosen(picked.length)}>
          <strong role="status">{t.chosen(picked.length)}</strong>
          <Button small icon="group" onClick={() => setOpen({ kind: "publish" })}>
            {t.publish}
          </Button>
          <Button small icon="plug" onClick={() => setOpen({ kind: "map" })}>
            {t.map}
          </Button>
          <Button small icon="tag" onClick={() => setOpen({ kind: "price" })}>
            {t.bulkPrice}
          </Button>
          <Button small tone="quiet" onClick={() => setChosen(new Set())}>
            {t.clear}
          </Button>
        </section>
      )}
      <Table
        label={t.tabs.models}
        rows={models}
        rowKey={({ document }) => document.id}
        columns={[
          {
            key: "id",
            header: t.columns.id,
            kind: "primary",
            cell: ({ document: { id } }) => (
              <label className="check models-name">
                <input
                  type="checkbox"
                  aria-label={t.select(id)}
                  checked={chosen.has(id)}
                  onChange={(event) => {
                    const next = new Set(chosen);
                    if (event.target.checked) next.add(id);
                    else next.delete(id);
                    setChosen(next);
                  }}
                />
                <code className="breakable">{id}</code>
              </label>
            ),
          },
          {
            key: "groups",
            header: t.columns.groups,
            cell: (model) => <Names names={model.groups} none={t.nowhere} />,
          },
          {
            key: "accounts",
            header: t.columns.accounts,
            cell: (model) => (
              <Names
                names={model.accounts.filter(({ enabled }) => enabled).map(({ name }) => name)}
                none={t.nobody}
              />
            ),
          },
          { key: "price", header: t.columns.price, cell: (model) => <PriceOf model={model} /> },
          { key: "source", header: t.columns.source, cell: (model) => <SourceOf model={model} /> },
          {
            key: "requests",
            header: t.columns.requests,
            kind: "end",
            cell: (model) => <Count value={model.requests_last_day} />,
          },
          {
            key: "charged",
            header: t.columns.charged,
            kind: "end",
            cell: (model) => <Money value={model.charged_last_day} />,
          },
          {
            key: "tools",
            header: t.columns.tools,
            kind: "tools",
            cell: (model) => (
              <>
                <IconButton
                  small
                  icon="edit"
                  label={t.edit(model.document.id)}
                  onClick={() => setOpen({ kind: "edit", model })}
                />
                <IconButton
                  small
                  icon="trash"
                  label={t.deleteOne(model.document.id)}
                  onClick={() => setOpen({ kind: "delete", model })}
                />
              </>
            ),
          },
        ]}
        empty={
          search === "" ? (
            <EmptyState icon="box" title={t.none}>
              <p>{t.noneYet}</p>
            </EmptyState>
          ) : (
            <EmptyState icon="search" title={t.notFound} />
          )
        }
      />
      {open?.kind === "new" && <ModelForm model={null} onClose={close} />}
      {open?.kind === "edit" && <ModelForm model={open.model} onClose={close} />}
      {open?.kind === "delete" && <DeleteModel model={open.model} onClose={close} />}
      {open?.kind === "publish" && <PublishModels models={picked} onDone={done} onClose={close} />}
      {open?.kind === "map" && <MapModels models={picked} onDone={done} onClose={close} />}
      {open?.kind === "price" && <PriceModels models={picked} onDone={done} onClose={close} />}
    </div>
  );
}

function Names({ names, none }: { names: readonly string[]; none: string }) {
  const format = useFormat();
  return names.length === 0 ? (
    <Badge tone="warn">{none}</Badge>
  ) : (
    <span className="breakable">{format.list(names)}</span>
  );
}

/** Groups that only multiply it differently have the same price. */
function differentPrices({ prices }: Model): Model["prices"] {
  return [...new Map(prices.map((one) => [JSON.stringify([one.price, one.from]), one])).values()];
}

/** As written, without what groups multiply it by. */
function PriceOf({ model }: { model: Model }) {
  const t = useText("adminModels");
  const priceText = usePriceText();
  const [first, ...others] = differentPrices(model);
  if (others.length > 0) return t.severalPrices(others.length + 1);
  const price = first?.price;
  return price ? priceText(price) : <Badge tone="warn">{t.noPrice}</Badge>;
}

function SourceOf({ model }: { model: Model }) {
  const policy = useText("policy");
  const [first, ...others] = differentPrices(model);
  const from = first?.from;
  if (others.length > 0 || !from) return null;
  const { listed } = from;
  return (
    <span className="small soft">
      {policy.sources[from.source]}
      {listed && ` ${listed.date}`}
      {listed && listed.name !== model.document.id && `, ${listed.name}`}
    </span>
  );
}

function DeleteModel({ model, onClose }: { model: Model; onClose(): void }) {
  const t = useText("adminModels").delete;
  const kit = useText("kit");
  const format = useFormat();
  const say = useToast();
  const remove = useChange("admin.models.delete", { invalidates: ["admin.", "models."] });
  const { id } = model.document;
  return (
    <ConfirmDialog
      title={t.title(id)}
      confirm={kit.delete}
      requestsLastDay={model.requests_last_day}
      onClose={onClose}
      onConfirm={async () => {
        await remove.mutateAsync({ params: { id } });
        say(t.done(id));
      }}
    >
      <p>{model.groups.length === 0 ? t.none : t.breaks(format.list(model.groups))}</p>
    </ConfirmDialog>
  );
}
