import { useState } from "react";
import { useChange } from "../../data.ts";
import { useFreshSession } from "../../session.tsx";
import { useText } from "../../text/text.tsx";
import { LinkButton } from "../../ui/button.tsx";
import { Form, useForm } from "../../ui/form.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Entry, WithLink } from "./frame.tsx";

/** By a button: programs that look into mail open links by themselves. */
export default function VerifyPage() {
  const t = useText("entry").verify;
  const [verified, setVerified] = useState<string | null>(null);
  if (verified !== null) {
    return (
      <Entry title={t.done.title}>
        <Notice tone="good" isUrgent>
          <span className="breakable">{t.done.text(verified)}</span>
        </Notice>
        <LinkButton to="/" tone="primary">
          {t.go}
        </LinkButton>
      </Entry>
    );
  }
  return (
    <WithLink purpose="verify" title={t.title}>
      {({ email }, token) => <Verify email={email} token={token} onDone={() => setVerified(email)} />}
    </WithLink>
  );
}

function Verify({ email, token, onDone }: { email: string; token: string; onDone: () => void }) {
  const t = useText("entry").verify;
  const refresh = useFreshSession();
  const verify = useChange("email.verify", {});
  const form = useForm({}, async () => {
    await verify.mutateAsync({ body: { token } });
    onDone();
    await refresh();
  });
  return (
    <Entry title={t.title} about={t.about(email)}>
      <Form form={form} submit={t.submit}>
        {null}
      </Form>
    </Entry>
  );
}
