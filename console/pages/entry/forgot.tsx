/** Requests a link that resets the password. */

import { useState } from "react";
import { useChange } from "../../data.ts";
import { useSession } from "../../session.tsx";
import { useText } from "../../text/text.tsx";
import { Link } from "../../ui/button.tsx";
import { TextField } from "../../ui/field.tsx";
import { Form, useForm } from "../../ui/form.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Entry } from "./frame.tsx";

export default function ForgotPage() {
  const t = useText("entry");
  const { mail } = useSession();
  const [sentTo, setSentTo] = useState<string | null>(null);
  const forgot = useChange("password.forgot", {});
  const form = useForm({ email: "" }, async ({ email }) => {
    await forgot.mutateAsync({ body: { email } });
    setSentTo(email);
  });
  const links = <Link to="/sign-in">{t.forgot.back}</Link>;
  if (!mail) {
    return (
      <Entry title={t.forgot.title} links={links}>
        <Notice tone="info">{t.forgot.noMail}</Notice>
      </Entry>
    );
  }
  if (sentTo !== null) {
    return (
      <Entry title={t.forgot.sent.title} links={links}>
        <Notice tone="good" isUrgent>
          <span className="breakable">{t.forgot.sent.text(sentTo)}</span>
        </Notice>
      </Entry>
    );
  }
  return (
    <Entry title={t.forgot.title} about={t.forgot.about} links={links}>
      <Form form={form} submit={t.forgot.submit}>
        <TextField {...form.bind("email")} type="email" label={t.email} autoComplete="username" />
      </Form>
    </Entry>
  );
}
