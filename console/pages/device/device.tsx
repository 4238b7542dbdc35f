/** Signs in a tool that shows a code. Nothing is sent before the person presses a button. */

import { useState } from "react";
import { useSearch } from "wouter";
import type { ResponseBody } from "../../api.ts";
import { useChange } from "../../data.ts";
import { useText } from "../../text/text.tsx";
import { Button, LinkButton } from "../../ui/button.tsx";
import { SelectField, TextField } from "../../ui/field.tsx";
import { Form, useForm } from "../../ui/form.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Card, Facts, Page, PageHeader } from "../../ui/page.tsx";
import { useProblemToast } from "../../ui/toast.tsx";
import { Time } from "../../ui/values.tsx";

type Found = ResponseBody<"tools.find"> & { readonly code: string };
type Step =
  | { readonly kind: "code" }
  | { readonly kind: "review"; readonly found: Found }
  | { readonly kind: "approved" | "denied" };

export default function DevicePage() {
  const t = useText("device");
  const [step, setStep] = useState<Step>({ kind: "code" });
  return (
    <Page narrow>
      <PageHeader title={t.title} about={t.about} />
      {step.kind === "code" && <CodeForm onFound={(found) => setStep({ kind: "review", found })} />}
      {step.kind === "review" && (
        <Review
          found={step.found}
          onEnd={(kind) => setStep({ kind })}
          onBack={() => setStep({ kind: "code" })}
        />
      )}
      {step.kind === "approved" && (
        <Notice tone="good" title={t.approved.title} isUrgent>
          <p>{t.approved.text}</p>
          <div>
            <LinkButton to="/profile">{t.approved.profile}</LinkButton>
          </div>
        </Notice>
      )}
      {step.kind === "denied" && (
        <Notice tone="info" title={t.denied.title} isUrgent>
          {t.denied.text}
        </Notice>
      )}
    </Page>
  );
}

function CodeForm({ onFound }: { onFound(found: Found): void }) {
  const t = useText("device");
  const search = useSearch();
  const find = useChange("tools.find", {});
  const form = useForm({ code: new URLSearchParams(search).get("user_code") ?? "" }, async ({ code }) => {
    onFound({ ...(await find.mutateAsync({ body: { user_code: code } })), code });
  });
  return (
    <Card>
      <Form form={form} submit={t.next}>
        <TextField
          {...form.bind("code", "user_code")}
          label={t.code}
          hint={t.codeHint}
          placeholder="BCDF-GHJK"
          maxLength={16}
          isMono
          autoFocus
        />
      </Form>
    </Card>
  );
}

interface ReviewProps {
  found: Found;
  onEnd(kind: "approved" | "denied"): void;
  onBack(): void;
}

function Review({ found, onEnd, onBack }: ReviewProps) {
  const t = useText("device");
  const { code, address, is_own_address: isOwn, started_at: startedAt, groups } = found;
  return (
    <Card>
      <div className="stack wide">
        <Notice tone={isOwn ? "info" : "warn"} title={isOwn ? t.check.title : t.check.otherAddress}>
          {t.check.text}
        </Notice>
        <Facts
          facts={[
            [
              t.code,
              <code key="code" className="nowrap">
                {code.toUpperCase()}
              </code>,
            ],
            [
              t.address,
              <span key="address" className="mono breakable">
                {address}
              </span>,
            ],
            [t.started, <Time key="started" at={startedAt} exact />],
          ]}
        />
        {groups.length === 0 ? (
          <Notice tone="bad" title={t.noGroup.title}>
            {t.noGroup.text}
          </Notice>
        ) : (
          <ApproveForm code={code} groups={groups} onApproved={() => onEnd("approved")} />
        )}
        <div className="row">
          <DenyButton code={code} onDenied={() => onEnd("denied")} />
          <Button tone="quiet" onClick={onBack}>
            {t.otherCode}
          </Button>
        </div>
      </div>
    </Card>
  );
}

interface ApproveFormProps {
  code: string;
  groups: readonly string[];
  onApproved(): void;
}

function ApproveForm({ code, groups, onApproved }: ApproveFormProps) {
  const t = useText("device");
  const approve = useChange("tools.approve", { invalidates: ["tools.", "keys."] });
  const form = useForm({ name: "", group: groups[0] ?? "" }, async ({ name, group }) => {
    await approve.mutateAsync({ body: { user_code: code, name: name.trim(), group } });
    onApproved();
  });
  return (
    <Form form={form} submit={t.approve}>
      <TextField {...form.bind("name")} label={t.name} hint={t.nameHint} maxLength={64} autoFocus />
      {groups.length > 1 && (
        <SelectField
          {...form.bind("group")}
          label={t.group}
          hint={t.groupHint}
          choices={groups.map((group) => ({ value: group, label: group }))}
        />
      )}
    </Form>
  );
}

function DenyButton({ code, onDenied }: { code: string; onDenied(): void }) {
  const t = useText("device");
  const complain = useProblemToast();
  const deny = useChange("tools.deny", { onDone: onDenied });
  return (
    <Button
      tone="danger"
      isBusy={deny.isPending}
      onClick={() => deny.mutate({ body: { user_code: code } }, { onError: complain })}
    >
      {t.deny}
    </Button>
  );
}
