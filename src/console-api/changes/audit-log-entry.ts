/** Builds the audit log entry of a change through the console API. */

import type { ChangeActor, ChangeEntry } from "../../store/audit-log/audit-log.ts";
import type { Actor, ServiceActor } from "../http/route.ts";

type Author = Pick<Actor, "userId" | "email"> | ServiceActor;

export function auditLogActor(author: Author): ChangeActor {
  if ("account" in author) return { kind: "service", id: author.account.id, name: author.account.name };
  return { kind: "user", id: author.userId, name: author.email };
}

export function buildChangeEntry(
  { actor, clientAddress }: { actor: Author; clientAddress: string },
  entry: Pick<ChangeEntry, "atMs" | "action" | "target" | "changes">,
): ChangeEntry {
  return { ...entry, actor: auditLogActor(actor), address: clientAddress };
}
