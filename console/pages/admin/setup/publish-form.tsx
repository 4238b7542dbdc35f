/** The models of the new account: those with a list price are ticked, the others are listed separately. */

import { useChange } from "../../../data.ts";
import { useFormat, useText } from "../../../text/text.tsx";
import { Button } from "../../../ui/button.tsx";
import { MultiSelect, TextField } from "../../../ui/field.tsx";
import { Form, useForm } from "../../../ui/form.tsx";
import { Notice } from "../../../ui/notice.tsx";
import { describeProbe } from "../accounts/test-call.tsx";
import type { Published } from "./published-notice.tsx";
import type { Proposal } from "./vendor-form.tsx";

interface PublishFormProps {
  proposal: Proposal;
  onBack(): void;
  onPublished(published: Published): void;
}

export function PublishForm({ proposal, onBack, onPublished }: PublishFormProps) {
  const t = useText("adminSetup").publish;
  const test = useText("adminAccounts").test;
  const format = useFormat();
  const { models, probe, vendor, credential } = proposal;
  const priced = models.filter(({ price }) => price !== null);
  const unpriced = models.filter(({ price }) => price === null);
  const publish = useChange("admin.setup.publish", { invalidates: ["admin.", "groups.", "models."] });
  const form = useForm(
    {
      priced: priced.map(({ id }) => id) as readonly string[],
      unpriced: [] as readonly string[],
      group: proposal.group,
    },
    async (values) => {
      const chosen = [...values.priced, ...values.unpriced];
      const group = values.group.trim();
      const created = await publish.mutateAsync({ body: { vendor, credential, models: chosen, group } });
      onPublished({ ...created, models: models.filter(({ id }) => chosen.includes(id)) });
    },
  );
  if (models.length === 0) {
    return (
      <div className="stack">
        <Notice tone="bad">{describeProbe(probe, test, format.duration(probe.duration_ms))}</Notice>
        <div>
          <Button onClick={onBack}>{t.back}</Button>
        </div>
      </div>
    );
  }
  const price = (input: string | undefined, output: string | undefined) =>
    t.price(format.moneyExact(input ?? "0"), format.moneyExact(output ?? "0"));
  return (
    <Form form={form} submit={t.submit} actions={<Button onClick={onBack}>{t.back}</Button>}>
      {priced.length > 0 && (
        <MultiSelect
          {...form.bind("priced")}
          label={t.priced}
          choices={priced.map((model) => ({
            value: model.id,
            label: model.id,
            hint: price(model.price?.input, model.price?.output),
          }))}
        />
      )}
      {unpriced.length > 0 && (
        <MultiSelect
          {...form.bind("unpriced")}
          label={t.unpriced}
          hint={t.unpricedHint}
          choices={unpriced.map(({ id }) => ({ value: id, label: id }))}
        />
      )}
      <TextField {...form.bind("group")} label={t.group} hint={t.groupHint} />
    </Form>
  );
}
