/** All models with their groups, accounts and prices. Several can be changed at once. */

import { useState } from "react";
import { useSearchParams } from "wouter";
import { useChange, useList } from "../../../data.ts";
import { useUser } from "../../../session.tsx";
import { useFormat, useText } from "../../../text/text.tsx";
import { Button, IconButton } from "../../../ui/button.tsx";
import { ConfirmDialog } from "../../../ui/dialog.tsx";
import { InterfaceNames } from "../../../ui/interface-names.tsx";
import { EmptyState } from "../../../ui/notice.tsx";
import { SearchBox } from "../../../ui/search.tsx";
import { type Column, Table } from "../../../ui/table.tsx";
import { useToast } from "../../../ui/toast.tsx";
import { Badge, Money } from "../../../ui/values.tsx";
import { GroupRestriction, useGroupFilter } from "../group-filter.tsx";
import { usageLink } from "../list-links.ts";
import { CountLink, NameLinks } from "../name-links.tsx";
import { usePriceText } from "../policy/price-text.ts";
import { MapModels, PriceModels, PublishModels } from "./bulk.tsx";
import type { Model } from "./model.ts";
import { ModelForm } from "./model-form.tsx";
import "./models.css";

type OpenDialog =
  | { kind: "new" }
  | { kind: "edit" | "delete"; model: Model }
  | { kind: "publish" | "map" | "price" };

export function ModelList() {
  const t = useText("adminModels");
  const isAdmin = useUser().role === "admin";
  const [params] = useSearchParams();
  const [search, setSearch] = useState(params.get("search") ?? "");
  const filter = useGroupFilter();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [open, setOpen] = useState<OpenDialog | null>(null);
  const models = useList("admin.models.list", { query: { search, ...filter.query } }, { keepPrevious: true });
  const picked = models.rows.filter(({ document }) => chosen.has(document.id));
  const columns = useModelColumns({ selection: { chosen, onChange: setChosen }, onOpen: setOpen });
  return (
    <div className="stack">
      <div className="row apart">
        <SearchBox label={t.search} initial={search} onSearch={setSearch} />
        {isAdmin && (
          <Button tone="primary" icon="add" isNew onClick={() => setOpen({ kind: "new" })}>
            {t.create}
          </Button>
        )}
      </div>
      <GroupRestriction filter={filter} />
      {picked.length > 0 && (
        <BulkActions count={picked.length} onOpen={setOpen} onClear={() => setChosen(new Set())} />
      )}
      <Table
        label={t.tabs.models}
        rows={models}
        rowKey={({ document }) => document.id}
        columns={isAdmin ? columns : columns.filter(({ key }) => AUDITOR_COLUMNS.has(key))}
        empty={
          search === "" && filter.group === "" ? (
            <EmptyState icon="box" title={t.none}>
              <p>{t.noneYet}</p>
            </EmptyState>
          ) : (
            <EmptyState icon="search" title={t.notFound} />
          )
        }
      />
      {open !== null && (
        <ModelDialog
          open={open}
          picked={picked}
          onClose={() => setOpen(null)}
          onBulkDone={() => {
            setOpen(null);
            setChosen(new Set());
          }}
        />
      )}
    </div>
  );
}

interface BulkActionsProps {
  count: number;
  onOpen(dialog: OpenDialog): void;
  onClear(): void;
}

/** The actions on the selected models. */
function BulkActions({ count, onOpen, onClear }: BulkActionsProps) {
  const t = useText("adminModels");
  return (
    <section className="models-chosen row" aria-label={t.chosen(count)}>
      <strong role="status">{t.chosen(count)}</strong>
      <Button small icon="group" onClick={() => onOpen({ kind: "publish" })}>
        {t.publish}
      </Button>
      <Button small icon="plug" onClick={() => onOpen({ kind: "map" })}>
        {t.map}
      </Button>
      <Button small icon="tag" onClick={() => onOpen({ kind: "price" })}>
        {t.bulkPrice}
      </Button>
      <Button small tone="quiet" onClick={onClear}>
        {t.clear}
      </Button>
    </section>
  );
}

interface ModelDialogProps {
  open: OpenDialog;
  picked: readonly Model[];
  onClose(): void;
  onBulkDone(): void;
}

function ModelDialog({ open, picked, onClose, onBulkDone }: ModelDialogProps) {
  const bulk = { models: picked, onDone: onBulkDone, onClose };
  switch (open.kind) {
    case "new":
      return <ModelForm model={null} onClose={onClose} />;
    case "edit":
      return <ModelForm model={open.model} onClose={onClose} />;
    case "delete":
      return <DeleteModel model={open.model} onClose={onClose} />;
    case "publish":
      return <PublishModels {...bulk} />;
    case "map":
      return <MapModels {...bulk} />;
    case "price":
      return <PriceModels {...bulk} />;
  }
}

interface Selection {
  chosen: ReadonlySet<string>;
  onChange(chosen: ReadonlySet<string>): void;
}

interface ModelColumnsInput {
  selection: Selection;
  onOpen(dialog: OpenDialog): void;
}

/** Auditors read prices. They cannot open groups and accounts. */
const AUDITOR_COLUMNS: ReadonlySet<string> = new Set(["id", "price", "source", "requests", "charged"]);

function useModelColumns({ selection, onOpen }: ModelColumnsInput): readonly Column<Model>[] {
  const t = useText("adminModels");
  return [
    {
      key: "id",
      header: t.columns.id,
      kind: "primary",
      cell: ({ document: { id }, interfaces }) => (
        <span className="models-cell">
          <ModelName id={id} selection={selection} />
          <InterfaceNames {...interfaces} />
        </span>
      ),
    },
    {
      key: "groups",
      header: t.columns.groups,
      cell: (model) => <NameLinks names={model.groups} under="/admin/groups" none={t.nowhere} />,
    },
    {
      key: "accounts",
      header: t.columns.accounts,
      cell: (model) => (
        <NameLinks
          under="/admin/accounts"
          names={model.accounts.filter(({ enabled }) => enabled).map(({ name }) => name)}
          none={t.noAccount}
        />
      ),
    },
    { key: "price", header: t.columns.price, cell: (model) => <ModelPrice model={model} /> },
    { key: "source", header: t.columns.source, cell: (model) => <PriceSource model={model} /> },
    {
      key: "requests",
      header: t.columns.requests,
      kind: "end",
      cell: (model) => (
        <CountLink to={usageLink({ model: model.document.id }, "day")} value={model.requests_last_day} />
      ),
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
            onClick={() => onOpen({ kind: "edit", model })}
          />
          <IconButton
            small
            icon="trash"
            label={t.deleteOne(model.document.id)}
            onClick={() => onOpen({ kind: "delete", model })}
          />
        </>
      ),
    },
  ];
}

/** Administrators can select it. */
function ModelName(props: { id: string; selection: Selection }) {
  const { role } = useUser();
  return role === "admin" ? <ModelCheckbox {...props} /> : <code className="breakable">{props.id}</code>;
}

function ModelCheckbox({ id, selection: { chosen, onChange } }: { id: string; selection: Selection }) {
  const t = useText("adminModels");
  return (
    <label className="check models-name">
      <input
        type="checkbox"
        aria-label={t.select(id)}
        checked={chosen.has(id)}
        onChange={(event) => {
          const next = new Set(chosen);
          if (event.target.checked) next.add(id);
          else next.delete(id);
          onChange(next);
        }}
      />
      <code className="breakable">{id}</code>
    </label>
  );
}

/** Groups that differ only in their multiplier have the same price. */
function differentPrices({ prices }: Model): Model["prices"] {
  return [...new Map(prices.map((one) => [JSON.stringify([one.price, one.from]), one])).values()];
}

/** The price before the multipliers of groups. */
function ModelPrice({ model }: { model: Model }) {
  const t = useText("adminModels");
  const priceText = usePriceText();
  const [first, ...others] = differentPrices(model);
  if (others.length > 0) return t.severalPrices(others.length + 1);
  const price = first?.price;
  return price ? priceText(price) : <Badge tone="warn">{t.noPrice}</Badge>;
}

function PriceSource({ model }: { model: Model }) {
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
  const showToast = useToast();
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
        showToast(t.done(id));
      }}
    >
      <p>{model.groups.length === 0 ? t.none : t.breaks(format.list(model.groups))}</p>
    </ConfirmDialog>
  );
}
