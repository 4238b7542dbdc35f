/** The signed-in user, loaded before any page is drawn. */

import { useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext } from "react";
import type { ResponseBody } from "./api.ts";
import { useApi } from "./data.ts";

export type Session = ResponseBody<"session.current">;
export type SessionUser = NonNullable<Session["user"]>;

const SessionContext = createContext<Session | null>(null);

/** Renders `children` once the session is known. Nothing is drawn before, because it takes only a moment. */
export function SessionProvider({
  children,
  failed,
}: {
  children: ReactNode;
  failed: (retry: () => void) => ReactNode;
}) {
  const { data, error, refetch } = useApi("session.current");
  if (data !== undefined) return <SessionContext value={data}>{children}</SessionContext>;
  return error === null ? null : failed(() => void refetch());
}

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === null) throw new Error("There is no session around this component.");
  return session;
}

/** Where clients reach the gateway, without a slash at its end. */
export function useGatewayOrigin(): string {
  return useSession().public_url ?? location.origin;
}

/** For pages that require a signed-in user. */
export function useUser(): SessionUser {
  const { user } = useSession();
  if (user === null) throw new Error("This page requires a signed-in user.");
  return user;
}

/** After signing in or out: data that was fetched for another user must not be shown. */
export function useFreshSession(): () => Promise<void> {
  const client = useQueryClient();
  return async () => {
    client.removeQueries({ predicate: ({ queryKey: [name] }) => name !== "session.current" });
    await client.refetchQueries({ queryKey: ["session.current"] });
  };
}
