/** Completes a sign-in: a provider returns the browser to this page, with a code in the address. */

import { useEffect, useRef } from "react";
import { Redirect, useLocation } from "wouter";
import { ApiProblem } from "../../api.ts";
import { useChange } from "../../data.ts";
import { useFreshSession } from "../../session.tsx";
import { useText } from "../../text/text.tsx";
import { Link } from "../../ui/button.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Skeleton } from "../../ui/page.tsx";
import { Entry } from "./frame.tsx";

export default function CallbackPage() {
  const t = useText("entry");
  const [, go] = useLocation();
  const refresh = useFreshSession();
  const finish = useChange("sign_in.finish", {
    onDone: ({ next }) => void refresh().then(() => go(next, { replace: true })),
  });
  const hasBegun = useRef(false);
  useEffect(() => {
    if (hasBegun.current) return;
    hasBegun.current = true;
    const query = location.search;
    // The code works once. It does not belong into the history of the browser.
    history.replaceState(null, "", location.pathname);
    finish.mutate({ body: { query } });
  });
  const isTaken = finish.error instanceof ApiProblem && finish.error.code === "account_exists";
  if (isTaken) return <Redirect to="/sign-in/link" replace />;
  if (finish.error === null) {
    return (
      <Entry title={t.providers.finishing}>
        <Skeleton height={120} />
      </Entry>
    );
  }
  return (
    <Entry title={t.providers.failed} links={<Link to="/sign-in">{t.forgot.back}</Link>}>
      <Notice tone="bad" title={t.providers.notSignedIn} isUrgent>
        {finish.error.message}
      </Notice>
    </Entry>
  );
}
