/** Creates the first administrator with the token of the first start. */

import { useChange } from "../../data.ts";
import { useText } from "../../text/text.tsx";
import { TextField } from "../../ui/field.tsx";
import { useForm } from "../../ui/form.tsx";
import { BrokenLink, Entry, NewPasswordField, SafeForm, useEnter } from "./frame.tsx";

/** Creates the first administrator, by the link that the first start prints. */
export default function ClaimPage() {
  const t = useText("entry");
  const token = location.hash.slice(1);
  const enter = useEnter();
  const claim = useChange("claim.use", {});
  const form = useForm({ email: "", password: "" }, async (values) => {
    await claim.mutateAsync({ body: { token, ...values } });
    await enter();
  });
  if (token === "") return <BrokenLink title={t.claim.title} />;
  return (
    <Entry title={t.claim.title} about={t.claim.about}>
      <SafeForm form={form} submit={t.claim.submit}>
        <TextField {...form.bind("email")} type="email" label={t.email} autoComplete="username" />
        <NewPasswordField {...form.bind("password")} label={t.password} />
      </SafeForm>
    </Entry>
  );
}
