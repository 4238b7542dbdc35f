/** Signs in at a provider, or with a password and, if enabled, a second factor. */

import { useState } from "react";
import { ApiProblem } from "../../api.ts";
import { useChange } from "../../data.ts";
import { useSession } from "../../session.tsx";
import { useText } from "../../text/text.tsx";
import { Button, Link } from "../../ui/button.tsx";
import { SecretField, TextField } from "../../ui/field.tsx";
import { useForm } from "../../ui/form.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Entry, SafeForm, SignedOutOnly, useEnter } from "./frame.tsx";
import { ProviderButtons } from "./providers.tsx";

export default function SignInPage() {
  return (
    <SignedOutOnly>
      <SignInWays />
    </SignedOutOnly>
  );
}

/** Where passwords are for administrators only, their form is behind a button; where they are off, there is none. */
function SignInWays() {
  const t = useText("entry");
  const { password_sign_in: password } = useSession();
  const [isOpen, setOpen] = useState(false);
  if (password === "allowed" || isOpen) return <SignIn />;
  return (
    <Entry title={t.signIn.title}>
      <ProviderButtons />
      {password === "admins" && (
        <Button tone="quiet" onClick={() => setOpen(true)}>
          {t.providers.asAdmin}
        </Button>
      )}
    </Entry>
  );
}

/** The password first, then the code of the second factor if there is one. The password is typed once. */
function SignIn() {
  const t = useText("entry");
  const enter = useEnter();
  const { providers } = useSession();
  const signIn = useChange("session.create", {});
  const [needsCode, setNeedsCode] = useState(false);
  const form = useForm({ email: "", password: "", code: "" }, async ({ code, ...values }) => {
    try {
      await signIn.mutateAsync({ body: needsCode ? { ...values, code } : values });
    } catch (error) {
      if (!(error instanceof ApiProblem) || error.code !== "second_factor_required" || needsCode) throw error;
      setNeedsCode(true);
      return;
    }
    await enter();
  });
  if (needsCode) {
    return (
      <Entry title={t.code.title} about={t.code.about}>
        <SafeForm form={form} submit={t.signIn.submit}>
          <TextField
            {...form.bind("code")}
            label={t.code.label}
            autoComplete="one-time-code"
            maxLength={40}
            isMono
            autoFocus
          />
        </SafeForm>
        <Button
          tone="quiet"
          onClick={() => {
            setNeedsCode(false);
            form.reset();
          }}
        >
          {t.code.back}
        </Button>
      </Entry>
    );
  }
  return (
    <Entry title={t.signIn.title} links={<Ways />}>
      <Unclaimed />
      <ProviderButtons />
      {providers.length > 0 && <p className="quiet">{t.providers.or}</p>}
      <SafeForm form={form} submit={t.signIn.submit}>
        <TextField {...form.bind("email")} type="email" label={t.email} autoComplete="username" />
        <SecretField {...form.bind("password")} label={t.password} autoComplete="current-password" />
      </SafeForm>
    </Entry>
  );
}

function Ways() {
  const t = useText("entry").signIn;
  const { registration, password_sign_in: password } = useSession();
  if (password !== "allowed") return <Link to="/forgot">{t.forgot}</Link>;
  return (
    <>
      <Link to="/forgot">{t.forgot}</Link>
      {registration === "open" ? <Link to="/register">{t.register}</Link> : <p>{t[registration]}</p>}
    </>
  );
}

function Unclaimed() {
  const t = useText("entry").signIn.unclaimed;
  const { unclaimed } = useSession();
  if (!unclaimed) return null;
  return (
    <Notice tone="info" title={t.title}>
      {t.text}
    </Notice>
  );
}
