/** Accepts an invitation. */

import { useChange } from "../../data.ts";
import { useText } from "../../text/text.tsx";
import { useForm } from "../../ui/form.tsx";
import { Entry, NewPasswordField, SafeForm, useEnter, WithLink } from "./frame.tsx";

/** Creates an account from an invitation. */
export default function JoinPage() {
  const t = useText("entry").join;
  return (
    <WithLink purpose="invite" title={t.title}>
      {({ email }, token) => <Join email={email} token={token} />}
    </WithLink>
  );
}

function Join({ email, token }: { email: string; token: string }) {
  const t = useText("entry");
  const enter = useEnter();
  const accept = useChange("invitation.accept", {});
  const form = useForm({ password: "" }, async ({ password }) => {
    await accept.mutateAsync({ body: { token, password } });
    await enter();
  });
  return (
    <Entry title={t.join.title} about={t.join.about(email)}>
      <SafeForm form={form} submit={t.join.submit}>
        <NewPasswordField {...form.bind("password")} label={t.password} />
      </SafeForm>
    </Entry>
  );
}
