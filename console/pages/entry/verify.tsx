/** Verifies an e-mail address by a one-time link. */

import { useChange } from "../../data.ts";
import { useText } from "../../text/text.tsx";
import { useForm } from "../../ui/form.tsx";
import { Entry, NewPasswordField, SafeForm, useEnter, WithLink } from "./frame.tsx";

/** Completes a registration: the link that was sent to the address opens the form for the password. */
export default function VerifyPage() {
  const t = useText("entry").verify;
  return (
    <WithLink purpose="verify" title={t.title}>
      {({ email }, token) => <Verify about={t.about(email)} token={token} />}
    </WithLink>
  );
}

function Verify({ about, token }: { about: string; token: string }) {
  const t = useText("entry");
  const enter = useEnter();
  const verify = useChange("email.verify", {});
  const form = useForm({ password: "" }, async ({ password }) => {
    await verify.mutateAsync({ body: { token, password } });
    await enter();
  });
  return (
    <Entry title={t.verify.title} about={about}>
      <SafeForm form={form} submit={t.verify.submit}>
        <NewPasswordField {...form.bind("password")} label={t.password} />
      </SafeForm>
    </Entry>
  );
}
