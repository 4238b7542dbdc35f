/** Making a model, or changing one. */

import { useChange, useList } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { MultiSelect, NumberField, TextField } from "../../../ui/field.tsx";
import { CancelButton, Form, useForm } from "../../../ui/form.tsx";
import { useToast } from "../../../ui/toast.tsx";
import { INTERFACES } from "../groups/group-values.ts";
import { priceDocument, priceValues } from "../policy/price.ts";
import { PriceFields } from "../policy/price-fields.tsx";
import type { Model } from "./model-list.tsx";

export function ModelForm({ model, onClose }: { model: Model | null; onClose(): void }) {
  const t = useText("adminModels").form;
  const kit = useText("kit");
  const policy = useText("policy");
  const say = useToast();
  const groups = useList("admin.groups.list", { query: { limit: 200 } }, { enabled: model === null });
  const invalidates = ["admin.", "models."] as const;
  const create = useChange("admin.models.create", { invalidates });
  const save = useChange("admin.models.save", { invalidates });
  const present = model?.document;
  const form = useForm(
    {
      id: present?.id ?? "",
      interfaces: (present?.interfaces ?? ["chat", "responses"]) as readonly string[],
      groups: [] as readonly string[],
      price: priceValues(present?.price),
      context: present?.context_tokens ?? null,
      output: present?.max_output_tokens ?? null,
    },
    async (values) => {
      const price = priceDocument(values.price);
      const document = {
        id: values.id.trim(),
        interfaces: INTERFACES.filter((name) => values.interfaces.includes(name)),
        ...(price === undefined ? {} : { price }),
        ...(values.context === null ? {} : { context_tokens: values.context }),
        ...(values.output === null ? {} : { max_output_tokens: values.output }),
      };
      if (present === undefined) {
        await create.mutateAsync({ body: { document, groups: [...values.groups] } });
        say(t.created(document.id));
      } else {
        await save.mutateAsync({ params: { id: present.id }, body: document });
        say(t.saved(document.id));
      }
      onClose();
    },
  );
  return (
    <Dialog title={present === undefined ? t.newTitle : t.editTitle(present.id)} wide onClose={onClose}>
      <Form
        form={form}
        submit={present === undefined ? kit.create : kit.save}
        atEnd
        actions={<CancelButton onClick={onClose} />}
      >
        {present === undefined && (
          <TextField {...form.bind("id")} label={t.id} hint={t.idHint} isMono autoFocus />
        )}
        <MultiSelect
          {...form.bind("interfaces")}
          label={t.interfaces}
          choices={INTERFACES.map((name) => ({ value: name, label: policy.interfaces[name] }))}
        />
        {present === undefined && (
          <MultiSelect
            {...form.bind("groups")}
            label={t.groups}
            optional
            choices={groups.rows.map(({ name }) => ({ value: name, label: name }))}
            empty={t.noGroups}
          />
        )}
        <div>
          <h3>{t.price}</h3>
          <p className="small soft">{t.priceHint}</p>
        </div>
        <PriceFields
          name="price"
          value={form.values.price}
          onChange={(price) => form.set("price", price)}
          problemAt={form.problemAt}
        />
        <div className="policy-rates">
          <NumberField
            {...form.bind("context", "context_tokens")}
            label={t.context}
            hint={t.sizesHint}
            min={1}
            optional
          />
          <NumberField
            {...form.bind("output", "max_output_tokens")}
            label={t.output}
            hint={t.sizesHint}
            min={1}
            optional
          />
        </div>
      </Form>
    </Dialog>
  );
}
