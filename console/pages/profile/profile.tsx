/** The profile of the signed-in user. */

import { useUser } from "../../session.tsx";
import { useText } from "../../text/text.tsx";
import { Card, Facts, Page, PageHeader } from "../../ui/page.tsx";
import { PasswordSection } from "./password.tsx";
import { ProviderSection } from "./provider.tsx";
import { SecondFactorSection } from "./second-factor.tsx";
import { SessionsSection } from "./sessions.tsx";
import { TokensSection } from "./tokens.tsx";
import { ToolsSection } from "./tools.tsx";

export default function ProfilePage() {
  const t = useText("profile");
  const { email, role, provider, has_second_factor: hasSecondFactor } = useUser();
  return (
    <Page>
      <PageHeader title={t.title} about={t.about} />
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
