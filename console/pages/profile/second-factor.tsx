/** Enables and disables the second factor. */

import { useState } from "react";
import type { ResponseBody } from "../../api.ts";
import { useApi, useChange } from "../../data.ts";
import { useFreshSession, useUser } from "../../session.tsx";
import { useText } from "../../text/text.tsx";
import { Button } from "../../ui/button.tsx";
import { Dialog, ShownOnceDialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/field.tsx";
import { CancelButton, Form, useForm } from "../../ui/form.tsx";
import { Notice, ProblemNotice } from "../../ui/notice.tsx";
import { Card, Facts, Section, Skeleton } from "../../ui/page.tsx";
import { useToast } from "../../ui/toast.tsx";
import { Badge, CodeBlock, Copy, Time } from "../../ui/values.tsx";
import { bothProofs, buildProof, ProofField, ProofFields } from "./proof.tsx";
import { QrCode } from "./qr-code.tsx";

const NO_PROOF = { password: "", code: "" };
const FEW_CODES = 3;

export function SecondFactorSection() {
  const t = useText("profile").secondFactor;
  const status = useApi("second_factor.read");
  const [open, setOpen] = useState<"on" | "off" | "codes" | null>(null);
  const close = () => setOpen(null);
  return (
    <Section title={t.title} about={t.about}>
      <Card>
        {status.error ? (
          <ProblemNotice error={status.error} onRetry={() => void status.refetch()} />
        ) : status.data === undefined ? (
          <Skeleton height={60} />
        ) : status.data.since === null ? (
          <div className="row apart">
            <Badge>{t.off}</Badge>
            <Button tone="primary" icon="shield" onClick={() => setOpen("on")}>
              {t.turnOn}
            </Button>
          </div>
        ) : (
          <FactorStatus status={status.data} since={status.data.since} onOpen={setOpen} />
        )}
      </Card>
      {open === "on" && <TurnOn onClose={close} />}
      {open === "off" && <TurnOff onClose={close} />}
      {open === "codes" && <NewCodes onClose={close} />}
    </Section>
  );
}

interface FactorStatusProps {
  status: ResponseBody<"second_factor.read">;
  since: number;
  onOpen(what: "off" | "codes"): void;
}

function FactorStatus({ status: { recovery_codes_left: left }, since, onOpen }: FactorStatusProps) {
  const t = useText("profile").secondFactor;
  return (
    <div className="stack">
      <div>
        <Badge tone="good">{t.on}</Badge>
      </div>
      <Facts
        facts={[
          [t.since, <Time key="since" at={since} exact />],
          [t.codesLeft, left],
        ]}
      />
      {left <= FEW_CODES && <Notice tone="warn">{t.fewCodes(left)}</Notice>}
      <div className="row">
        <Button icon="refresh" onClick={() => onOpen("codes")}>
          {t.newCodes}
        </Button>
        <Button tone="danger" onClick={() => onOpen("off")}>
          {t.turnOff}
        </Button>
      </div>
    </div>
  );
}

/** Three steps: authenticate, register the app, save the recovery codes. */
function TurnOn({ onClose }: { onClose: () => void }) {
  const t = useText("profile").secondFactor;
  const user = useUser();
  const begin = useChange("second_factor.begin", {});
  const [begun, setBegun] = useState<ResponseBody<"second_factor.begin"> | null>(null);
  const [codes, setCodes] = useState<readonly string[] | null>(null);
  const form = useForm(NO_PROOF, async (proof) => {
    setBegun(await begin.mutateAsync({ body: buildProof(user, proof) }));
  });
  if (codes !== null) return <ShownCodes codes={codes} onClose={onClose} />;
  if (begun !== null) return <Scan begun={begun} onDone={setCodes} onClose={onClose} />;
  return (
    <Dialog title={t.begin.title} onClose={onClose}>
      <Form form={form} submit={t.begin.submit} actions={<CancelButton onClick={onClose} />} atEnd>
        <p>{t.begin.about}</p>
        <ProofField form={form} />
      </Form>
    </Dialog>
  );
}

interface ScanProps {
  begun: ResponseBody<"second_factor.begin">;
  onDone(codes: readonly string[]): void;
  onClose(): void;
}

function Scan({ begun, onDone, onClose }: ScanProps) {
  const t = useText("profile").secondFactor.scan;
  const refresh = useFreshSession();
  const confirm = useChange("second_factor.confirm", {});
  const form = useForm({ code: "" }, async ({ code }) => {
    const { recovery_codes: codes } = await confirm.mutateAsync({ body: { code: code.replace(/\s/g, "") } });
    onDone(codes);
    await refresh();
  });
  return (
    <Dialog title={t.title} onClose={onClose}>
      <Form form={form} submit={t.submit} actions={<CancelButton onClick={onClose} />} atEnd>
        <p>{t.about}</p>
        <QrCode text={begun.otpauth_url} label={t.picture} />
        <Facts facts={[[t.secret, <Copy key="secret" text={begun.secret} />]]} />
        <p className="small">
          <a href={begun.otpauth_url}>{t.open}</a>
        </p>
        <TextField
          {...form.bind("code")}
          label={t.code}
          autoComplete="one-time-code"
          inputMode="numeric"
          maxLength={12}
          isMono
        />
      </Form>
    </Dialog>
  );
}

function NewCodes({ onClose }: { onClose: () => void }) {
  const t = useText("profile").secondFactor.renew;
  const user = useUser();
  const renew = useChange("recovery_codes.create", { invalidates: ["second_factor."] });
  const [codes, setCodes] = useState<readonly string[] | null>(null);
  const form = useForm(NO_PROOF, async (proof) => {
    setCodes((await renew.mutateAsync({ body: bothProofs(user, proof) })).recovery_codes);
  });
  if (codes !== null) return <ShownCodes codes={codes} onClose={onClose} />;
  return (
    <Dialog title={t.title} onClose={onClose}>
      <Form form={form} submit={t.submit} actions={<CancelButton onClick={onClose} />} atEnd>
        <p>{t.text}</p>
        <ProofFields form={form} />
      </Form>
    </Dialog>
  );
}

function ShownCodes({ codes, onClose }: { codes: readonly string[]; onClose: () => void }) {
  const t = useText("profile").secondFactor.codes;
  return (
    <ShownOnceDialog title={t.title} warning={t.about} done={t.done} onClose={onClose}>
      <CodeBlock code={codes.join("\n")} label={t.label} />
    </ShownOnceDialog>
  );
}

function TurnOff({ onClose }: { onClose: () => void }) {
  const t = useText("profile").secondFactor.remove;
  const user = useUser();
  const showToast = useToast();
  const refresh = useFreshSession();
  const remove = useChange("second_factor.remove", {});
  const form = useForm(NO_PROOF, async (proof) => {
    await remove.mutateAsync({ body: bothProofs(user, proof) });
    onClose();
    showToast(t.done);
    await refresh();
  });
  return (
    <Dialog title={t.title} onClose={onClose}>
      <Form form={form} submit={t.submit} tone="danger" actions={<CancelButton onClick={onClose} />} atEnd>
        <p>{t.text}</p>
        <ProofFields form={form} />
      </Form>
    </Dialog>
  );
}
