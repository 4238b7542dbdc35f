/** Builds the audit log entry of a change through the console API. */

import type { ChangeActor, ChangeEntry } from "../../store/audit-log/audit-log.ts";
import type { Actor } from "../http/route.ts";

export function auditLogActor({ userId, email }: Pick<Actor, "userId" | "email">): ChangeActor {
  return { kind: "user", id: userId, name: email };
}

export function buildChangeEntry(
  { actor, clientAddress }: { actor: Pick<Actor, "userId" | "email">; clientAddress: string },
  entry: Pick<ChangeEntry, "atMs" | "action" | "target" | "changes">,
): ChangeEntry {
  return { ...entry, actor: auditLogActor(actor), address: clientAddress };
}
