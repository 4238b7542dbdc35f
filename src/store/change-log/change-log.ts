/**
 * Who changed what, as a chain: the hash of each row covers the row and the hash before it, so that none can be
 * changed, taken out or put in without breaking all that follow. Append last in a transaction: it locks the end of
 * the chain until the commit.
 */

import { createHash } from "node:crypto";
import { z } from "zod";
import type { FieldChange } from "../../records.ts";
import { type Db, placeholder, type Row, type SqlValue, transaction } from "../engine/db.ts";
import { integer, json, oneOf, text, textOrNull } from "../engine/row.ts";
import { contains, likeText } from "../engine/search.ts";

export const AUDIT_ACTORS = ["user", "cli", "file", "system"] as const;

export interface ChangeActor {
  kind: (typeof AUDIT_ACTORS)[number];
  /** The id of a user; null for everybody else. */
  id: string | null;
  /** A user's address, the operator's name on the machine, the name of a file. */
  name: string;
}

export interface ChangeEntry {
  atMs: number;
  actor: ChangeActor;
  /** `group.change`, `session.revoke`: the kind of thing, and what was done to it. */
  action: string;
  /** `group default`, `user ada@example.com` */
  target: string;
  /** Before and after. Never a secret. */
  changes: readonly FieldChange[];
  /** Where it was asked from. */
  address: string | null;
}

export interface ChangeRow extends ChangeEntry {
  seq: number;
  hash: string;
}

const changesForm = z.array(
  z.object({ field: z.string(), from: z.string().nullable(), to: z.string().nullable() }),
);

export async function appendChange(db: Db, entry: ChangeEntry): Promise<void> {
  await transaction(db, async (tx) => {
    const [head] = await tx.sql`UPDATE audit_head SET seq = seq + 1 WHERE id = 1 RETURNING seq, hash`;
    if (head === undefined) throw new Error("The end of the audit's chain is missing from the database.");
    const seq = integer(head, "seq");
    const changes = JSON.stringify(entry.changes.map(({ field, from, to }) => ({ field, from, to })));
    const hash = hashOf(text(head, "hash"), seq, entry, changes);
    const { atMs, actor, action, target, address } = entry;
    await tx.sql`
      INSERT INTO audit (seq, at_ms, actor_kind, actor_id, actor_name, action, target, changes, address, hash)
      VALUES (${seq}, ${atMs}, ${actor.kind}, ${actor.id}, ${actor.name}, ${action}, ${target}, ${changes},
        ${address}, ${hash})`;
    await tx.sql`UPDATE audit_head SET hash = ${hash} WHERE id = 1`;
  });
}

/** JSON keeps the fields apart: no two different rows are the same text. */
function hashOf(before: string, seq: number, entry: ChangeEntry, changes: string): string {
  const { atMs, actor, action, target, address } = entry;
  const row = [before, seq, atMs, actor.kind, actor.id, actor.name, action, target, changes, address];
  return createHash("sha256").update(JSON.stringify(row)).digest("hex");
}

export interface AuditFilter {
  actorId?: string;
  /** An action, or with a dot at its end all of one kind of thing. */
  action?: string;
  target?: string;
  /** Found in the actor's name, the action or the target. */
  search?: string;
  fromMs?: number;
  /** Before it. */
  toMs?: number;
}

/** Newest first. `next` is the `after` of the following page. */
export async function listChanges(
  db: Db,
  filter: AuditFilter,
  page: { after: number | null; limit: number },
): Promise<{ rows: ChangeRow[]; next: number | null }> {
  const conditions: string[] = ["1 = 1"];
  const values: SqlValue[] = [];
  const where = (condition: string, ...given: SqlValue[]) => {
    conditions.push(
      condition.replaceAll("?", () => placeholder(db.engine, values.push(given.shift() ?? null))),
    );
  };
  if (filter.actorId !== undefined) where("actor_id = ?", filter.actorId);
  if (filter.action !== undefined) {
    if (filter.action.endsWith(".")) where("action LIKE ? ESCAPE '!'", `${likeText(filter.action)}%`);
    else where("action = ?", filter.action);
  }
  if (filter.target !== undefined) where("target = ?", filter.target);
  if (filter.search !== undefined) {
    const typed = filter.search;
    const mark = (value: SqlValue) => placeholder(db.engine, values.push(value));
    const columns = ["actor_name", "action", "target"].map((column) => contains(column, typed, mark));
    conditions.push(`(${columns.join(" OR ")})`);
  }
  if (filter.fromMs !== undefined) where("at_ms >= ?", filter.fromMs);
  if (filter.toMs !== undefined) where("at_ms < ?", filter.toMs);
  if (page.after !== null) where("seq < ?", page.after);
  const found = await db.sql.text(
    `${SELECT} WHERE ${conditions.join(" AND ")} ORDER BY seq DESC LIMIT ${page.limit + 1}`,
    values,
  );
  const rows = found.slice(0, page.limit).map(toAuditRow);
  return { rows, next: found.length > page.limit ? (rows.at(-1)?.seq ?? null) : null };
}

export interface AuditChain {
  rows: number;
  /** Of the last row; empty while there is none. Kept elsewhere, it proves later that nothing before it was changed. */
  head: string;
  broken: AuditBreak[];
}

export interface AuditBreak {
  seq: number;
  /** `changed`: the row is not what was hashed; `missing`: rows before it are gone; `cut`: the last ones are. */
  kind: "changed" | "missing" | "cut";
}

const VERIFIED_AT_ONCE = 500;

/**
 * Recomputes the whole chain up to where it ended when this began. Page by page and not as one moment: rows are only
 * ever added, and on SQLite a long look would hold up everybody else. At most `breaksMax` are named.
 */
export async function verifyChangeLog(db: Db, breaksMax = 20): Promise<AuditChain> {
  const broken: AuditBreak[] = [];
  const tell = (seq: number, kind: AuditBreak["kind"]) => {
    if (broken.length < breaksMax) broken.push({ seq, kind });
  };
  const [head] = await db.sql`SELECT seq, hash FROM audit_head WHERE id = 1`;
  const end =
    head === undefined ? { seq: 0, hash: null } : { seq: integer(head, "seq"), hash: text(head, "hash") };
  let before = { seq: 0, hash: "" };
  let rows = 0;
  for (;;) {
    const found = await db.sql`
      SELECT seq, at_ms, actor_kind, actor_id, actor_name, action, target, changes, address, hash FROM audit
      WHERE seq > ${before.seq} AND seq <= ${end.seq} ORDER BY seq LIMIT ${VERIFIED_AT_ONCE}`;
    for (const row of found) {
      const entry = toAuditRow(row);
      if (entry.seq !== before.seq + 1) tell(entry.seq, "missing");
      else if (hashOf(before.hash, entry.seq, entry, text(row, "changes")) !== entry.hash)
        tell(entry.seq, "changed");
      before = entry;
      rows += 1;
    }
    if (found.length < VERIFIED_AT_ONCE) break;
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (end.seq !== before.seq || end.hash !== before.hash) tell(before.seq, "cut");
  return { rows, head: before.hash, broken };
}

const SELECT =
  "SELECT seq, at_ms, actor_kind, actor_id, actor_name, action, target, changes, address, hash FROM audit";

function toAuditRow(row: Row): ChangeRow {
  return {
    seq: integer(row, "seq"),
    atMs: integer(row, "at_ms"),
    actor: {
      kind: oneOf(row, "actor_kind", AUDIT_ACTORS),
      id: textOrNull(row, "actor_id"),
      name: text(row, "actor_name"),
    },
    action: text(row, "action"),
    target: text(row, "target"),
    changes: json(row, "changes", changesForm),
    address: textOrNull(row, "address"),
    hash: text(row, "hash"),
  };
}
