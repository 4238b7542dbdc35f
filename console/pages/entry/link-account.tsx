/** Links an existing account to the person of a provider who has just signed in with its address. */

import { useRef, useState } from "react";
import { useLocation } from "wouter";
import { ApiProblem, type ResponseBody } from "../../api.ts";
import { useApi, useChange } from "../../data.ts";
import { useFreshSession } from "../../session.tsx";
import { useText } from "../../text/text.tsx";
import { Button, Link } from "../../ui/button.tsx";
import { SecretField, TextField } from "../../ui/field.tsx";
import { useForm } from "../../ui/form.tsx";
import { Notice, ProblemNotice } from "../../ui/notice.tsx";
import { Skeleton } from "../../ui/page.tsx";
import { Entry, SafeForm } from "./frame.tsx";

type PendingLink = ResponseBody<"sign_in.link.read">;

/** With a token after the `#`, the page was opened by the mailed link. */
export default function LinkAccountPage() {
  const t = useText("entry");
  const [token] = useState(() => location.hash.slice(1));
  const pending = useApi("sign_in.link.read");
  // The page stays until the next one opens: after the link, the response would be that nothing is pending.
  const shown = useRef<PendingLink>(undefined);
  shown.current ??= pending.data;
  if (shown.current !== undefined) return <LinkAccount pending={shown.current} token={token} />;
  if (pending.error === null) {
    return (
      <Entry title={t.linkAccount.title}>
        <Skeleton height={120} />
      </Entry>
    );
  }
  const isExpired = pending.error instanceof ApiProblem && pending.error.code === "sign_in_expired";
  return (
    <Entry title={t.linkAccount.title} links={<Link to="/sign-in">{t.forgot.back}</Link>}>
      {isExpired ? (
        <Notice tone="warn" title={t.linkAccount.expired.title} isUrgent>
          {t.linkAccount.expired.text}
        </Notice>
      ) : (
        <ProblemNotice error={pending.error} onRetry={() => void pending.refetch()} />
      )}
    </Entry>
  );
}

function LinkAccount({ pending, token }: { pending: PendingLink; token: string }) {
  const t = useText("entry");
  const { provider, email } = pending;
  const [isByMail, setByMail] = useState(token !== "");
  const [isSent, setSent] = useState(false);
  const mail = useChange("sign_in.link.mail", { onDone: () => setSent(true) });
  const links = <Link to="/sign-in">{t.forgot.back}</Link>;
  if (isSent) {
    return (
      <Entry title={t.linkAccount.sent.title} links={links}>
        <Notice tone="good" isUrgent>
          <span className="breakable">{t.linkAccount.sent.text(email)}</span>
        </Notice>
        <Button tone="quiet" onClick={() => setSent(false)}>
          {t.linkAccount.sent.back}
        </Button>
      </Entry>
    );
  }
  if (isByMail) {
    return (
      <Entry title={t.linkAccount.title} about={t.linkAccount.confirm(provider, email)} links={links}>
        <ProofForm token={token} />
        <Button tone="quiet" onClick={() => setByMail(false)}>
          {t.linkAccount.sent.back}
        </Button>
      </Entry>
    );
  }
  return (
    <Entry title={t.linkAccount.title} about={t.linkAccount.about(provider, email)} links={links}>
      <ProofForm token={null} />
      {pending.mail ? (
        <>
          <Button tone="quiet" isBusy={mail.isPending} onClick={() => mail.mutate({})}>
            {t.linkAccount.mail}
          </Button>
          <p className="quiet small">{t.linkAccount.mailHint}</p>
        </>
      ) : (
        <p className="quiet small">{t.linkAccount.noPassword}</p>
      )}
      {mail.error !== null && <ProblemNotice error={mail.error} />}
    </Entry>
  );
}

/** The password or the token first, then the code of the second factor if there is one. */
function ProofForm({ token }: { token: string | null }) {
  const t = useText("entry");
  const [, go] = useLocation();
  const refresh = useFreshSession();
  const [needsCode, setNeedsCode] = useState(false);
  const finish = useChange("sign_in.link.finish", {});
  const form = useForm({ password: "", code: "" }, async ({ password, code }) => {
    const proof = token === null ? { password } : { token };
    try {
      const { next } = await finish.mutateAsync({ body: needsCode ? { ...proof, code } : proof });
      await refresh();
      go(next, { replace: true });
    } catch (error) {
      if (!(error instanceof ApiProblem) || error.code !== "second_factor_required" || needsCode) throw error;
      setNeedsCode(true);
    }
  });
  return (
    <SafeForm form={form} submit={t.linkAccount.submit}>
      {token === null && (
        <SecretField
          {...form.bind("password")}
          label={t.linkAccount.password}
          autoComplete="current-password"
        />
      )}
      {needsCode && (
        <TextField
          {...form.bind("code")}
          label={t.code.label}
          hint={t.code.about}
          autoComplete="one-time-code"
          maxLength={40}
          isMono
          autoFocus
        />
      )}
    </SafeForm>
  );
}
