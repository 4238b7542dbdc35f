/**
 * The audit log: a hash-chained list of all changes. The hash of each row covers the row and the previous hash, so
 * a row that is changed, removed or inserted breaks every later hash. Append as the last step of a transaction:
 * appending locks the end of the chain until the commit.
 */

import { createHash } from "node:crypto";
import { z } from "zod";
import { nextTurn } from "../../base/next-turn.ts";
import type { FieldChange } from "../../records/policy.ts";
import { type Db, placeholder, type Row, type SqlValue, transaction } from "../engine/db.ts";
import { enumText, integer, json, text, textOrNull } from "../engine/row.ts";
import { contains, likeText } from "../engine/search.ts";

export const CHANGE_ACTOR_KINDS = ["user", "service", "cli", "file", "system"] as const;

/**
 * The kinds that the column has. Nodes of the version before service accounts reject another value, so a service account
 * is stored as `system` with an id, which no other actor of that kind has.
 */
const STORED_KINDS = ["user", "cli", "file", "system"] as const;

export interface ChangeActor {
  kind: (typeof CHANGE_ACTOR_KINDS)[number];
  /** The id of the user or service account; null for every other kind of actor. */
  id: string | null;
  /** The user's e-mail address, the service account's name, the operator's login name on the machine, or the file name. */
  name: string;
}

export interface ChangeEntry {
  atMs: number;
  actor: ChangeActor;
  /** The kind of object and the operation: `group.change`, `session.revoke`. */
  action: string;
  /** `group default`, `user ada@example.com` */
  target: string;
  /** Fields before and after the change. Never contains a secret. */
  changes: readonly FieldChange[];
  /** The network address that the change was requested from. */
  address: string | null;
}

export interface ChangeRow extends ChangeEntry {
  seq: number;
  hash: string;
}

const changesSchema = z.array(
  z.object({ field: z.string(), from: z.string().nullable(), to: z.string().nullable() }),
);

export async function appendChange(db: Db, entry: ChangeEntry): Promise<void> {
  await transaction(db, async (tx) => {
    const [head] = await tx.sql`UPDATE audit_head SET seq = seq + 1 WHERE id = 1 RETURNING seq, hash`;
    if (head === undefined) throw new Error("The head of the audit log is missing from the database.");
    const seq = integer(head, "seq");
    const changes = JSON.stringify(entry.changes.map(({ field, from, to }) => ({ field, from, to })));
    const hash = computeHash(text(head, "hash"), seq, entry, changes);
    const { atMs, actor, action, target, address } = entry;
    await tx.sql`
      INSERT INTO audit (seq, at_ms, actor_kind, actor_id, actor_name, action, target, changes, address, hash)
      VALUES (${seq}, ${atMs}, ${storedKind(actor)}, ${actor.id}, ${actor.name}, ${action}, ${target}, ${changes},
        ${address}, ${hash})`;
    await tx.sql`UPDATE audit_head SET hash = ${hash} WHERE id = 1`;
  });
}

/** JSON delimits the fields, so two different rows never hash the same text. */
function computeHash(previousHash: string, seq: number, entry: ChangeEntry, changes: string): string {
  const { atMs, actor, action, target, address } = entry;
  const row = [
    previousHash,
    seq,
    atMs,
    storedKind(actor),
    actor.id,
    actor.name,
    action,
    target,
    changes,
    address,
  ];
  return createHash("sha256").update(JSON.stringify(row)).digest("hex");
}

function storedKind({ kind }: ChangeActor): (typeof STORED_KINDS)[number] {
  return kind === "service" ? "system" : kind;
}

function readKind(row: Row): ChangeActor["kind"] {
  const stored = enumText(row, "actor_kind", STORED_KINDS);
  return stored === "system" && textOrNull(row, "actor_id") !== null ? "service" : stored;
}

export interface ChangeFilter {
  actorId?: string;
  /** An exact action, or a prefix that ends with a dot: `group.` matches all actions on groups. */
  action?: string;
  target?: string;
  /** Matches the actor's name, the action or the target. */
  search?: string;
  fromMs?: number;
  /** Exclusive. */
  toMs?: number;
}

/** Rows that one statement searches: SQLite runs on the event loop, and few filters have an index. */
const SEARCHED_ROWS_MAX = 10_000;

/** Lists changes, newest first. `next` is the `after` value of the following page. */
export async function listChanges(
  db: Db,
  filter: ChangeFilter,
  { after, limit }: { after: number | null; limit: number },
): Promise<{ rows: ChangeRow[]; next: number | null }> {
  const found: Row[] = [];
  let before = after ?? (await readLastSeq(db)) + 1;
  while (before > 0) {
    const from = Math.max(0, before - SEARCHED_ROWS_MAX);
    found.push(...(await selectChanges(db, filter, { from, before, limit: limit + 1 - found.length })));
    if (found.length > limit) break;
    before = from;
    await nextTurn();
  }
  const rows = found.slice(0, limit).map(toChangeRow);
  return { rows, next: found.length > limit ? (rows.at(-1)?.seq ?? null) : null };
}

async function readLastSeq(db: Db): Promise<number> {
  const [row] = await db.sql`SELECT COALESCE(MAX(seq), 0) AS seq FROM audit`;
  return row === undefined ? 0 : integer(row, "seq");
}

/** The newest matching rows with `from <= seq < before`. */
function selectChanges(
  db: Db,
  filter: ChangeFilter,
  { from, before, limit }: { from: number; before: number; limit: number },
): Promise<Row[]> {
  const conditions: string[] = [];
  const values: SqlValue[] = [];
  const where = (condition: string, ...params: SqlValue[]) => {
    conditions.push(
      condition.replaceAll("?", () => placeholder(db.engine, values.push(params.shift() ?? null))),
    );
  };
  if (filter.actorId !== undefined) where("actor_id = ?", filter.actorId);
  if (filter.action !== undefined) {
    if (filter.action.endsWith(".")) where("action LIKE ? ESCAPE '!'", `${likeText(filter.action)}%`);
    else where("action = ?", filter.action);
  }
  if (filter.target !== undefined) where("target = ?", filter.target);
  if (filter.search !== undefined) {
    const searchText = filter.search;
    const mark = (value: SqlValue) => placeholder(db.engine, values.push(value));
    const columns = ["actor_name", "action", "target"].map((column) => contains(column, searchText, mark));
    conditions.push(`(${columns.join(" OR ")})`);
  }
  if (filter.fromMs !== undefined) where("at_ms >= ?", filter.fromMs);
  if (filter.toMs !== undefined) where("at_ms < ?", filter.toMs);
  where("seq >= ?", from);
  where("seq < ?", before);
  const text = `${SELECT} WHERE ${conditions.join(" AND ")} ORDER BY seq DESC LIMIT ${limit}`;
  return db.sql.text(text, values);
}

export interface AuditLogVerification {
  rows: number;
  /** Hash of the last row; empty for an empty log. A copy elsewhere proves that nothing changed. */
  head: string;
  broken: AuditLogBreak[];
}

export interface AuditLogBreak {
  seq: number;
  /** `changed`: does not match its hash. `missing`: earlier rows are gone. `cut`: the last are gone. */
  kind: "changed" | "missing" | "cut";
}

const VERIFY_PAGE_ROWS = 500;

/**
 * Recomputes the chain up to its end at the time of the call. It reads page by page instead of in one snapshot: rows
 * are only ever appended, and on SQLite a long read transaction would block other work. Reports at most `breaksMax`
 * breaks.
 */
export async function verifyAuditLog(db: Db, breaksMax = 20): Promise<AuditLogVerification> {
  const broken: AuditLogBreak[] = [];
  const reportBreak = (seq: number, kind: AuditLogBreak["kind"]) => {
    if (broken.length < breaksMax) broken.push({ seq, kind });
  };
  const [head] = await db.sql`SELECT seq, hash FROM audit_head WHERE id = 1`;
  const end =
    head === undefined ? { seq: 0, hash: null } : { seq: integer(head, "seq"), hash: text(head, "hash") };
  let previous = { seq: 0, hash: "" };
  let rows = 0;
  for (;;) {
    const found = await db.sql`
      SELECT seq, at_ms, actor_kind, actor_id, actor_name, action, target, changes, address, hash FROM audit
      WHERE seq > ${previous.seq} AND seq <= ${end.seq} ORDER BY seq LIMIT ${VERIFY_PAGE_ROWS}`;
    for (const row of found) {
      const entry = toChangeRow(row);
      if (entry.seq !== previous.seq + 1) reportBreak(entry.seq, "missing");
      else if (computeHash(previous.hash, entry.seq, entry, text(row, "changes")) !== entry.hash)
        reportBreak(entry.seq, "changed");
      previous = entry;
      rows += 1;
    }
    if (found.length < VERIFY_PAGE_ROWS) break;
    await nextTurn();
  }
  if (end.seq !== previous.seq || end.hash !== previous.hash) reportBreak(previous.seq, "cut");
  return { rows, head: previous.hash, broken };
}

const SELECT =
  "SELECT seq, at_ms, actor_kind, actor_id, actor_name, action, target, changes, address, hash FROM audit";

function toChangeRow(row: Row): ChangeRow {
  return {
    seq: integer(row, "seq"),
    atMs: integer(row, "at_ms"),
    actor: {
      kind: readKind(row),
      id: textOrNull(row, "actor_id"),
      name: text(row, "actor_name"),
    },
    action: text(row, "action"),
    target: text(row, "target"),
    changes: json(row, "changes", changesSchema),
    address: textOrNull(row, "address"),
    hash: text(row, "hash"),
  };
}
