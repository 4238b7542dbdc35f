/** The profile of the signed-in user. */

import { useChange } from "../../data.ts";
import { useUser } from "../../session.tsx";
import { useText } from "../../text/text.tsx";
import { Button } from "../../ui/button.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Card, Facts, Page, PageHeader } from "../../ui/page.tsx";
import { useProblemToast, useToast } from "../../ui/toast.tsx";
import { PasswordSection } from "./password.tsx";
import { ProviderSection } from "./provider.tsx";
import { SecondFactorSection } from "./second-factor.tsx";
import { SessionsSection } from "./sessions.tsx";
import { TokensSection } from "./tokens.tsx";
import { ToolsSection } from "./tools.tsx";

export default function ProfilePage() {
  const t = useText("profile");
  const { email, role, must_verify: mustVerify, provider, has_second_factor: hasSecondFactor } = useUser();
  return (
    <Page>
      <PageHeader title={t.title} about={t.about} />
      {mustVerify && <VerifyNotice email={email} />}
      <Card>
        <Facts
          facts={[
            [
              t.facts.email,
              <span key="email" className="breakable">
                {email}
              </span>,
            ],
            [t.facts.role, t.facts.roles[role]],
            ...(provider === null ? [] : [[t.facts.provider, t.provider.linked(provider)] as const]),
          ]}
        />
      </Card>
      {provider === null && <PasswordSection />}
      {(provider === null || hasSecondFactor) && <SecondFactorSection />}
      <ProviderSection />
      <SessionsSection />
      <ToolsSection />
      <TokensSection />
    </Page>
  );
}

function VerifyNotice({ email }: { email: string }) {
  const t = useText("profile").verify;
  const showToast = useToast();
  const complain = useProblemToast();
  const send = useChange("email.send_link", { onDone: () => showToast(t.sent) });
  return (
    <Notice tone="warn" title={t.title}>
      <p className="breakable">{t.text(email)}</p>
      <div>
        <Button
          small
          icon="mail"
          isBusy={send.isPending}
          onClick={() => send.mutate({}, { onError: complain })}
        >
          {t.again}
        </Button>
      </div>
    </Notice>
  );
}
