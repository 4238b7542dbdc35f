/** A change asked for through the API, as the audit keeps it. */

import type { AuditActor, AuditEntry } from "../../store/change-log/change-log.ts";
import type { Actor } from "../http/route.ts";

export function auditActor({ userId, email }: Pick<Actor, "userId" | "email">): AuditActor {
  return { kind: "user", id: userId, name: email };
}

export function auditOf(
  { actor, clientAddress }: { actor: Pick<Actor, "userId" | "email">; clientAddress: string },
  entry: Pick<AuditEntry, "atMs" | "action" | "target" | "changes">,
): AuditEntry {
  return { ...entry, actor: auditActor(actor), address: clientAddress };
}
