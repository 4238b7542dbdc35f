/** One change for many models: their groups, their upstream names or their prices. */

import { useChange, useList } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { CheckboxField, MultiSelect } from "../../../ui/field.tsx";
import { CancelButton, Form, useForm } from "../../../ui/form.tsx";
import { Notice } from "../../../ui/notice.tsx";
import { useToast } from "../../../ui/toast.tsx";
import { NO_PRICE, priceDocument } from "../policy/price.ts";
import { PriceFields } from "../policy/price-fields.tsx";
import type { Model } from "./model.ts";

interface BulkProps {
  models: readonly Model[];
  /** Called after the change; the selection is then cleared. */
  onDone(): void;
  onClose(): void;
}

const INVALIDATES = ["admin.", "models.", "groups."] as const;

export function PublishModels({ models, onDone, onClose }: BulkProps) {
  const t = useText("adminModels").publishing;
  const all = useText("adminModels");
  const showToast = useToast();
  const groups = useList("admin.groups.list", { query: { limit: 200 } });
  const publish = useChange("admin.models.publish", { invalidates: INVALIDATES });
  const form = useForm({ add: [] as readonly string[], remove: [] as readonly string[] }, async (values) => {
    await publish.mutateAsync({
      body: {
        models: models.map(({ document }) => document.id),
        add: [...values.add],
        remove: [...values.remove],
      },
    });
    showToast(t.done);
    onDone();
  });
  const choices = groups.rows.map(({ name }) => ({ value: name, label: name }));
  const losing = choices.filter(({ value }) => models.some((model) => model.groups.includes(value)));
  return (
    <Dialog title={t.title(models.length)} onClose={onClose}>
      <Form form={form} submit={all.publish} atEnd actions={<CancelButton onClick={onClose} />}>
        <MultiSelect {...form.bind("add")} label={t.add} choices={choices} empty={all.form.noGroups} />
        {losing.length > 0 && (
          <MultiSelect {...form.bind("remove")} label={t.remove} choices={losing} optional />
        )}
        {form.values.remove.length > 0 && <Notice tone="warn">{t.breaks}</Notice>}
      </Form>
    </Dialog>
  );
}

export function MapModels({ models, onDone, onClose }: BulkProps) {
  const t = useText("adminModels").mapping;
  const kit = useText("kit");
  const showToast = useToast();
  const accounts = useList("admin.accounts.list", { query: { limit: 200 } });
  const map = useChange("admin.models.map", { invalidates: INVALIDATES });
  const form = useForm({ names: {} as Readonly<Record<string, string>> }, async ({ names }) => {
    const mappings = Object.entries(names).map(([place, upstream]) => {
      const [account = "", model = ""] = JSON.parse(place) as string[];
      return { account, model, upstream_model: upstream.trim() === "" ? null : upstream.trim() };
    });
    if (mappings.length > 0) await map.mutateAsync({ body: { mappings } });
    showToast(t.done);
    onDone();
  });
  return (
    <Dialog title={t.title(models.length)} wide onClose={onClose}>
      <Form form={form} submit={kit.save} atEnd actions={<CancelButton onClick={onClose} />}>
        <p className="soft">{t.about}</p>
        {accounts.rows.length === 0 && !accounts.isLoading && <Notice>{t.noAccounts}</Notice>}
        <div className="models-map">
          {accounts.rows.map(({ document: { name: account, models: own = {} } }) => (
            <fieldset key={account}>
              <legend>{account}</legend>
              {models.map(({ document: { id }, accounts: serving }) => {
                const place = JSON.stringify([account, id]);
                const byWildcard = serving.find(({ name }) => name === account)?.upstream_model ?? "";
                return (
                  <label key={id}>
                    <code className="breakable">{id}</code>
                    <input
                      className="input small mono"
                      autoComplete="off"
                      spellCheck={false}
                      aria-label={t.nameAt(id, account)}
                      placeholder={Object.hasOwn(own, id) ? "" : byWildcard}
                      value={form.values.names[place] ?? (Object.hasOwn(own, id) ? (own[id] ?? "") : "")}
                      onChange={(event) =>
                        form.set("names", { ...form.values.names, [place]: event.target.value })
                      }
                    />
                  </label>
                );
              })}
            </fieldset>
          ))}
        </div>
      </Form>
    </Dialog>
  );
}

export function PriceModels({ models, onDone, onClose }: BulkProps) {
  const t = useText("adminModels").pricing;
  const kit = useText("kit");
  const showToast = useToast();
  const edit = useChange("admin.models.edit", { invalidates: INVALIDATES });
  const form = useForm({ price: NO_PRICE, isNone: false }, async ({ price, isNone }) => {
    await edit.mutateAsync({
      body: {
        models: models.map(({ document }) => document.id),
        set: { price: isNone ? null : (priceDocument(price) ?? null) },
      },
    });
    showToast(t.done);
    onDone();
  });
  return (
    <Dialog title={t.title(models.length)} wide onClose={onClose}>
      <Form form={form} submit={kit.save} atEnd actions={<CancelButton onClick={onClose} />}>
        <p className="soft">{t.about}</p>
        <CheckboxField {...form.bind("isNone")} label={t.none} />
        {!form.values.isNone && (
          <PriceFields
            name="price"
            value={form.values.price}
            onChange={(price) => form.set("price", price)}
            problemAt={(param) => form.problemAt(`models[0].${param}`) ?? form.problemAt(param)}
          />
        )}
      </Form>
    </Dialog>
  );
}
