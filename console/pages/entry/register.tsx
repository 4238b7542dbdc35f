/** Registers a new user. */

import { useState } from "react";
import { useChange } from "../../data.ts";
import { useSession } from "../../session.tsx";
import { useText } from "../../text/text.tsx";
import { Link } from "../../ui/button.tsx";
import { TextField } from "../../ui/field.tsx";
import { useForm } from "../../ui/form.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Entry, NewPasswordField, SafeForm, SignedOutOnly, useEnter } from "./frame.tsx";

export default function RegisterPage() {
  const t = useText("entry").register;
  const { registration, mail } = useSession();
  const [sentTo, setSentTo] = useState<string | null>(null);
  const links = <Link to="/sign-in">{t.haveOne}</Link>;
  if (sentTo !== null) {
    return (
      <Entry title={t.sent.title} links={links}>
        <Notice tone="good" isUrgent>
          <span className="breakable">{t.sent.text(sentTo)}</span>
        </Notice>
      </Entry>
    );
  }
  return (
    <SignedOutOnly>
      {registration === "open" ? (
        <Entry title={t.title} about={mail ? t.aboutMail : t.about} links={links}>
          {mail ? <RegisterByMail onSent={setSentTo} /> : <Register />}
        </Entry>
      ) : (
        <Entry title={t.title} links={links}>
          <Notice tone="info">{t[registration]}</Notice>
        </Entry>
      )}
    </SignedOutOnly>
  );
}

/** The password is chosen with the link in the mail, which proves that the address belongs to the user. */
function RegisterByMail({ onSent }: { onSent: (email: string) => void }) {
  const t = useText("entry");
  const register = useChange("registration.create", {});
  const form = useForm({ email: "" }, async (values) => {
    await register.mutateAsync({ body: values });
    onSent(values.email);
  });
  return (
    <SafeForm form={form} submit={t.register.submitMail}>
      <TextField {...form.bind("email")} type="email" label={t.email} autoComplete="username" />
    </SafeForm>
  );
}

function Register() {
  const t = useText("entry");
  const enter = useEnter();
  const register = useChange("registration.create", {});
  const form = useForm({ email: "", password: "" }, async (values) => {
    await register.mutateAsync({ body: values });
    await enter();
  });
  return (
    <SafeForm form={form} submit={t.register.submit}>
      <TextField {...form.bind("email")} type="email" label={t.email} autoComplete="username" />
      <NewPasswordField {...form.bind("password")} label={t.password} />
    </SafeForm>
  );
}
