/** The form of the mail server, with a test mail. */

import { useState } from "react";
import { useChange } from "../../../data.ts";
import { useUser } from "../../../session.tsx";
import { useText } from "../../../text/text.tsx";
import { Button } from "../../../ui/button.tsx";
import { ConfirmDialog, Dialog } from "../../../ui/dialog.tsx";
import { NumberField, SecretField, SelectField, TextField } from "../../../ui/field.tsx";
import { CancelButton, Form, useForm } from "../../../ui/form.tsx";
import { Notice } from "../../../ui/notice.tsx";
import { Card, Section } from "../../../ui/page.tsx";
import { type Settings, useSaveSettings } from "./saving.ts";

const SECURITIES = ["starttls", "tls", "none"] as const;

type Mail = Settings["smtp"];

export function MailSettings({ settings: { smtp } }: { settings: Settings }) {
  const t = useText("adminSettings").smtp;
  const kit = useText("kit");
  const save = useSaveSettings();
  const [open, setOpen] = useState<"test" | "remove" | null>(null);
  const form = useMailForm(smtp);
  return (
    <Section
      title={t.title}
      about={t.about}
      actions={
        smtp !== null && (
          <>
            <Button icon="mail" onClick={() => setOpen("test")}>
              {t.test}
            </Button>
            <Button icon="trash" tone="danger" onClick={() => setOpen("remove")}>
              {t.remove}
            </Button>
          </>
        )
      }
    >
      <Card>
        <Form form={form} submit={kit.save}>
          <div className="columns">
            <TextField {...form.bind("host")} label={t.host} placeholder="smtp.example.com" />
            <NumberField {...form.bind("port")} label={t.port} min={1} max={65_535} />
          </div>
          <SelectField
            {...form.bind("security")}
            label={t.security}
            choices={SECURITIES.map((value) => ({ value, label: t.securities[value] }))}
          />
          <div className="columns">
            <TextField {...form.bind("user")} label={t.user} optional />
            <SecretField
              {...form.bind("password")}
              label={t.password}
              autoComplete="new-password"
              optional
              {...(smtp?.has_password ? { hint: t.kept, placeholder: "••••••••" } : {})}
            />
          </div>
          <TextField {...form.bind("from")} label={t.from} hint={t.fromHint} />
        </Form>
      </Card>
      {open === "test" && <TestMail onClose={() => setOpen(null)} />}
      {open === "remove" && (
        <ConfirmDialog
          title={t.removing}
          confirm={t.remove}
          onClose={() => setOpen(null)}
          onConfirm={() => save({ smtp: { enabled: false } })}
        >
          <p>{t.removingText}</p>
        </ConfirmDialog>
      )}
    </Section>
  );
}

function useMailForm(smtp: Mail) {
  const save = useSaveSettings();
  const form = useForm(mailValues(smtp), async (values) => {
    await save({ smtp: mailBody(values, smtp) });
    form.reset({ ...values, password: "" });
  });
  return form;
}

function mailValues(smtp: Mail) {
  return {
    host: smtp?.host ?? "",
    port: (smtp?.port ?? 587) as number | null,
    security: smtp?.security ?? ("starttls" as const),
    user: smtp?.user ?? "",
    password: "",
    from: smtp?.from ?? "",
  };
}

function mailBody(
  { host, port, security, user, password, from }: ReturnType<typeof mailValues>,
  saved: Mail,
) {
  const isSameServer = saved?.host === host.trim() && saved.port === port;
  return {
    host: host.trim(),
    ...(port === null ? {} : { port }),
    security,
    ...(user.trim() === "" ? {} : { user: user.trim() }),
    ...(password === "" ? {} : { password }),
    from: from.trim(),
    // A private address that the configuration file allows stays allowed.
    ...(saved?.private_network && isSameServer ? { private_network: true } : {}),
  };
}

function TestMail({ onClose }: { onClose(): void }) {
  const t = useText("adminSettings").smtp;
  const { email } = useUser();
  const test = useChange("admin.settings.test_mail");
  const form = useForm({ to: email }, async ({ to }) => test.mutateAsync({ body: { to: to.trim() } }));
  return (
    <Dialog title={t.testTitle} onClose={onClose}>
      <Form form={form} submit={t.test} atEnd actions={<CancelButton onClick={onClose} />}>
        <p className="soft">{t.testAbout}</p>
        <TextField {...form.bind("to")} type="email" label={t.testTo} />
        {test.data && (
          <Notice tone={test.data.ok ? "good" : "bad"} isUrgent>
            {test.data.message}
          </Notice>
        )}
      </Form>
    </Dialog>
  );
}
