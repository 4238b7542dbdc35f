/** Links the account to a person at a provider, who signs in there from then on. */

import { useState } from "react";
import { useChange } from "../../data.ts";
import { useSession, useUser } from "../../session.tsx";
import { useText } from "../../text/text.tsx";
import { Button } from "../../ui/button.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Form, useForm } from "../../ui/form.tsx";
import { Card, Section } from "../../ui/page.tsx";
import { buildProof, ProofField } from "./proof.tsx";

/** Nothing is shown if no provider is configured, or if the user is linked already. */
export function ProviderSection() {
  const t = useText("profile").provider;
  const { providers } = useSession();
  const { provider: linked } = useUser();
  const [chosen, setChosen] = useState<string | null>(null);
  if (providers.length === 0 || linked !== null) return null;
  return (
    <Section title={t.title} about={t.about}>
      <Card>
        <div className="row">
          {providers.map((provider) => (
            <Button key={provider} icon="link" onClick={() => setChosen(provider)}>
              {t.link(provider)}
            </Button>
          ))}
        </div>
      </Card>
      {chosen !== null && <LinkDialog provider={chosen} onClose={() => setChosen(null)} />}
    </Section>
  );
}

function LinkDialog({ provider, onClose }: { provider: string; onClose(): void }) {
  const t = useText("profile").provider;
  const user = useUser();
  const start = useChange("sign_in.start", { onDone: ({ url }) => location.assign(url) });
  const form = useForm({ password: "", code: "" }, async (proof) => {
    const body = { provider, next: "/profile", purpose: "link", ...buildProof(user, proof) } as const;
    await start.mutateAsync({ body });
  });
  return (
    <Dialog title={t.link(provider)} onClose={onClose}>
      <Form form={form} submit={t.submit}>
        <p>{t.confirm(provider)}</p>
        <ProofField form={form} />
      </Form>
    </Dialog>
  );
}
