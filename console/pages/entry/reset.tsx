/** Sets a new password by a one-time link. */

import { useState } from "react";
import type { ResponseBody } from "../../api.ts";
import { useChange } from "../../data.ts";
import { useFormat, useText } from "../../text/text.tsx";
import { LinkButton } from "../../ui/button.tsx";
import { CheckboxField, MultiSelect, TextField } from "../../ui/field.tsx";
import { type FormState, useForm } from "../../ui/form.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Badge, Time, useNow } from "../../ui/values.tsx";
import { useBrowserName } from "../profile/sessions.tsx";
import { Entry, NewPasswordField, SafeForm, WithLink } from "./frame.tsx";

type Access = NonNullable<ResponseBody<"links.read">["access"]>;
type Done = ResponseBody<"password.reset">;

const TICK_MS = 60_000;

export default function ResetPage() {
  const t = useText("entry");
  const [done, setDone] = useState<Done | null>(null);
  if (done !== null) {
    return (
      <Entry title={t.reset.done.title}>
        <Notice tone="good" isUrgent>
          {t.reset.done.text}
          {done.revoked_keys > 0 && ` ${t.reset.done.keys(done.revoked_keys)}`}
        </Notice>
        <LinkButton to="/sign-in" tone="primary">
          {t.signIn.submit}
        </LinkButton>
      </Entry>
    );
  }
  return (
    <WithLink purpose="reset" title={t.reset.title}>
      {({ email, access }, token) => <Reset email={email} token={token} access={access} onDone={setDone} />}
    </WithLink>
  );
}

interface ResetValues {
  password: string;
  revokesAll: boolean;
  keys: readonly string[];
  code: string;
}

interface ResetProps {
  email: string;
  token: string;
  access: Access | null;
  onDone(done: Done): void;
}

function Reset({ email, token, access, onDone }: ResetProps) {
  const t = useText("entry");
  const reset = useChange("password.reset", {});
  const empty: ResetValues = { password: "", revokesAll: false, keys: [], code: "" };
  const form = useForm(empty, async ({ password, revokesAll, keys, code }) => {
    const revoked = revokesAll ? "all" : [...keys];
    // Keys that were created after the list was read are not on it. With a second factor, revoking them needs a code.
    const endsLater = access !== null && (!access.needs_code || code !== "");
    const body = {
      token,
      password,
      revoke_keys: revoked,
      ...(endsLater ? { revoke_keys_since: access.at } : {}),
      ...(code === "" ? {} : { code }),
    } as const;
    onDone(await reset.mutateAsync({ body }));
  });
  return (
    <Entry title={t.reset.title} about={t.reset.about(email)}>
      {access !== null && access.second_factor_since !== null && (
        <Notice tone="info">
          {t.reset.access.secondFactor} <Time at={access.second_factor_since} exact />
        </Notice>
      )}
      <SafeForm form={form} submit={t.reset.submit}>
        <NewPasswordField {...form.bind("password")} label={t.password} />
        {access !== null && access.keys_total > 0 && <Keys access={access} form={form} />}
        {access !== null && <Ending access={access} />}
      </SafeForm>
    </Entry>
  );
}

function Keys({ access, form }: { access: Access; form: FormState<ResetValues> }) {
  const t = useText("entry").reset.access;
  const code = useText("profile").secondFactor.code;
  const format = useFormat();
  const nowMs = useNow(TICK_MS);
  const { revokesAll, keys } = form.values;
  const choices = access.keys.map((key) => ({
    value: key.id,
    label: `${key.name} (…${key.last4})`,
    hint: [
      ...(key.is_new ? [t.isNew] : []),
      t.created(format.relative(key.created_at, nowMs)),
      ...(key.rotated_at === null ? [] : [t.rotated(format.relative(key.rotated_at, nowMs))]),
      key.used_at === null ? t.neverUsed : t.used(format.relative(key.used_at, nowMs)),
    ].join(" · "),
  }));
  return (
    <>
      {!revokesAll && (
        <MultiSelect
          {...form.bind("keys", "revoke_keys")}
          label={t.keys}
          hint={access.since === null ? t.neverConfirmed : t.confirmed(format.dateTime(access.since))}
          optional
          choices={choices}
        />
      )}
      {access.keys_total > 1 && (
        <CheckboxField {...form.bind("revokesAll")} label={t.allKeys(access.keys_total)} />
      )}
      {access.needs_code && (revokesAll || keys.length > 0) && (
        <TextField {...form.bind("code")} label={code} autoComplete="one-time-code" maxLength={40} isMono />
      )}
    </>
  );
}

/** What ends in any case, listed so that the owner can review it. */
function Ending({ access: { sessions, tokens } }: { access: Access }) {
  const t = useText("entry").reset.access;
  const format = useFormat();
  const browserName = useBrowserName();
  if (sessions.length + tokens.length === 0) return null;
  const ending = [
    ...(sessions.length === 0 ? [] : [t.sessions(sessions.length)]),
    ...(tokens.length === 0 ? [] : [t.tokens(tokens.length)]),
  ];
  return (
    <details className="details">
      <summary>{t.ending(format.list(ending))}</summary>
      <ul className="stack small">
        {sessions.map((session) => (
          <li key={`${session.created_at} ${session.address} ${session.user_agent}`} className="breakable">
            {browserName(session)}, {session.address}, <Time at={session.created_at} />{" "}
            {session.is_new && <Badge tone="warn">{t.isNew}</Badge>}
          </li>
        ))}
        {tokens.map((token) => (
          <li key={`${token.created_at} ${token.last4}`} className="breakable">
            {t.token(token.name)} <code>gwp_…{token.last4}</code>, <Time at={token.created_at} />{" "}
            {token.is_new && <Badge tone="warn">{t.isNew}</Badge>}
          </li>
        ))}
      </ul>
    </details>
  );
}
