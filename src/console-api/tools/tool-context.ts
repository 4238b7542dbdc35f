/** What the sign-in of tools uses, and who may use it. */

import { ApiError } from "../../errors.ts";
import type { PolicyGroup } from "../../policy/snapshot.ts";
import type { ToolSignInPolicy } from "../../policy/tool-sign-in.ts";
import type { UserRecord } from "../../records/user.ts";
import type { ConsoleContext } from "../context.ts";
import { isLoopback } from "../http/origin.ts";
import { filterUsableGroups } from "../keys/usable-groups.ts";

export type ToolContext = Pick<
  ConsoleContext,
  "installation" | "gateway" | "publicUrl" | "identity" | "alerts"
>;

/** Throws where tools may not sign in, or could not. */
export function requireToolSignIn({ gateway, publicUrl }: Pick<ToolContext, "gateway" | "publicUrl">) {
  const policy = gateway.policy.snapshot().toolSignIn;
  if (policy === null)
    throw new ApiError(
      "not_found",
      "Sign-in of tools is off. An administrator sets tool_sign_in in gateway.yaml.",
    );
  const { protocol, hostname } = new URL(publicUrl);
  if (protocol !== "https:" && !isLoopback(hostname))
    throw new ApiError(
      "conflict",
      "Sign-in of tools needs an https address. An administrator sets it as server.public_url (PUBLIC_URL).",
    );
  return policy;
}

/** The groups that a person may choose for a tool, the preferred one first. */
export function listOfferedGroups(
  { gateway }: Pick<ToolContext, "gateway">,
  { groupIds }: ToolSignInPolicy,
  user: UserRecord,
): PolicyGroup[] {
  const usable = filterUsableGroups(gateway.policy.snapshot(), user);
  if (groupIds === null) return usable;
  return groupIds.flatMap((id) => usable.find((group) => group.id === id) ?? []);
}
