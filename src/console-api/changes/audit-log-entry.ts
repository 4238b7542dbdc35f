/** Records a change through the console API in the audit log. */

import type { ChangeAuthor } from "../../config/plan/apply.ts";
import { appendChange, type ChangeActor, type ChangeEntry } from "../../store/audit-log/audit-log.ts";
import type { Db } from "../../store/engine/db.ts";
import type { Actor, ServiceActor } from "../http/route.ts";

type Author = Pick<Actor, "userId" | "email"> | ServiceActor;

/** The caller of a route, as the audit log names it. */
export interface RouteCaller {
  readonly actor: Author;
  readonly clientAddress: string;
}

export function auditLogActor(author: Author): ChangeActor {
  if ("account" in author) return { kind: "service", id: author.account.id, name: author.account.name };
  return { kind: "user", id: author.userId, name: author.email };
}

export function changeAuthor({ actor, clientAddress }: RouteCaller): ChangeAuthor {
  return { actor: auditLogActor(actor), address: clientAddress };
}

/** Last in a transaction: it locks the end of the audit log. */
export function recordChange(
  tx: Db,
  caller: RouteCaller,
  entry: Pick<ChangeEntry, "atMs" | "action" | "target" | "changes">,
): Promise<void> {
  return appendChange(tx, { ...entry, ...changeAuthor(caller) });
}
