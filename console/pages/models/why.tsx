/** "Why can this key call this model, or not?": a form, and the checks that a request would pass. */

import { useState } from "react";
import { api, type ResponseBody } from "../../api.ts";
import { useApi } from "../../data.ts";
import { useText } from "../../text/text.tsx";
import { LinkButton } from "../../ui/button.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { SelectField, TextField } from "../../ui/field.tsx";
import { Form, useForm } from "../../ui/form.tsx";
import { EmptyState, Notice, ProblemNotice } from "../../ui/notice.tsx";
import { Skeleton } from "../../ui/page.tsx";
import { SearchBox } from "../../ui/search.tsx";
import { Table } from "../../ui/table.tsx";
import { Time } from "../../ui/values.tsx";
import { useStepText } from "./step-text.ts";

type Why = ResponseBody<"models.why">;
const INTERFACES = ["chat", "responses", "messages", "gemini", "embeddings", "images"] as const;
type Interface = (typeof INTERFACES)[number];

/** The values that the form is opened with. */
export interface WhyQuestion {
  key?: string;
  model?: string;
  interface?: Interface;
}

/** More than one page of keys has a search. */
const KEYS_LISTED = 200;

export function WhyDialog({ question, onClose }: { question: WhyQuestion; onClose(): void }) {
  const t = useText("models").why;
  const [search, setSearch] = useState("");
  const query = { status: "all" as const, limit: KEYS_LISTED, ...(search === "" ? {} : { search }) };
  const keys = useApi("keys.list", { query }, { keepPrevious: true });
  // The selected key may be beyond the first page.
  const own = useApi(
    "keys.get",
    { params: { id: question.key ?? "" } },
    { enabled: question.key !== undefined },
  );
  if (keys.error) {
    return (
      <Dialog title={t.title} onClose={onClose}>
        <ProblemNotice error={keys.error} />
      </Dialog>
    );
  }
  if (keys.data === undefined || (own.isFetching && own.data === undefined)) {
    return (
      <Dialog title={t.title} onClose={onClose}>
        <Skeleton height={200} />
      </Dialog>
    );
  }
  const isMany = keys.data.next !== null || search !== "";
  const listed = keys.data.data.map(({ id, name, group }) => ({ id, name, group }));
  const asked = own.data;
  const choices =
    asked === undefined || listed.some(({ id }) => id === asked.id)
      ? listed
      : [{ id: asked.id, name: asked.name, group: asked.group }, ...listed];
  return (
    <Dialog wide title={t.title} onClose={onClose}>
      {choices.length === 0 && search === "" ? (
        <EmptyState icon="key" title={t.noKeys} actions={<LinkButton to="/keys">{t.key}</LinkButton>} />
      ) : (
        <div className="stack wide">
          {isMany && <SearchBox label={t.findKey} onSearch={setSearch} />}
          <WhyForm key={choices[0]?.id ?? ""} question={question} keys={choices} />
        </div>
      )}
    </Dialog>
  );
}

interface WhyFormProps {
  question: WhyQuestion;
  keys: readonly { id: string; name: string; group: string }[];
}

function WhyForm({ question, keys }: WhyFormProps) {
  const t = useText("models");
  const [why, setWhy] = useState<Why | null>(null);
  const form = useForm(
    {
      key: question.key ?? keys[0]?.id ?? "",
      model: question.model ?? "",
      interface: question.interface ?? ("chat" as Interface),
    },
    async (values) => {
      setWhy(null);
      setWhy(await api("models.why", { query: { ...values, model: values.model.trim() } }));
    },
  );
  return (
    <>
      <Form form={form} submit={t.why.submit}>
        <div className="columns">
          <SelectField
            {...form.bind("key")}
            label={t.why.key}
            choices={keys.map(({ id, name, group }) => ({ value: id, label: `${name} (${group})` }))}
          />
          <SelectField
            {...form.bind("interface")}
            label={t.why.interface}
            choices={INTERFACES.map((value) => ({ value, label: t.interfaces[value] }))}
          />
        </div>
        <TextField
          {...form.bind("model")}
          label={t.why.model}
          hint={t.why.modelHint}
          isMono
          maxLength={256}
        />
      </Form>
      {why !== null && <Explanation why={why} />}
    </>
  );
}

function Explanation({ why }: { why: Why }) {
  const t = useText("models").why;
  const describeStep = useStepText();
  const decisive = why.steps.find(({ ok }) => !ok);
  return (
    <section className="stack" aria-live="polite">
      <Notice tone={why.allowed ? "good" : "bad"} title={why.allowed ? t.allowed : t.refused}>
        {decisive !== undefined && <p>{describeStep(decisive)}</p>}
      </Notice>
      <ol className="why-steps">
        {why.steps.map((step) => (
          <li key={step.reason} className={step.ok ? "passed" : "failed"}>
            <span className="unseen">{step.ok ? t.passed : t.failed}: </span>
            <span className="breakable">{describeStep(step)}</span>
          </li>
        ))}
      </ol>
      {why.fallback.length > 0 && <FallbackChain steps={why.fallback} />}
      {why.accounts !== null && why.accounts.length > 0 && <Accounts accounts={why.accounts} />}
    </section>
  );
}

function FallbackChain({ steps }: { steps: Why["fallback"] }) {
  const { why: t, reasons } = useText("fallback");
  const { charges } = useText("policy");
  return (
    <Table
      label={t.title}
      rows={steps}
      rowKey={({ step }) => String(step)}
      empty={null}
      columns={[
        { key: "step", header: t.number, cell: ({ step }) => step },
        { key: "group", header: t.group, kind: "primary", cell: ({ group }) => group },
        { key: "model", header: t.model, cell: ({ model }) => <code>{model}</code> },
        { key: "when", header: t.when, cell: ({ when }) => when.map((one) => reasons[one]).join(", ") },
        {
          key: "payer",
          header: t.payer,
          cell: ({ charge, max_price: factor }) =>
            factor === null ? charges[charge] : `${charges[charge]}, ${t.maxPrice(factor)}`,
        },
        {
          key: "state",
          header: t.state,
          cell: ({ obstacle }) => (obstacle === null ? t.eligible : t.obstacles[obstacle]),
        },
      ]}
    />
  );
}

function Accounts({ accounts }: { accounts: NonNullable<Why["accounts"]> }) {
  const { why: t, interfaces } = useText("models");
  return (
    <Table
      label={t.accounts}
      rows={accounts}
      rowKey={({ name }) => name}
      empty={null}
      columns={[
        { key: "name", header: t.account, cell: ({ name }) => name },
        { key: "sent", header: t.sentAs, cell: ({ sent_as: sentAs }) => <code>{sentAs ?? "–"}</code> },
        {
          key: "translation",
          header: t.translation,
          cell: ({ sent_as: sentAs, translation }) => {
            if (translation !== null) return t.translatedTo(interfaces[translation]);
            return sentAs === null ? "–" : t.native;
          },
        },
        { key: "reason", header: t.reason, cell: ({ reason }) => reason ?? t.eligible },
        {
          key: "frees",
          header: t.frees,
          cell: ({ frees_at: at }) => (at === null ? "–" : <Time at={at} />),
        },
      ]}
    />
  );
}
