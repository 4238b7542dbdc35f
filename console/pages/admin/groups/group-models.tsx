/** The models of a group, in order, each with its price and multiplier in this group. */

import { useState } from "react";
import { useList } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Button } from "../../../ui/button.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import type { FormState } from "../../../ui/form.tsx";
import { AddDialog } from "../policy/add-dialog.tsx";
import { Ordered } from "../policy/ordered.tsx";
import { NO_PRICE, type PriceValues, priceDocument } from "../policy/price.ts";
import { PriceFields } from "../policy/price-fields.tsx";
import type { GroupValues } from "./group-values.ts";

type GroupForm = FormState<GroupValues>;

export function GroupModels({ form }: { form: GroupForm }) {
  const t = useText("adminGroups");
  const [isAdding, setAdding] = useState(false);
  const [priced, setPriced] = useState<string | null>(null);
  const { models } = form.values;
  return (
    <>
      {models.length === 0 && <p className="soft">{t.models.none}</p>}
      <Ordered label={t.models.title} items={models} onChange={(next) => form.set("models", next)}>
        {(model, index) => (
          <ModelRow form={form} model={model} index={index} onPrice={() => setPriced(model)} />
        )}
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
      {priced !== null && <PriceDialog form={form} model={priced} onClose={() => setPriced(null)} />}
    </>
  );
}

interface ModelRowProps {
  form: GroupForm;
  model: string;
  index: number;
  onPrice(): void;
}

function ModelRow({ form, model, index, onPrice }: ModelRowProps) {
  const t = useText("adminGroups").models;
  const { modelMultipliers, modelPrices } = form.values;
  const price = modelPrices[model];
  const hasPrice = price !== undefined && priceDocument(price) !== undefined;
  const problem =
    form.problemAt(`models[${index}]`) ??
    form.problemAt(`billing.model_multipliers${pathKey(model)}`) ??
    form.problemAt(`billing.model_prices${pathKey(model)}`);
  return (
    <>
      <code className="grow">{model}</code>
      <label className="group-times">
        <span>{t.times}</span>
        <input
          className="input small"
          inputMode="decimal"
          autoComplete="off"
          placeholder="1"
          aria-label={t.modelMultiplier(model)}
          aria-invalid={problem === null ? undefined : true}
          value={modelMultipliers[model] ?? ""}
          onChange={(event) =>
            form.set("modelMultipliers", { ...modelMultipliers, [model]: event.target.value })
          }
        />
      </label>
      <Button small icon="tag" onClick={onPrice}>
        {hasPrice ? t.ownPrice : t.setPrice}
      </Button>
      {problem !== null && <p className="small group-problem">{problem}</p>}
    </>
  );
}

interface PriceDialogProps {
  form: GroupForm;
  model: string;
  onClose(): void;
}

/** The price of one model in this group. It is saved with the form of the group. */
function PriceDialog({ form, model, onClose }: PriceDialogProps) {
  const t = useText("adminGroups").models;
  const { modelPrices } = form.values;
  const setPrice = (price: PriceValues) => form.set("modelPrices", { ...modelPrices, [model]: price });
  return (
    <Dialog title={t.modelPrice(model)} wide onClose={onClose}>
      <div className="stack">
        <p className="soft">{t.priceAbout}</p>
        <PriceFields
          name={`billing.model_prices${pathKey(model)}`}
          value={modelPrices[model] ?? NO_PRICE}
          onChange={setPrice}
          problemAt={form.problemAt}
        />
        <div className="form-actions end">
          <Button
            onClick={() => {
              setPrice(NO_PRICE);
              onClose();
            }}
          >
            {t.usualPrice}
          </Button>
          <Button tone="primary" onClick={onClose}>
            {t.takePrice}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}

/** A name as a part of a path, as the API writes it in `param`. */
function pathKey(name: string): string {
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
