/** Routes for the audit log: list, export and verify its entries. */

import { z } from "zod";
import type { Installation } from "../../config/installation/installation.ts";
import { logFault } from "../../observe/log.ts";
import {
  CHANGE_ACTOR_KINDS,
  type ChangeFilter,
  type ChangeRow,
  listChanges,
  verifyAuditLog,
} from "../../store/audit-log/audit-log.ts";
import type { Db } from "../../store/engine/db.ts";
import { instantQuery } from "../forms/fields.ts";
import { buildPage, cursorText, pageQuery, readCursor, searchQuery } from "../http/page.ts";
import { forAuditors } from "../http/route.ts";
import { streamedFile } from "../http/streamed-file.ts";
import { AuditLogVerifier } from "./audit-log-verifier.ts";

const entryResponse = z.object({
  seq: z.number(),
  at: z.number(),
  actor_kind: z.enum(CHANGE_ACTOR_KINDS),
  actor_id: z.string().nullable(),
  actor: z.string(),
  action: z.string(),
  target: z.string(),
  changes: z.array(z.object({ field: z.string(), from: z.string().nullable(), to: z.string().nullable() })),
  address: z.string().nullable(),
  hash: z.string(),
});

const filterQuery = {
  ...searchQuery,
  /** A user id. */
  actor: z.string().max(100).optional(),
  /** An action, or a prefix that ends with a dot for all actions of one kind: `group.` */
  action: z.string().max(100).optional(),
  target: z.string().max(300).optional(),
  from: instantQuery.optional(),
  /** Exclusive. */
  to: instantQuery.optional(),
};

export const adminAuditLogRoutes = {
  "admin.audit.list": forAuditors({
    method: "GET",
    path: "/api/admin/audit",
    summary: "List audit log entries, newest first",
    query: z.strictObject({ ...pageQuery, ...filterQuery }),
    response: buildPage(entryResponse),
    async run({ installation: { db } }, { query: { after, limit, ...filter } }) {
      const cursor = readCursor(after, z.tuple([z.number()]));
      const { rows, next } = await listChanges(db, buildFilter(filter), {
        after: cursor?.[0] ?? null,
        limit,
      });
      return { data: rows.map(entryObject), next: next === null ? null : cursorText([next]) };
    },
  }),

  "admin.audit.verify": forAuditors({
    method: "GET",
    path: "/api/admin/audit/verify",
    summary:
      "Verify the hash chain over all entries, one verification at a time; without `fresh`, a result of the last minute may be returned",
    query: z.strictObject({ fresh: z.stringbool().default(false) }),
    response: z.object({
      checked_at: z.number(),
      entries: z.number(),
      /** The hash of the last entry. Stored elsewhere, it proves later that no earlier entry was changed. */
      head: z.string(),
      broken: z.array(z.object({ seq: z.number(), kind: z.enum(["changed", "missing", "cut"]) })),
    }),
    async run({ installation }, { query }) {
      const verifier = findVerifier(installation);
      const { atMs, rows, head, broken } = await (query.fresh ? verifier.verify() : verifier.readRecent());
      return { checked_at: atMs, entries: rows, head, broken };
    },
  }),

  "admin.audit.export": forAuditors({
    method: "GET",
    path: "/api/admin/audit/export",
    summary: "Export audit log entries, one JSON object per line, newest first",
    query: z.strictObject(filterQuery),
    media: "application/x-ndjson",
    response: z.string(),
    async run({ installation: { db }, gateway }, { query, requestId }) {
      const onFault = (thrown: unknown) => logFault(gateway.log, { request_id: requestId }, thrown);
      return new Response(await streamedFile(formatLines(db, buildFilter(query)), onFault), {
        headers: {
          "content-type": "application/x-ndjson",
          "content-disposition": 'attachment; filename="audit.ndjson"',
        },
      });
    },
  }),
};

/** By database: tests open several installations in one process. */
const verifiers = new WeakMap<Db, AuditLogVerifier>();

function findVerifier({ db, clock }: Pick<Installation, "db" | "clock">): AuditLogVerifier {
  const found = verifiers.get(db);
  if (found !== undefined) return found;
  const created = new AuditLogVerifier({ verify: () => verifyAuditLog(db), nowMs: clock.nowMs });
  verifiers.set(db, created);
  return created;
}

type AuditLogQuery = z.output<z.ZodObject<typeof filterQuery>>;

function buildFilter({ search, actor, action, target, from, to }: AuditLogQuery): ChangeFilter {
  return {
    ...(search && { search }),
    ...(actor && { actorId: actor }),
    ...(action && { action }),
    ...(target && { target }),
    ...(from !== undefined && { fromMs: from }),
    ...(to !== undefined && { toMs: to }),
  };
}

const ROWS_PER_PAGE = 500;

async function* formatLines(db: Db, filter: ChangeFilter): AsyncGenerator<string, void> {
  let after: number | null = null;
  do {
    const { rows, next } = await listChanges(db, filter, { after, limit: ROWS_PER_PAGE });
    yield rows.map((row) => `${JSON.stringify(entryObject(row))}\n`).join("");
    after = next;
  } while (after !== null);
}

function entryObject(row: ChangeRow): z.input<typeof entryResponse> {
  return {
    seq: row.seq,
    at: row.atMs,
    actor_kind: row.actor.kind,
    actor_id: row.actor.id,
    actor: row.actor.name,
    action: row.action,
    target: row.target,
    changes: row.changes.map(({ field, from, to }) => ({ field, from, to })),
    address: row.address,
    hash: row.hash,
  };
}
