/** Authentication before a sensitive change, so that an open browser alone does not permit it. */

import { useChange } from "../../data.ts";
import { type SessionUser, useUser } from "../../session.tsx";
import { useText } from "../../text/text.tsx";
import { Button } from "../../ui/button.tsx";
import { SecretField, TextField } from "../../ui/field.tsx";
import type { FormState } from "../../ui/form.tsx";
import { ProblemNotice } from "../../ui/notice.tsx";

export interface Proof {
  password: string;
  code: string;
}

/** The password, or a code if there is no password; nothing if there is neither. */
export function ProofField<Values extends Proof>({ form }: { form: Pick<FormState<Values>, "bind"> }) {
  const t = useText("profile").secondFactor;
  const { has_password: hasPassword, has_second_factor: hasSecondFactor } = useUser();
  if (hasPassword) {
    return <SecretField {...form.bind("password")} label={t.password} autoComplete="current-password" />;
  }
  if (!hasSecondFactor) return null;
  return (
    <TextField {...form.bind("code")} label={t.code} autoComplete="one-time-code" maxLength={40} isMono />
  );
}

/**
 * Both, for a change after which the password alone would be enough. People of a provider sign in there again instead.
 */
export function ProofFields<Values extends Proof>({ form }: { form: Pick<FormState<Values>, "bind"> }) {
  const t = useText("profile").secondFactor;
  const { provider, has_password: hasPassword } = useUser();
  if (provider !== null) return <ConfirmAtProvider provider={provider} />;
  return (
    <>
      {hasPassword && (
        <SecretField {...form.bind("password")} label={t.password} autoComplete="current-password" />
      )}
      <TextField {...form.bind("code")} label={t.code} autoComplete="one-time-code" maxLength={40} isMono />
    </>
  );
}

function ConfirmAtProvider({ provider }: { provider: string }) {
  const t = useText("profile").provider;
  const start = useChange("sign_in.start", { onDone: ({ url }) => location.assign(url) });
  const body = { provider, next: "/profile", purpose: "confirm" } as const;
  return (
    <div className="stack">
      <p>{t.confirmation(provider)}</p>
      <Button icon="link" isBusy={start.isPending || start.isSuccess} onClick={() => start.mutate({ body })}>
        {t.signInAgain(provider)}
      </Button>
      {start.error !== null && <ProblemNotice error={start.error} />}
    </div>
  );
}

export function bothProofs(user: SessionUser, { password, code }: Proof): Partial<Proof> {
  if (user.provider !== null) return {};
  return user.has_password ? { password, code } : { code };
}

export function buildProof(user: SessionUser, { password, code }: Proof): Partial<Proof> {
  if (user.has_password) return { password };
  return user.has_second_factor ? { code } : {};
}
