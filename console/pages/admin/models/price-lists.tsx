/** The price lists, and the import of a newer one after showing its difference. */

import { useState } from "react";
import type { ResponseBody } from "../../../api.ts";
import { useApi, useChange, useList } from "../../../data.ts";
import { useUser } from "../../../session.tsx";
import { useFormat, useText } from "../../../text/text.tsx";
import { Button } from "../../../ui/button.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { TextAreaField } from "../../../ui/field.tsx";
import { CancelButton, Form, useForm } from "../../../ui/form.tsx";
import { EmptyState, Notice } from "../../../ui/notice.tsx";
import { SearchBox } from "../../../ui/search.tsx";
import { Table } from "../../../ui/table.tsx";
import { useToast } from "../../../ui/toast.tsx";
import { Difference, Problems } from "../config/difference.tsx";
import { usePriceText } from "../policy/price-text.ts";

const EXAMPLE =
  'date: 2026-11-01\nmodels:\n  gpt-4o: { price: { input: "2.50", cached_input: "1.25", output: "10" }, context_tokens: 128000 }\n';

export function PriceLists() {
  const t = useText("adminModels").lists;
  const policy = useText("policy");
  const format = useFormat();
  const isAdmin = useUser().role === "admin";
  const [search, setSearch] = useState("");
  const [isUpdating, setUpdating] = useState(false);
  const prices = useList("admin.prices.list", { query: { search } }, { keepPrevious: true });
  const about = useApi("admin.prices.about");
  return (
    <div className="stack">
      <div className="row apart">
        <div className="stack">
          <p className="soft">{t.about}</p>
          {about.data && (
            <p>
              {t.bundled(about.data.bundled.date, about.data.bundled.models)}
              <br />
              {about.data.updated === null
                ? t.noUpdated
                : t.updated(about.data.updated.date, about.data.updated.models)}
            </p>
          )}
        </div>
        {isAdmin && (
          <Button icon="refresh" onClick={() => setUpdating(true)}>
            {t.update}
          </Button>
        )}
      </div>
      <div className="row">
        <SearchBox label={t.search} onSearch={setSearch} />
      </div>
      <Table
        label={t.about}
        rows={prices}
        rowKey={({ name }) => name}
        columns={[
          {
            key: "name",
            header: t.columns.name,
            kind: "primary",
            cell: ({ name }) => <code className="breakable">{name}</code>,
          },
          {
            key: "price",
            header: t.columns.price,
            cell: (entry) => <ListedPrice entry={entry} />,
          },
          { key: "source", header: t.columns.source, cell: ({ source }) => policy.sources[source] },
          { key: "date", header: t.columns.date, cell: ({ date }) => <span className="nowrap">{date}</span> },
          {
            key: "context",
            header: t.columns.context,
            kind: "end",
            cell: ({ context_tokens: tokens }) => (tokens === null ? "" : format.compact(tokens)),
          },
          {
            key: "output",
            header: t.columns.output,
            kind: "end",
            cell: ({ max_output_tokens: tokens }) => (tokens === null ? "" : format.compact(tokens)),
          },
        ]}
        empty={<EmptyState icon="search" title={t.notFound} />}
      />
      {isUpdating && <UpdatePrices onClose={() => setUpdating(false)} />}
    </div>
  );
}

type ListEntry = ResponseBody<"admin.prices.list">["data"][number];

/** The price, and which part of it was quoted. */
function ListedPrice({ entry: { price, quotation } }: { entry: ListEntry }) {
  const t = useText("adminModels").lists;
  const priceText = usePriceText();
  const describeUnit = (unit: string) => (unit === "per_call.web_search" ? t.webSearch : unit);
  return (
    <>
      {priceText(price)}
      {quotation && (
        <div className="soft">
          {t.quoted(quotation.units.map(describeUnit).join(", "), quotation.source, quotation.date)}
        </div>
      )}
    </>
  );
}

type Looked = { text: string; result: ResponseBody<"admin.prices.update"> };

function UpdatePrices({ onClose }: { onClose(): void }) {
  const t = useText("adminModels").lists;
  const showToast = useToast();
  const [looked, setLooked] = useState<Looked | null>(null);
  const update = useChange("admin.prices.update", { invalidates: ["admin.", "models."] });
  const form = useForm({ text: "" }, async ({ text }) => {
    const isLooked = looked !== null && looked.text === text && looked.result.changes.length > 0;
    const result = await update.mutateAsync({ body: { text, dry_run: !isLooked } });
    setLooked({ text, result });
    if (!result.applied) return;
    showToast(t.applied);
    onClose();
  });
  const result = looked?.text === form.values.text ? looked.result : null;
  const isReady = result !== null && result.changes.length > 0;
  return (
    <Dialog title={t.update} wide onClose={onClose}>
      <Form
        form={form}
        submit={isReady ? t.apply : t.look}
        atEnd
        actions={<CancelButton onClick={onClose} />}
      >
        <TextAreaField
          {...form.bind("text")}
          label={t.text}
          hint={t.textHint}
          placeholder={EXAMPLE}
          isCode
          rows={10}
        />
        {result && <Problems problems={result.problems} />}
        {result && result.problems.length === 0 && result.changes.length === 0 && <Notice>{t.same}</Notice>}
        {isReady && <Difference changes={result.changes} />}
        {result !== null && result.outdated.length > 0 && (
          <Notice tone="warn">
            {t.outdated(
              result.outdated
                .map(({ model, unit, date }) => t.oldPrice(unit === null ? model : `${model} ${unit}`, date))
                .join(t.between),
            )}
          </Notice>
        )}
        {result?.unpriced.map(({ group, model }) => (
          <Notice key={`${group} ${model}`} tone="warn">
            {t.unpriced(group, model)}
          </Notice>
        ))}
      </Form>
    </Dialog>
  );
}
