/** The profile of a user, for administrators. */

import { useChange } from "../../../data.ts";
import { LimitsFields, limitsBody, limitsValue } from "../../../forms/limits.tsx";
import type { Catalogue } from "../../../text/catalogue.ts";
import { useText } from "../../../text/text.tsx";
import { Form, useForm } from "../../../ui/form.tsx";
import { Card, Facts, Section, Stat, Stats } from "../../../ui/page.tsx";
import { useToast } from "../../../ui/toast.tsx";
import { Money, Time } from "../../../ui/values.tsx";
import { keysLink, usageLink } from "../list-links.ts";
import { CountLink } from "../name-links.tsx";
import { GroupsField } from "./groups-field.tsx";
import type { UserDetail } from "./user-detail.ts";

/** Where role and groups come from, for users who sign in at a provider. */
function listSources({ directory, local_role }: UserDetail, t: Catalogue["adminUsers"]): [string, string][] {
  if (directory === null) return [];
  const { provider, role, groups, deactivated } = directory;
  return [
    [t.sources.signIn, provider],
    [t.sources.local, t.roles[local_role]],
    [t.sources.role(provider), role === null ? t.sources.none : t.roles[role]],
    [t.sources.groups(provider), groups.join(", ") || t.sources.none],
    ...(deactivated ? [[t.sources.status(provider), t.sources.deactivated] as [string, string]] : []),
  ];
}

export function UserOverview({ user }: { user: UserDetail }) {
  const t = useText("adminUsers");
  const kit = useText("kit");
  const showToast = useToast();
  const change = useChange("admin.users.change", { invalidates: ["admin.users.", "admin.groups."] });
  const form = useForm(
    { groups: user.groups as readonly string[], limits: limitsValue(user.limits) },
    async ({ groups, limits }) => {
      const body = { groups: [...groups], limits: limitsBody(limits) };
      const saved = await change.mutateAsync({ params: { id: user.id }, body });
      form.reset({ groups: saved.groups, limits: limitsValue(saved.limits) });
      showToast(t.user.saved);
    },
  );
  return (
    <div className="stack wide">
      <Stats>
        <Stat label={t.balance} value={<Money isLeft value={user.balance} />} />
        <Stat label={t.keys} value={<CountLink to={keysLink({ user: user.id })} value={user.keys} />} />
        <Stat
          label={t.requests}
          value={<CountLink to={usageLink({ user: user.id }, "month")} value={user.requests_30d} />}
        />
        <Stat label={t.spend} value={<Money value={user.cost_30d} />} />
        <Stat label={t.charged} value={<Money value={user.charged_30d} />} />
      </Stats>
      <Card>
        <Facts
          facts={[
            [t.created, <Time key="created" at={user.created_at} exact />],
            [t.signedIn, <Time key="signedIn" at={user.signed_in_at} />],
            [t.password, user.has_password ? t.isSet : t.notSet],
            [t.secondFactor, user.has_second_factor ? t.on : t.off],
            ...listSources(user, t),
          ]}
        />
      </Card>
      <Section title={t.limits}>
        <Form form={form} submit={kit.save}>
          <LimitsFields {...form.bind("limits")} problemAt={form.problemAt} />
          <GroupsField {...form.bind("groups")} />
        </Form>
      </Section>
    </div>
  );
}
