/** Routes for the usage export: records for programs that pull, and the state of the webhooks. */

import { z } from "zod";
import { signBody } from "../../alerts/post-webhook.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { ApiError, paramError } from "../../errors.ts";
import type { Db } from "../../store/engine/db.ts";
import { readUsageExport } from "../../store/settings/usage-export-settings.ts";
import { countEntries, readFeed, type UsageFeed } from "../../store/usage-feed/feed.ts";
import { listTargets } from "../../store/usage-feed/targets.ts";
import { formatCursor, parseCursor } from "../../usage-export/cursor.ts";
import { readBearer } from "../auth/actor.ts";
import { fieldError } from "../http/field-error.ts";
import { forAdmins } from "../http/route.ts";
import { flushUsage } from "../usage/flush-usage.ts";

/** A longer backlog is shown as this number. */
const BACKLOG_COUNTED_MAX = 100_000;

const statusResponse = z.object({
  /** Null: usage is not exported. */
  feed: z
    .object({
      /** Before the oldest record that is kept. */
      first_cursor: z.string(),
    })
    .nullable(),
  webhooks: z.array(
    z.object({
      name: z.string(),
      enabled: z.boolean(),
      /** The webhook has received all records up to this cursor. Null until the first delivery. */
      cursor: z.string().nullable(),
      /** Records that the webhook has not received, counted up to 100,000. */
      backlog: z.number(),
      /** Failed attempts since the last success. */
      failures: z.number(),
      /** The result of the last attempt. */
      response: z.string().nullable(),
      delivered_at: z.number().nullable(),
      /** When a failed batch is sent again. */
      retry_at: z.number().nullable(),
    }),
  ),
});

export const adminUsageExportRoutes = {
  "admin.usage_export.get": forAdmins({
    method: "GET",
    path: "/api/admin/usage-export",
    summary: "Get the state of the usage export, with the position of each webhook",
    response: statusResponse,
    run: ({ installation }) => statusObject(installation.db),
  }),

  "admin.usage_export.records": forAdmins({
    method: "GET",
    path: "/api/admin/usage-export/records",
    summary:
      "Get the requests after a cursor as NDJSON, oldest first. The header x-gateway-cursor is the cursor of the next page, and x-gateway-has-more is true if that page has records now",
    query: z.strictObject({
      /** The `x-gateway-cursor` of the previous page, or the `cursor` of a record. If omitted, the oldest records. */
      after: z.string().max(100).optional(),
      limit: z.coerce.number().int().min(1).max(limits.usageExport.batchRowsMax).default(1_000),
    }),
    tokenScope: "export",
    media: "application/x-ndjson",
    /** One request a line. */
    response: z.string(),
    async run(context, { query, headers }) {
      const { usageExport, installation } = context;
      await flushUsage(context);
      const page = await usageExport.pull(
        (feed, last) => resolveCursor(feed, last, query.after),
        query.limit,
      );
      if (page === null) throw disabledError();
      const { feed, after, batch } = page;
      const token = readBearer(headers);
      return new Response(batch.body, {
        headers: {
          "content-type": "application/x-ndjson",
          "cache-control": "no-store",
          "x-gateway-cursor-before": formatCursor({ feedId: feed.id, feedNo: after }),
          "x-gateway-cursor": formatCursor({ feedId: feed.id, feedNo: batch.to }),
          "x-gateway-rows": String(batch.rowCount),
          "x-gateway-has-more": String(batch.isFull),
          // The caller has the token, so it can check a stored page later.
          ...(token === null
            ? {}
            : { "x-gateway-signature": signBody(token, batch.body, installation.clock.nowMs()) }),
        },
      });
    },
  }),
};

/** The position after which the page begins. */
function resolveCursor(feed: UsageFeed, last: number, after: string | undefined): number {
  if (after === undefined) return feed.removedTo;
  const cursor = parseCursor(after);
  if (cursor === null) throw fieldError("after", "invalid_value", "is not a cursor of the usage feed.");
  if (cursor.feedId !== feed.id || cursor.feedNo < feed.removedTo)
    throw paramError(
      "after",
      "conflict",
      "The records after this cursor are no longer in the feed: the export was disabled meanwhile, or they are too old. Start again without `after`, and fill the gap with the CSV export.",
    );
  if (cursor.feedNo > last)
    throw paramError(
      "after",
      "conflict",
      "The cursor is ahead of the feed, because the database was restored from a backup. Start again without `after`.",
    );
  return cursor.feedNo;
}

function disabledError(): ApiError {
  return new ApiError(
    "conflict",
    "The usage export is disabled. An administrator can enable it under Settings, or in the section usage_export of gateway.yaml.",
  );
}

async function statusObject(db: Db): Promise<z.input<typeof statusResponse>> {
  const { webhooks } = await readUsageExport(db);
  const feed = await readFeed(db);
  if (!feed?.isEnabled) return { feed: null, webhooks: [] };
  const targets = new Map((await listTargets(db)).map((target) => [target.name, target]));
  const objects = webhooks.map(async ({ name, enabled }) => {
    const target = targets.get(name);
    const known = target?.feedId === feed.id ? target : null;
    return {
      name,
      enabled,
      cursor: known === null ? null : formatCursor({ feedId: feed.id, feedNo: known.deliveredTo }),
      backlog: await countEntries(db, known?.deliveredTo ?? feed.removedTo, BACKLOG_COUNTED_MAX),
      failures: known?.failures ?? 0,
      response: known?.response ?? null,
      delivered_at: known?.deliveredAtMs ?? null,
      retry_at: known === null || known.failures === 0 ? null : known.dueAtMs,
    };
  });
  return {
    feed: { first_cursor: formatCursor({ feedId: feed.id, feedNo: feed.removedTo }) },
    webhooks: await Promise.all(objects),
  };
}
