/** Begins a sign-in at a provider: the browser leaves the console and returns to `callback.tsx`. */

import { useEffect, useRef } from "react";
import { useSearch } from "wouter";
import { useChange } from "../../data.ts";
import { useGatewayOrigin, useSession } from "../../session.tsx";
import { useText } from "../../text/text.tsx";
import { Button } from "../../ui/button.tsx";
import { ProblemNotice } from "../../ui/notice.tsx";
import { useRequestedPage } from "./frame.tsx";

/** One button for each provider. Empty if none is configured. */
export function ProviderButtons() {
  const t = useText("entry").providers;
  const { providers } = useSession();
  const next = useRequestedPage();
  const start = useChange("sign_in.start", { onDone: ({ url }) => location.assign(url) });
  const begin = (provider: string) => start.mutate({ body: { provider, next } });
  useArrival(begin);
  if (providers.length === 0) return null;
  const isLeaving = start.isPending || start.isSuccess;
  return (
    <div className="stack">
      {providers.map((provider) => (
        <Button
          key={provider}
          tone="primary"
          icon="link"
          isBusy={isLeaving && start.variables?.body.provider === provider}
          onClick={() => begin(provider)}
        >
          {t.signIn(provider)}
        </Button>
      ))}
      {start.error !== null && <ProblemNotice error={start.error} />}
    </div>
  );
}

/**
 * Another host of the gateway sends the browser here with the provider in the address, because the cookie of a sign-in
 * belongs to the public address. On any other host this would repeat for ever.
 */
function useArrival(begin: (provider: string) => void): void {
  const provider = new URLSearchParams(useSearch()).get("provider");
  const isPublic = useGatewayOrigin() === location.origin;
  const { providers } = useSession();
  const hasBegun = useRef(false);
  useEffect(() => {
    if (provider === null || !isPublic || !providers.includes(provider) || hasBegun.current) return;
    hasBegun.current = true;
    begin(provider);
  });
}
