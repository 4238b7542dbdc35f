import { useState } from "react";
import { useChange } from "../../data.ts";
import { useText } from "../../text/text.tsx";
import { LinkButton } from "../../ui/button.tsx";
import { useForm } from "../../ui/form.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Entry, NewPasswordField, SafeForm, WithLink } from "./frame.tsx";

export default function ResetPage() {
  const t = useText("entry");
  const [isDone, setDone] = useState(false);
  if (isDone) {
    return (
      <Entry title={t.reset.done.title}>
        <Notice tone="good" isUrgent>
          {t.reset.done.text}
        </Notice>
        <LinkButton to="/sign-in" tone="primary">
          {t.signIn.submit}
        </LinkButton>
      </Entry>
    );
  }
  return (
    <WithLink purpose="reset" title={t.reset.title}>
      {({ email }, token) => <Reset email={email} token={token} onDone={() => setDone(true)} />}
    </WithLink>
  );
}

function Reset({ email, token, onDone }: { email: string; token: string; onDone: () => void }) {
  const t = useText("entry");
  const reset = useChange("password.reset", {});
  const form = useForm({ password: "" }, async ({ password }) => {
    await reset.mutateAsync({ body: { token, password } });
    onDone();
  });
  return (
    <Entry title={t.reset.title} about={t.reset.about(email)}>
      <SafeForm form={form} submit={t.reset.submit}>
        <NewPasswordField {...form.bind("password")} label={t.password} />
      </SafeForm>
    </Entry>
  );
}
