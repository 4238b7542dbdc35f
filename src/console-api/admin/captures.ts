/** Captured requests, for administrators. Reading one is a POST: it is recorded in the audit log first. */

import { z } from "zod";
import { captureDocument } from "../../capture/document.ts";
import { openCapture } from "../../capture/sealed-content.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { ApiError } from "../../errors.ts";
import { CAPTURE_MODES } from "../../records/capture.ts";
import {
  type CaptureSummary,
  deleteCaptures,
  findCapture,
  listCaptures,
  readCaptureTotal,
} from "../../store/captures/captures.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { lookUpNames } from "../../store/reports/names.ts";
import { USAGE_OUTCOMES } from "../../store/usage/usage-row.ts";
import { type RouteCaller, recordChange } from "../changes/audit-log-entry.ts";
import type { StoreContext } from "../context.ts";
import { buildPage, cursorText, pageQuery, readCursor } from "../http/page.ts";
import { forAdmins } from "../http/route.ts";
import { captureOrder, readKeyOrder, setKeyOrder } from "../keys/key-capture.ts";

const captureResponse = z.object({
  request_id: z.string(),
  /** When the request ended. */
  at: z.number(),
  key: z.object({ id: z.string(), name: z.string().nullable() }),
  user: z.string().nullable(),
  group: z.string().nullable(),
  endpoint: z.string(),
  model: z.string(),
  status: z.number(),
  outcome: z.enum(USAGE_OUTCOMES),
  /** The size in the database. */
  bytes: z.number(),
});

const idText = z.string().max(200);
const filterQuery = {
  key: idText.optional(),
  user: idText.optional(),
  group: idText.optional(),
};
const captureCursor = z.tuple([z.number(), z.string()]);
const byId = { params: z.strictObject({ id: idText }) };

export const adminCaptureRoutes = {
  "admin.captures.list": forAdmins({
    method: "GET",
    path: "/api/admin/captures",
    summary: "List captured requests, newest first, without their content",
    query: z.strictObject({ ...pageQuery, ...filterQuery }),
    response: buildPage(captureResponse),
    async run({ installation: { db }, gateway }, { query }) {
      await gateway.captures.flush();
      const cursor = readCursor(query.after, captureCursor);
      const { captures, next } = await listCaptures(db, buildFilter(query), {
        after: cursor === null ? null : { atMs: cursor[0], requestId: cursor[1] },
        limit: query.limit,
      });
      return {
        data: await captureObjects(db, captures),
        next: next === null ? null : cursorText([next.atMs, next.requestId]),
      };
    },
  }),

  "admin.captures.storage": forAdmins({
    method: "GET",
    path: "/api/admin/capture-storage",
    summary: "Get the number and size of all captures, their budget and their retention",
    response: z.object({
      captures: z.number(),
      bytes: z.number(),
      budget_bytes: z.number(),
      kept_ms: z.number(),
    }),
    async run({ installation: { db }, gateway }) {
      await gateway.captures.flush();
      const { captures, bytes } = await readCaptureTotal(db);
      const { budgetBytes, keptMs } = gateway.captures.settings;
      return { captures, bytes, budget_bytes: budgetBytes, kept_ms: keptMs };
    },
  }),

  "admin.captures.read": forAdmins({
    ...byId,
    method: "POST",
    path: "/api/admin/captures/:id/read",
    summary: "Read a captured request by its request id. The access is recorded in the audit log.",
    body: z.strictObject({
      /** Why the capture is read, for the audit log. */
      reason: z.string().trim().max(200).optional(),
    }),
    response: captureResponse.extend({ document: captureDocument }),
    async run(context, input) {
      const { db, keyring, clock } = context.installation;
      await context.gateway.captures.flush();
      const capture = await findCapture(db, input.params.id);
      if (capture === null) throw noCapture();
      const { reason = "" } = input.body;
      const changes = reason === "" ? [] : [{ field: "reason", from: null, to: reason }];
      const target = `capture ${capture.requestId}`;
      // First: what cannot be recorded is not shown.
      await recordChange(db, input, { atMs: clock.nowMs(), action: "capture.read", target, changes });
      const [summary] = await captureObjects(db, [capture]);
      if (summary === undefined) throw noCapture();
      return { ...summary, document: await openCapture(keyring, capture) };
    },
  }),

  "admin.captures.delete": forAdmins({
    ...byId,
    method: "DELETE",
    path: "/api/admin/captures/:id",
    summary: "Delete a captured request",
    response: z.object({ deleted: z.number() }),
    async run(context, input) {
      const { id } = input.params;
      const deleted = await deleteLogged(context, input, { requestId: id }, `capture ${id}`);
      if (deleted === 0) throw noCapture();
      return { deleted };
    },
  }),

  "admin.captures.clear": forAdmins({
    method: "DELETE",
    path: "/api/admin/captures",
    summary: "Delete the captured requests of a key, a user or a group; all of them without a filter",
    query: z.strictObject(filterQuery),
    response: z.object({ deleted: z.number() }),
    async run(context, input) {
      await context.gateway.captures.flush();
      const { key, user, group } = input.query;
      const filters = Object.entries({ key, user, group }).filter(([, id]) => id !== undefined);
      const target = filters.length === 0 ? "all" : filters.map(([kind, id]) => `${kind} ${id}`).join(", ");
      const deleted = await deleteLogged(context, input, buildFilter(input.query), `captures of ${target}`);
      return { deleted };
    },
  }),

  "admin.keys.capture": forAdmins({
    ...byId,
    method: "GET",
    path: "/api/admin/keys/:id/capture",
    summary: "Get which requests of a key are captured",
    response: captureOrder,
    run: (context, { actor, params }) => readKeyOrder(context, actor, params.id),
  }),

  "admin.keys.set_capture": forAdmins({
    ...byId,
    method: "PUT",
    path: "/api/admin/keys/:id/capture",
    summary: "Set which requests of a key are captured: by mode, and the next requests by count",
    body: z.strictObject({
      /** Null: the mode of the group applies. */
      mode: z.enum(CAPTURE_MODES).nullable(),
      /** Captures the next requests, whatever the mode. Null cancels a running order; if omitted, it is kept. */
      next: z
        .strictObject({
          requests: z.int().min(1).max(limits.capture.orderMax),
          for_ms: z.int().min(1_000).max(limits.capture.orderMsMax),
        })
        .nullable()
        .optional(),
    }),
    response: captureOrder,
    run: (context, input) => setKeyOrder(context, input, input.params.id, input.body),
  }),
};

function noCapture(): ApiError {
  return new ApiError(
    "not_found",
    "This request was not captured, or its capture was deleted. GET /api/admin/captures lists the captures.",
  );
}

function buildFilter({ key, user, group }: Partial<Record<keyof typeof filterQuery, string | undefined>>) {
  return { keyId: key, userId: user, groupId: group };
}

async function deleteLogged(
  { installation: { db, clock } }: StoreContext,
  caller: RouteCaller,
  filter: Parameters<typeof deleteCaptures>[1],
  target: string,
): Promise<number> {
  return transaction(db, async (tx) => {
    const deleted = await deleteCaptures(tx, filter);
    if (deleted > 0) {
      const changes = [{ field: "captures", from: String(deleted), to: null }];
      await recordChange(tx, caller, { atMs: clock.nowMs(), action: "capture.delete", target, changes });
    }
    return deleted;
  });
}

async function captureObjects(
  db: Db,
  captures: readonly CaptureSummary[],
): Promise<z.input<typeof captureResponse>[]> {
  const lookUp = (kind: "key" | "user" | "group", readId: (capture: CaptureSummary) => string | null) =>
    lookUpNames(db, kind, captures.map(readId));
  const [keys, users, groups] = await Promise.all([
    lookUp("key", ({ keyId }) => keyId),
    lookUp("user", ({ userId }) => userId),
    lookUp("group", ({ groupId }) => groupId),
  ]);
  return captures.map((capture) => ({
    request_id: capture.requestId,
    at: capture.atMs,
    key: { id: capture.keyId, name: keys.get(capture.keyId) ?? null },
    user: capture.userId === null ? null : (users.get(capture.userId) ?? capture.userId),
    group: groups.get(capture.groupId) ?? null,
    endpoint: capture.endpoint,
    model: capture.model,
    status: capture.status,
    outcome: capture.outcome,
    bytes: capture.storedBytes,
  }));
}
