/** Exports the installation as a file, and applies a file after showing the difference. */

import { type ChangeEvent, useRef, useState } from "react";
import type { ResponseBody } from "../../../api.ts";
import { useApi, useChange } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { Button } from "../../../ui/button.tsx";
import { ConfirmDialog } from "../../../ui/dialog.tsx";
import { CheckboxField, TextAreaField } from "../../../ui/field.tsx";
import { Form, type FormState, useForm } from "../../../ui/form.tsx";
import { Notice, ProblemNotice } from "../../../ui/notice.tsx";
import { Card, Page, PageHeader, Section } from "../../../ui/page.tsx";
import { useToast } from "../../../ui/toast.tsx";
import { CodeBlock, Copy } from "../../../ui/values.tsx";
import { Difference, Problems } from "./difference.tsx";

export default function ConfigPage() {
  const t = useText("adminConfig");
  return (
    <Page>
      <PageHeader title={t.title} about={t.about} />
      <Export />
      <Import />
    </Page>
  );
}

const FILE_NAME = "gateway.yaml";

function Export() {
  const t = useText("adminConfig").export;
  const [isShown, setShown] = useState(false);
  const file = useApi("admin.config.export", {}, { enabled: isShown });
  const download = useChange("admin.config.export", { onDone: ({ text }) => save(text) });
  return (
    <Section title={t.title} about={t.about}>
      <div className="row">
        <Button icon="download" isBusy={download.isPending} onClick={() => download.mutate({})}>
          {t.download}
        </Button>
        {!isShown && (
          <Button icon="eye" onClick={() => setShown(true)}>
            {t.show}
          </Button>
        )}
      </div>
      {download.error && <ProblemNotice error={download.error} />}
      {isShown && file.data && <CodeBlock label={t.label} code={file.data.text} language="yaml" />}
      {isShown && file.error && <ProblemNotice error={file.error} />}
    </Section>
  );
}

function save(text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "application/yaml" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = FILE_NAME;
  link.click();
  URL.revokeObjectURL(url);
}

interface Source {
  text: string;
  prune: boolean;
}

type Plan = ResponseBody<"admin.config.plan">;
type Applied = ResponseBody<"admin.config.apply">;

const FILE_BYTES_MAX = 16 * 1024 * 1024;

function Import() {
  const t = useText("adminConfig");
  const frame = useRef<HTMLDivElement>(null);
  const [looked, setLooked] = useState<{ source: Source; plan: Plan } | null>(null);
  const [applied, setApplied] = useState<Applied | null>(null);
  const look = useChange("admin.config.plan");
  const form = useForm<Source>({ text: "", prune: false }, async (source) => {
    setApplied(null);
    setLooked({ source, plan: await look.mutateAsync({ body: source }) });
  });
  const isCurrent = looked?.source.text === form.values.text && looked.source.prune === form.values.prune;
  const goTo = (position: Position) => {
    const area = frame.current?.querySelector("textarea");
    if (area) selectPosition(area, form.values.text, position);
  };
  return (
    <Section title={t.import.title} about={t.import.about}>
      <Card>
        <div ref={frame}>
          <SourceForm form={form} />
        </div>
      </Card>
      {looked && !isCurrent && <Notice tone="warn">{t.difference.stale}</Notice>}
      {looked && isCurrent && <Problems problems={looked.plan.problems} onGo={goTo} />}
      {looked && isCurrent && looked.plan.problems.length === 0 && (
        <Planned
          source={looked.source}
          plan={looked.plan}
          onApplied={(result) => {
            setLooked(null);
            setApplied(result);
          }}
        />
      )}
      {applied && <AppliedNotice applied={applied} />}
    </Section>
  );
}

function SourceForm({ form }: { form: FormState<Source> }) {
  const t = useText("adminConfig").import;
  const showToast = useToast();
  const readFile = async (event: ChangeEvent<HTMLInputElement>) => {
    const [file] = event.target.files ?? [];
    event.target.value = "";
    if (file === undefined) return;
    if (file.size > FILE_BYTES_MAX) showToast(t.tooLarge, "bad");
    else form.set("text", await file.text());
  };
  const chooseFile = (
    <label className="button plain file-button">
      {t.choose}
      <input type="file" className="unseen" accept=".yaml,.yml,.json,text/yaml" onChange={readFile} />
    </label>
  );
  return (
    <Form form={form} submit={t.look} actions={chooseFile}>
      <TextAreaField
        {...form.bind("text")}
        label={t.text}
        hint={t.textHint}
        placeholder={t.placeholder}
        isCode
        rows={16}
      />
      <CheckboxField {...form.bind("prune")} label={t.prune} hint={t.pruneHint} />
    </Form>
  );
}

/** A position in the file; both numbers count from 1. */
interface Position {
  line: number;
  column: number;
}

/** Selects the character at the position, so that the browser scrolls to it. */
function selectPosition(area: HTMLTextAreaElement, text: string, { line, column }: Position): void {
  const before = text.split("\n").slice(0, line - 1);
  const start = before.reduce((sum, { length }) => sum + length + 1, 0) + column - 1;
  area.focus();
  area.setSelectionRange(start, start + 1);
}

function Planned({
  source,
  plan,
  onApplied,
}: {
  source: Source;
  plan: Plan;
  onApplied(applied: Applied): void;
}) {
  const t = useText("adminConfig").difference;
  const [isAsking, setAsking] = useState(false);
  const apply = useChange("admin.config.apply", { invalidates: ["admin.", "models.", "groups.", "keys."] });
  const removed = plan.changes.filter(({ kind }) => kind === "remove").length;
  const send = async () => onApplied(await apply.mutateAsync({ body: { ...source, plan: plan.plan ?? "" } }));
  const form = useForm({}, async () => (removed > 0 ? setAsking(true) : send()));
  if (plan.plan === null) return <Notice tone="good">{t.none}</Notice>;
  return (
    <div className="stack">
      <Difference changes={plan.changes} />
      {plan.notes.length > 0 && (
        <Notice title={t.notes}>
          {plan.notes.map((note) => (
            <p key={note}>{note}</p>
          ))}
        </Notice>
      )}
      {removed > 0 && <Notice tone="warn">{t.removes(removed)}</Notice>}
      <Form form={form} submit={t.apply(plan.changes.length)} tone={removed > 0 ? "danger" : "primary"}>
        {null}
      </Form>
      {isAsking && (
        <ConfirmDialog
          title={t.confirmTitle}
          confirm={t.confirm}
          onConfirm={send}
          onClose={() => setAsking(false)}
        >
          <p>{t.removes(removed)}</p>
          <p>{t.pruned}</p>
        </ConfirmDialog>
      )}
    </div>
  );
}

function AppliedNotice({ applied }: { applied: Applied }) {
  const t = useText("adminConfig");
  return (
    <div className="stack" role="status">
      <Notice tone="good">{t.difference.applied(applied.changes.length)}</Notice>
      {applied.keys.length > 0 && (
        <Notice tone="warn" title={t.keys.title}>
          <p>{t.keys.about}</p>
          {applied.keys.map(({ name, group, secret }) => (
            <div key={secret} className="row">
              <span>{t.keys.of(name, group)}</span>
              <Copy text={secret} />
            </div>
          ))}
        </Notice>
      )}
    </div>
  );
}
