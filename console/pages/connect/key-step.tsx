/** The key that the tool will use: a new one, whose secret is shown once, or an existing one. */

import { useState } from "react";
import { useApi, useChange } from "../../data.ts";
import { useText } from "../../text/text.tsx";
import { Awaited } from "../../ui/awaited.tsx";
import { Button } from "../../ui/button.tsx";
import { SelectField, TextField } from "../../ui/field.tsx";
import { Form, useForm } from "../../ui/form.tsx";
import { EmptyState, Notice } from "../../ui/notice.tsx";
import { Card } from "../../ui/page.tsx";
import { CopyButton } from "../../ui/values.tsx";
import { callableFirst } from "../keys/paid.ts";
import "../keys/keys.css";

export interface ChosenKey {
  readonly id: string;
  readonly name: string;
  /** Only of a key that was created on this page. It is stored nowhere. */
  readonly secret: string | null;
  /** Requests from this time on are waited for. */
  readonly sinceMs: number;
}

interface KeyStepProps {
  /** The id of a key and the name of a group, from the address. */
  wanted: { readonly key: string | null; readonly group: string | null };
  chosen: ChosenKey | null;
  onChoose(key: ChosenKey): void;
}

const KEYS_LISTED = 100;

export function KeyStep({ wanted, chosen, onChoose }: KeyStepProps) {
  const t = useText("connect");
  const keys = useApi("keys.list", { query: { limit: KEYS_LISTED } });
  const offers = useApi("groups.list");
  const wallet = useApi("wallet.get");
  if (chosen !== null) return <Chosen chosen={chosen} />;
  if (keys.data === undefined) return <Awaited query={keys} height={160} />;
  if (offers.data === undefined) return <Awaited query={offers} height={160} />;
  if (wallet.data === undefined) return <Awaited query={wallet} height={160} />;
  const usable = callableFirst(offers.data.data, wallet.data).filter(({ models }) => models.length > 0);
  const groups = usable.map(({ name }) => name);
  const active = keys.data.data.filter(({ status }) => status === "active");
  if (groups.length === 0 && active.length === 0) {
    return (
      <EmptyState icon="group" title={t.noGroup}>
        <p>{t.noGroupText}</p>
      </EmptyState>
    );
  }
  return (
    <div className="columns">
      {groups.length > 0 && (
        <Card>
          <NewKey
            groups={groups}
            wanted={wanted}
            taken={keys.data.data.map(({ name }) => name)}
            onChoose={onChoose}
          />
        </Card>
      )}
      {active.length > 0 && (
        <Card>
          <ExistingKey keys={active} wanted={wanted} onChoose={onChoose} />
        </Card>
      )}
    </div>
  );
}

interface NewKeyProps extends Pick<KeyStepProps, "wanted" | "onChoose"> {
  groups: readonly string[];
  /** Names of the person's keys, which are unique. */
  taken: readonly string[];
}

function NewKey({ groups, wanted, taken, onChoose }: NewKeyProps) {
  const t = useText("connect");
  const group = groups.find((name) => name === wanted.group) ?? groups[0] ?? "";
  const proposed = chooseFreeName(t.keyName, taken);
  const create = useChange("keys.create", { invalidates: ["keys.", "models."] });
  const form = useForm({ name: "", group }, async (values) => {
    const sinceMs = Date.now();
    const body = { name: values.name.trim() || proposed, group: values.group };
    const { key, secret } = await create.mutateAsync({ body });
    onChoose({ id: key.id, name: key.name, secret, sinceMs });
  });
  return (
    <Form form={form} submit={t.create}>
      <TextField {...form.bind("name")} label={t.name} placeholder={proposed} maxLength={64} optional />
      {groups.length > 1 && (
        <SelectField
          {...form.bind("group")}
          label={t.group}
          choices={groups.map((name) => ({ value: name, label: name }))}
        />
      )}
    </Form>
  );
}

function chooseFreeName(base: string, taken: readonly string[]): string {
  let name = base;
  for (let number = 2; taken.includes(name); number++) name = `${base} ${number}`;
  return name;
}

interface ExistingKeyProps extends Pick<KeyStepProps, "wanted" | "onChoose"> {
  keys: readonly { id: string; name: string; group: string }[];
}

function ExistingKey({ keys, wanted, onChoose }: ExistingKeyProps) {
  const t = useText("connect");
  const [picked, setPicked] = useState(wanted.key);
  const key = keys.find(({ id }) => id === picked) ?? keys[0];
  if (key === undefined) return null;
  const { id, name } = key;
  return (
    <div className="form">
      <SelectField
        name="key"
        label={t.existing}
        hint={t.existingHint}
        value={id}
        choices={keys.map((one) => ({ value: one.id, label: t.keyChoice(one.name, one.group) }))}
        onChange={setPicked}
      />
      <div className="form-actions">
        <Button onClick={() => onChoose({ id, name, secret: null, sinceMs: Date.now() })}>{t.use}</Button>
      </div>
    </div>
  );
}

function Chosen({ chosen: { name, secret } }: { chosen: ChosenKey }) {
  const t = useText("connect");
  if (secret === null) return <Notice tone="info">{t.chosen(name)}</Notice>;
  return (
    <div className="stack">
      <Notice tone="warn">{t.once}</Notice>
      <section className="secret" aria-label={t.secret}>
        <code>{secret}</code>
        <CopyButton text={secret} label={t.copySecret} />
      </section>
    </div>
  );
}
