/** Changes the password. */

import { useChange } from "../../data.ts";
import { useFreshSession, useUser } from "../../session.tsx";
import { useText } from "../../text/text.tsx";
import { SecretField } from "../../ui/field.tsx";
import { Form, useForm } from "../../ui/form.tsx";
import { Card, Section } from "../../ui/page.tsx";
import { useToast } from "../../ui/toast.tsx";
import { NewPasswordField } from "../entry/frame.tsx";
import { buildProof, ProofField } from "./proof.tsx";
import "./profile.css";

const EMPTY = { password: "", code: "", new_password: "" };

export function PasswordSection() {
  const t = useText("profile").password;
  const user = useUser();
  const showToast = useToast();
  const refresh = useFreshSession();
  const change = useChange("password.change", { invalidates: ["sessions."] });
  const form = useForm(EMPTY, async (values) => {
    await change.mutateAsync({ body: { ...buildProof(user, values), new_password: values.new_password } });
    form.reset(EMPTY);
    showToast(t.done);
    await refresh();
  });
  return (
    <Section title={t.title} about={user.has_password ? t.about : t.none}>
      <Card>
        <div className="short-fields">
          <Form form={form} submit={user.has_password ? t.submit : t.choose}>
            {user.has_password ? (
              <SecretField {...form.bind("password")} label={t.present} autoComplete="current-password" />
            ) : (
              <ProofField form={form} />
            )}
            <NewPasswordField {...form.bind("new_password")} label={t.next} />
          </Form>
        </div>
      </Card>
    </Section>
  );
}
