/** The models of a group, in order, each with what makes it dearer or cheaper here. */

import { useState } from "react";
import { useList } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Button } from "../../../ui/button.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import type { FormState } from "../../../ui/form.tsx";
import { AddDialog } from "../policy/add-dialog.tsx";
import { Ordered } from "../policy/ordered.tsx";
import { NO_PRICE, priceDocument } from "../policy/price.ts";
import { PriceFields } from "../policy/price-fields.tsx";
import type { GroupValues } from "./group-values.ts";

type GroupForm = FormState<GroupValues>;

export function GroupModels({ form }: { form: GroupForm }) {
  const t = useText("adminGroups");
  const [isAdding, setAdding] = useState(false);
  const [priced, setPriced] = useState<string | null>(null);
  const { models, modelMultipliers, modelPrices } = form.values;
  return (
    <>
      {models.length === 0 && <p className="soft">{t.models.none}</p>}
      <Ordered label={t.models.title} items={models} onChange={(next) => form.set("models", next)}>
        {(model, index) => {
          const price = modelPrices[model];
          const hasPrice = price !== undefined && priceDocument(price) !== undefined;
          const problem =
            form.problemAt(`models[${index}]`) ??
            form.problemAt(`billing.model_multipliers${keyOf(model)}`) ??
            form.problemAt(`billing.model_prices${keyOf(model)}`);
          return (
            <>
              <code className="grow">{model}</code>
              <label className="group-times">
                <span>{t.models.times}</span>
                <input
                  className="input small"
                  inputMode="decimal"
                  autoComplete="off"
                  placeholder="1"
                  aria-label={t.models.timesOf(model)}
                  aria-invalid={problem === null ? undefined : true}
                  value={modelMultipliers[model] ?? ""}
                  onChange={(event) =>
                    form.set("modelMultipliers", { ...modelMultipliers, [model]: event.target.value })
                  }
                />
              </label>
              <Button small icon="tag" onClick={() => setPriced(model)}>
                {hasPrice ? t.models.ownPrice : t.models.setPrice}
              </Button>
              {problem !== null && <p className="small group-problem">{problem}</p>}
            </>
          );
        }}
      </Ordered>
      <div>
        <Button icon="add" onClick={() => setAdding(true)}>
          {t.models.add}
        </Button>
      </div>
      {isAdding && (
        <AddModels
          present={models}
          onAdd={(added) => form.set("models", [...models, ...added])}
          onClose={() => setAdding(false)}
        />
      )}
      {priced !== null && (
        <Dialog title={t.models.priceOf(priced)} wide onClose={() => setPriced(null)}>
          <div className="stack">
            <p className="soft">{t.models.priceAbout}</p>
            <PriceFields
              name={`billing.model_prices${keyOf(priced)}`}
              value={modelPrices[priced] ?? NO_PRICE}
              onChange={(price) => form.set("modelPrices", { ...modelPrices, [priced]: price })}
              problemAt={form.problemAt}
            />
            <div className="form-actions end">
              <Button
                onClick={() => {
                  form.set("modelPrices", { ...modelPrices, [priced]: NO_PRICE });
                  setPriced(null);
                }}
              >
                {t.models.usualPrice}
              </Button>
              <Button tone="primary" onClick={() => setPriced(null)}>
                {t.models.takePrice}
              </Button>
            </div>
          </div>
        </Dialog>
      )}
    </>
  );
}

/** As the API writes a name into a path. */
function keyOf(name: string): string {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`;
}

interface AddProps {
  present: readonly string[];
  onAdd(added: readonly string[]): void;
  onClose(): void;
}

function AddModels({ present, onAdd, onClose }: AddProps) {
  const t = useText("adminGroups");
  const models = useList("admin.models.list", { query: { limit: 200 } });
  return (
    <AddDialog
      title={t.models.add}
      name="models"
      label={t.models.choose}
      listing={models}
      choices={models.rows
        .map(({ document }) => document.id)
        .filter((id) => !present.includes(id))
        .map((id) => ({ value: id, label: id }))}
      noMore={t.models.noMore}
      onAdd={onAdd}
      onClose={onClose}
    />
  );
}
