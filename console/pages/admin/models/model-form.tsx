/** The dialog that creates or edits a model. */

import { useChange, useList } from "../../../data.ts";
import { FallbackFields, type StepValue, stepConditions, stepValues } from "../../../forms/fallback.tsx";
import { useText } from "../../../text/text.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { MultiSelect, NumberField, TextField } from "../../../ui/field.tsx";
import { CancelButton, Form, type FormState, useForm } from "../../../ui/form.tsx";
import { useToast } from "../../../ui/toast.tsx";
import { INTERFACES } from "../groups/group-values.ts";
import { priceDocument, priceValues } from "../policy/price.ts";
import { PriceFields } from "../policy/price-fields.tsx";
import type { Model } from "./model.ts";

interface ModelFormProps {
  /** Null creates a model. */
  model: Model | null;
  onClose(): void;
}

export function ModelForm({ model, onClose }: ModelFormProps) {
  const t = useText("adminModels").form;
  const kit = useText("kit");
  const policy = useText("policy");
  const groups = useList("admin.groups.list", { query: { limit: 200 } }, { enabled: model === null });
  const form = useModelForm({ model, onClose });
  return (
    <Dialog title={model === null ? t.newTitle : t.editTitle(model.document.id)} wide onClose={onClose}>
      <Form
        form={form}
        submit={model === null ? kit.create : kit.save}
        atEnd
        actions={<CancelButton onClick={onClose} />}
      >
        {model === null && <TextField {...form.bind("id")} label={t.id} hint={t.idHint} isMono autoFocus />}
        <MultiSelect
          {...form.bind("interfaces")}
          label={t.interfaces}
          choices={INTERFACES.map((name) => ({ value: name, label: policy.interfaces[name] }))}
        />
        {model === null && (
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
        <ModelFallback form={form} />
      </Form>
    </Dialog>
  );
}

function ModelFallback({ form }: { form: FormState<ModelValues> }) {
  const t = useText("fallback");
  const models = useList("admin.models.list", { query: { limit: 200 } });
  return (
    <>
      <div>
        <h3>{t.title}</h3>
        <p className="small soft">{t.ofModel}</p>
      </div>
      <FallbackFields
        target="model"
        choices={models.rows.map(({ document }) => document.id).filter((id) => id !== form.values.id)}
        value={form.values.fallback}
        onChange={(steps) => form.set("fallback", steps)}
        problemAt={form.problemAt}
      />
    </>
  );
}

/** Creates the model with its groups, or saves the document of an existing one. */
function useModelForm({ model, onClose }: ModelFormProps) {
  const t = useText("adminModels").form;
  const showToast = useToast();
  const invalidates = ["admin.", "models."] as const;
  const create = useChange("admin.models.create", { invalidates });
  const save = useChange("admin.models.save", { invalidates });
  return useForm(modelValues(model?.document), async (values) => {
    const document = modelDocument(values);
    if (model === null) {
      await create.mutateAsync({ body: { document, groups: [...values.groups] } });
      showToast(t.created(document.id));
    } else {
      await save.mutateAsync({ params: { id: model.document.id }, body: document });
      showToast(t.saved(document.id));
    }
    onClose();
  });
}

type ModelValues = ReturnType<typeof modelValues>;

function modelValues(document: Model["document"] | undefined) {
  return {
    id: document?.id ?? "",
    interfaces: (document?.interfaces ?? ["chat", "responses"]) as readonly string[],
    groups: [] as readonly string[],
    price: priceValues(document?.price),
    context: document?.context_tokens ?? null,
    output: document?.max_output_tokens ?? null,
    fallback: stepValues("model", document?.fallback) as readonly StepValue[],
  };
}

function modelDocument(values: ModelValues) {
  const price = priceDocument(values.price);
  return {
    id: values.id.trim(),
    interfaces: INTERFACES.filter((name) => values.interfaces.includes(name)),
    ...(price === undefined ? {} : { price }),
    ...(values.context === null ? {} : { context_tokens: values.context }),
    ...(values.output === null ? {} : { max_output_tokens: values.output }),
    ...(values.fallback.length === 0
      ? {}
      : { fallback: values.fallback.map((step) => ({ model: step.target, ...stepConditions(step) })) }),
  };
}
