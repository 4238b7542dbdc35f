/** Signs in by a one-time link. */

import { useState } from "react";
import { ApiProblem } from "../../api.ts";
import { useChange } from "../../data.ts";
import { useText } from "../../text/text.tsx";
import { TextField } from "../../ui/field.tsx";
import { useForm } from "../../ui/form.tsx";
import { Entry, SafeForm, useEnter, WithLink } from "./frame.tsx";

/** Signs in with a link of an administrator. A button is required, because mail programs open links by themselves. */
export default function LinkPage() {
  const t = useText("entry").link;
  return (
    <WithLink purpose="sign_in" title={t.title}>
      {({ email }, token) => <SignInByLink email={email} token={token} />}
    </WithLink>
  );
}

function SignInByLink({ email, token }: { email: string; token: string }) {
  const t = useText("entry");
  const enter = useEnter();
  const [needsCode, setNeedsCode] = useState(false);
  const signIn = useChange("session.create_by_link", {});
  const form = useForm({ code: "" }, async ({ code }) => {
    try {
      await signIn.mutateAsync({ body: needsCode ? { token, code } : { token } });
    } catch (error) {
      if (!(error instanceof ApiProblem) || error.code !== "second_factor_required" || needsCode) throw error;
      setNeedsCode(true);
      return;
    }
    await enter();
  });
  return (
    <Entry title={t.link.title} about={needsCode ? t.code.about : t.link.about(email)}>
      <SafeForm form={form} submit={t.link.submit}>
        {needsCode && (
          <TextField
            {...form.bind("code")}
            label={t.code.label}
            autoComplete="one-time-code"
            maxLength={40}
            isMono
          />
        )}
      </SafeForm>
    </Entry>
  );
}
