/** Routes for usage: charts, lists of requests, details of one request, and CSV export. */

import { z } from "zod";
import { ApiError, paramError } from "../../errors.ts";
import { logFault } from "../../observe/log.ts";
import type { Db } from "../../store/engine/db.ts";
import { text } from "../../store/engine/row.ts";
import { listUsage, type UsageFilter } from "../../store/reports/usage-list.ts";
import { SERIES_SPLITS } from "../../store/reports/usage-series.ts";
import { findRoute, findUsage } from "../../store/usage/usage.ts";
import { USAGE_OUTCOMES, type UsageRow } from "../../store/usage/usage-row.ts";
import type { StoreContext } from "../context.ts";
import { buildPage, cursorText, pageQuery, readCursor } from "../http/page.ts";
import { type Actor, forUsers, seesEverything } from "../http/route.ts";
import { streamedFile } from "../http/streamed-file.ts";
import { flushUsage } from "./flush-usage.ts";
import { buildChart, chartResponse } from "./usage-chart.ts";
import { inspect, inspectionResponse } from "./usage-request.ts";
import { csvParts, requestObjects, requestResponse } from "./usage-rows.ts";
import { chartRange, rangeQuery, resolveScope, scopeQuery } from "./usage-scope.ts";

const filterQuery = {
  ...scopeQuery,
  ...rangeQuery,
  outcome: z.enum(USAGE_OUTCOMES).optional(),
  /** The first digit of the status. */
  status: z.enum(["2", "4", "5"]).optional(),
};
type FilterQuery = z.output<z.ZodObject<typeof filterQuery>>;

const cursor = z.tuple([z.number(), z.string()]);
const CHOICES_MAX = 500;

export const usageRoutes = {
  "usage.chart": forUsers({
    method: "GET",
    path: "/api/usage/chart",
    summary: "Get usage over time, by day or hour, grouped by model, key, user or group",
    query: z.strictObject({
      ...scopeQuery,
      ...rangeQuery,
      granularity: z.enum(["day", "hour"]).default("day"),
      by: z.enum(SERIES_SPLITS).default("total"),
    }),
    response: chartResponse,
    async run(context, { actor, query }) {
      if (!seesEverything(actor) && query.by === "user") {
        throw paramError("by", "forbidden", "Only administrators and auditors may group usage by user.");
      }
      const range = chartRange(query, context.installation.clock.nowMs());
      const scope = await resolveScope(context, actor, query);
      await flushUsage(context);
      return buildChart(context.installation.db, actor, scope, range, query.by);
    },
  }),

  "usage.requests": forUsers({
    method: "GET",
    path: "/api/usage/requests",
    summary: "List requests, newest first. A page may be short if few requests match the filters",
    query: z.strictObject({ ...pageQuery, ...filterQuery }),
    response: buildPage(requestResponse),
    async run(context, { actor, query }) {
      const { db } = context.installation;
      const filter = await buildFilter(context, actor, query);
      const after = readCursor(query.after, cursor);
      await flushUsage(context);
      const { rows, next } = await listUsage(db, filter, {
        after: after === null ? null : { atMs: after[0], requestId: after[1] },
        limit: query.limit,
      });
      return {
        data: await requestObjects(db, actor, rows),
        next: next === null ? null : cursorText([next.atMs, next.requestId]),
      };
    },
  }),

  "usage.request": forUsers({
    method: "GET",
    path: "/api/usage/requests/:id",
    summary: "Get a request, by its own id or the id of its response",
    params: z.strictObject({ id: z.string().max(200) }),
    response: inspectionResponse,
    async run(context, { actor, params }) {
      const { db } = context.installation;
      await flushUsage(context);
      const { tracer, captures, policy } = context.gateway;
      await captures.flush();
      return inspect(
        { db, tracer, policy: policy.snapshot() },
        actor,
        await ownRequest(db, actor, params.id),
      );
    },
  }),

  "usage.export": forUsers({
    method: "GET",
    path: "/api/usage/export",
    summary: "Export requests as CSV, newest first",
    query: z.strictObject(filterQuery),
    media: "text/csv",
    /** The file itself. */
    response: z.string(),
    async run(context, { actor, query, requestId }) {
      const { db, clock } = context.installation;
      const filter = await buildFilter(context, actor, query);
      await flushUsage(context);
      const day = new Date(clock.nowMs()).toISOString().slice(0, 10);
      const onFault = (thrown: unknown) => logFault(context.gateway.log, { request_id: requestId }, thrown);
      return new Response(await streamedFile(csvParts(db, actor, filter), onFault), {
        headers: {
          "content-type": "text/csv; charset=utf-8",
          "content-disposition": `attachment; filename="requests-${day}.csv"`,
          "cache-control": "no-store",
        },
      });
    },
  }),

  "usage.choices": forUsers({
    method: "GET",
    path: "/api/usage/choices",
    summary: "List the values that usage can be filtered by",
    response: z.object({
      /** Keys of the caller, newest first. */
      keys: z.array(z.object({ id: z.string(), name: z.string() })),
      /** There are older keys: `GET /api/keys?search=` finds them. */
      has_more_keys: z.boolean(),
      groups: z.array(z.string()),
      models: z.array(z.string()),
      /** For administrators and auditors. */
      accounts: z.array(z.string()).optional(),
    }),
    async run({ installation, gateway }, { actor }) {
      const rows = await installation.db.sql`
        SELECT id, name, group_id FROM api_key WHERE user_id = ${actor.userId}
        ORDER BY created_at_ms DESC, id DESC LIMIT ${CHOICES_MAX + 1}`;
      const { groups, accounts } = gateway.policy.snapshot();
      const hasAllFields = seesEverything(actor);
      const usedGroups = new Set(rows.map((row) => text(row, "group_id")));
      const visibleGroups = [...groups.values()].filter(({ id }) => hasAllFields || usedGroups.has(id));
      return {
        keys: rows.slice(0, CHOICES_MAX).map((row) => ({ id: text(row, "id"), name: text(row, "name") })),
        has_more_keys: rows.length > CHOICES_MAX,
        groups: visibleGroups.map(({ name }) => name).sort(),
        models: [...new Set(visibleGroups.flatMap(({ models }) => [...models.keys()]))].sort(),
        ...(hasAllFields ? { accounts: [...accounts.values()].map(({ name }) => name).sort() } : {}),
      };
    },
  }),
};

async function buildFilter(context: StoreContext, actor: Actor, query: FilterQuery): Promise<UsageFilter> {
  return {
    ...(await resolveScope(context, actor, query)),
    ...(query.from_at === undefined ? {} : { fromMs: query.from_at }),
    ...(query.to_at === undefined ? {} : { toMs: query.to_at }),
    ...(query.outcome === undefined ? {} : { outcome: query.outcome }),
    ...(query.status === undefined ? {} : { statusClass: STATUS_CLASSES[query.status] }),
  };
}

const STATUS_CLASSES = { "2": 2, "4": 4, "5": 5 } as const;

/** A request of another user is reported as not found. */
async function ownRequest(db: Db, actor: Actor, id: string): Promise<UsageRow> {
  const requestId = (await findRoute(db, id))?.requestId ?? id;
  const row = await findUsage(db, requestId);
  if (row !== null && (seesEverything(actor) || row.userId === actor.userId)) return row;
  throw new ApiError(
    "not_found",
    "You have no such request. The id of a request is in the x-request-id header of its response.",
  );
}
