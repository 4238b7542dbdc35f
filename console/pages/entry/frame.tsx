/** Parts that the pages for people who are not signed in share. */

import type { ComponentProps, ReactNode } from "react";
import { Redirect, useLocation, useSearch } from "wouter";
import { ApiProblem, type ResponseBody } from "../../api.ts";
import { useApi } from "../../data.ts";
import { useFreshSession, useSession } from "../../session.tsx";
import { AppearanceMenu } from "../../shell/appearance-menu.tsx";
import { useText } from "../../text/text.tsx";
import { Link } from "../../ui/button.tsx";
import type { FieldBinding } from "../../ui/field.tsx";
import { SecretField } from "../../ui/field.tsx";
import { Form } from "../../ui/form.tsx";
import { Notice, ProblemNotice } from "../../ui/notice.tsx";
import { Bare, Skeleton } from "../../ui/page.tsx";

interface EntryProps {
  title: string;
  about?: string;
  children: ReactNode;
  /** Links to the other pages. */
  links?: ReactNode;
}

export function Entry({ title, about, children, links }: EntryProps) {
  return (
    <Bare title={title} below={<AppearanceMenu />}>
      {about !== undefined && <p>{about}</p>}
      {children}
      {links !== undefined && <div className="stack small">{links}</div>}
    </Bare>
  );
}

/** A form with a password. Without TLS it shows a warning instead: the gateway would reject the password too late. */
export function SafeForm(props: ComponentProps<typeof Form>) {
  const t = useText("entry").insecure;
  if (isSecureContext) return <Form {...props} />;
  return (
    <Notice tone="bad" title={t.title}>
      {t.text(location.origin)}
    </Notice>
  );
}

/** The page that was requested before the sign-in. Always a page of the console. */
export function useRequestedPage(): string {
  const next = new URLSearchParams(useSearch()).get("next");
  return next?.startsWith("/") ? next : "/";
}

/** After the sign-in, the browser goes to the requested page. */
export function useEnter(): () => Promise<void> {
  const [, go] = useLocation();
  const refresh = useFreshSession();
  const wanted = useRequestedPage();
  return async () => {
    await refresh();
    go(wanted, { replace: true });
  };
}

/** A user who is already signed in is redirected to the requested page. */
export function SignedOutOnly({ children }: { children: ReactNode }) {
  const { user } = useSession();
  const wanted = useRequestedPage();
  return user === null ? children : <Redirect to={wanted} replace />;
}

export function NewPasswordField({ label, ...bound }: FieldBinding<string> & { label: string }) {
  const t = useText("entry");
  const { password_chars_min: least } = useSession();
  return <SecretField {...bound} label={label} autoComplete="new-password" hint={t.passwordHint(least)} />;
}

type OneTimeLink = ResponseBody<"links.read">;

interface WithLinkProps {
  purpose: OneTimeLink["purpose"];
  title: string;
  children(link: OneTimeLink, token: string): ReactNode;
}

/** For pages that a one-time link opens. The secret is in the fragment, which no server and no log receives. */
export function WithLink({ purpose, title, children }: WithLinkProps) {
  const token = location.hash.slice(1);
  return token === "" ? <BrokenLink title={title} /> : <ReadLink {...{ purpose, title, children, token }} />;
}

function ReadLink({ purpose, title, children, token }: WithLinkProps & { token: string }) {
  const t = useText("entry");
  const link = useApi("links.read", { body: { token } });
  if (link.data?.purpose === purpose) return children(link.data, token);
  if (link.data === undefined && link.error === null) {
    return (
      <Entry title={title}>
        <Skeleton height={120} />
      </Entry>
    );
  }
  const isGone = link.data !== undefined || (link.error instanceof ApiProblem && link.error.status === 410);
  return (
    <Entry title={title} links={<ToSignIn />}>
      {isGone ? (
        <Notice tone="warn" title={t.broken.worthless} isUrgent>
          {link.error?.message ?? t.broken.text}
        </Notice>
      ) : (
        <ProblemNotice error={link.error} onRetry={() => void link.refetch()} />
      )}
    </Entry>
  );
}

export function BrokenLink({ title }: { title: string }) {
  const { broken: t } = useText("entry");
  return (
    <Entry title={title} links={<ToSignIn />}>
      <Notice tone="warn" title={t.title}>
        {t.text}
      </Notice>
    </Entry>
  );
}

function ToSignIn() {
  const t = useText("entry");
  return <Link to="/sign-in">{t.forgot.back}</Link>;
}
