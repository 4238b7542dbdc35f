/** Routes of the dashboard: live data of this process, and history from the roll-ups of all processes. */

import { z } from "zod";
import { DAY_MS, HOUR_MS } from "../../base/time.ts";
import { ApiError } from "../../errors.ts";
import { usdText } from "../../money/nano.ts";
import type { Db } from "../../store/engine/db.ts";
import { lookUpNames } from "../../store/reports/names.ts";
import {
  type ChartPoint,
  type RankingRequest,
  readTopUsage,
  readUsageSeries,
  type TopEntry,
} from "../../store/reports/usage-charts.ts";
import { startOfDay } from "../../store/usage/usage-day.ts";
import { findActor, type PresentedCredentials } from "../auth/actor.ts";
import type { StoreContext } from "../context.ts";
import { forAdmins } from "../http/route.ts";
import { liveResponse } from "../live/live-frame.ts";

const pointResponse = z.object({
  at: z.number(),
  requests: z.number(),
  refused: z.number(),
  failed: z.number(),
  input_tokens: z.number(),
  output_tokens: z.number(),
  /** In USD: at list price, the part that was paid, and the upstream cost. */
  cost: z.string(),
  charged: z.string(),
  upstream: z.string(),
  first_byte_ms: z.number().nullable(),
});

const rankedResponse = z.array(
  z.object({
    id: z.string(),
    /** Null if the entry was deleted or has no name. */
    name: z.string().nullable(),
    requests: z.number(),
    cost: z.string(),
    charged: z.string(),
  }),
);

const RANGES = ["day", "week", "month"] as const;
const RANGE_DAYS = { day: 1, week: 7, month: 30 } as const;
const TOP_ENTRIES = 8;

export const adminDashboardRoutes = {
  "admin.dashboard.get": forAdmins({
    method: "GET",
    path: "/api/admin/dashboard",
    summary: "Get charts and top spenders over all users, with a delay of up to one minute",
    query: z.strictObject({ range: z.enum(RANGES).default("day") }),
    response: z.object({
      granularity: z.enum(["hour", "day"]),
      from: z.number(),
      to: z.number(),
      points: z.array(pointResponse),
      /** Rankings cover whole days from here on. */
      top_from: z.number(),
      models: rankedResponse,
      keys: rankedResponse,
      users: rankedResponse,
      groups: rankedResponse,
    }),
    async run({ installation: { db, clock } }, { query: { range } }) {
      const nowMs = clock.nowMs();
      const granularity = range === "month" ? ("day" as const) : ("hour" as const);
      const unitMs = granularity === "day" ? DAY_MS : HOUR_MS;
      const toMs = Math.floor(nowMs / unitMs) * unitMs + unitMs;
      const fromMs = toMs - RANGE_DAYS[range] * DAY_MS;
      const topFromMs = startOfDay(nowMs) - (RANGE_DAYS[range] - 1) * DAY_MS;
      const series = await readUsageSeries(db, {
        scope: { kind: "all" },
        fromMs,
        toMs,
        granularity,
        by: "total",
      });
      const top = {
        within: { kind: "all" },
        fromMs: topFromMs,
        toMs: startOfDay(nowMs) + DAY_MS,
        limit: TOP_ENTRIES,
      } as const;
      return {
        granularity,
        from: fromMs,
        to: toMs,
        points: series.map(pointObject),
        top_from: topFromMs,
        models: (await readSpenders(db, { ...top, rankBy: "model" })).map((entry) =>
          rankedObject(entry, entry.id),
        ),
        keys: await rankedWithNames(db, "key", await readSpenders(db, { ...top, rankBy: "key" })),
        users: await rankedWithNames(db, "user", await readSpenders(db, { ...top, rankBy: "user" })),
        groups: await rankedWithNames(db, "group", await readSpenders(db, { ...top, rankBy: "group" })),
      };
    },
  }),

  "admin.dashboard.live": forAdmins({
    method: "GET",
    path: "/api/admin/dashboard/live",
    summary:
      "Stream live figures of this process as server-sent events, once a second. Each `data` is the response object.",
    media: "text/event-stream",
    response: liveResponse,
    // The caller is authenticated again and again, which stores the last use of the session.
    reads: "direct",
    async run(context, { actor, headers, clientAddress, signal, shutdownSignal: leaving }) {
      const events = context.live.watch(AbortSignal.any([signal, leaving]), {
        userId: actor.userId,
        isStillAllowed: () => isStillAdmin(context, { headers, clientAddress }),
      });
      return new Response(events, { headers: { "content-type": "text/event-stream" } });
    },
  }),
};

/** Returns false only if the role was revoked for certain: a database outage must not close the dashboard. */
async function isStillAdmin(context: StoreContext, presented: PresentedCredentials): Promise<boolean> {
  try {
    const caller = await findActor(context, presented);
    return caller?.kind === "person" && caller.role === "admin";
  } catch (thrown) {
    return !(thrown instanceof ApiError);
  }
}

function pointObject(at: ChartPoint): z.input<typeof pointResponse> {
  return {
    at: at.atMs,
    requests: at.requests,
    refused: at.refused,
    failed: at.failed,
    input_tokens: at.inputTokens,
    output_tokens: at.outputTokens,
    cost: usdText(at.costNano),
    charged: usdText(at.chargedNano),
    upstream: usdText(at.upstreamNano),
    first_byte_ms: at.firstByteMsMean === null ? null : Math.round(at.firstByteMsMean),
  };
}

/** Rejected requests spend nothing, and clients choose the model names in them. */
async function readSpenders(db: Db, request: RankingRequest): Promise<TopEntry[]> {
  return (await readTopUsage(db, request)).filter(({ requests }) => requests > 0);
}

async function rankedWithNames(db: Db, kind: "key" | "user" | "group", entries: readonly TopEntry[]) {
  const names = await lookUpNames(
    db,
    kind,
    entries.map(({ id }) => id),
  );
  return entries.map((entry) => rankedObject(entry, names.get(entry.id) ?? null));
}

function rankedObject({ id, requests, refused, costNano, chargedNano }: TopEntry, name: string | null) {
  return { id, name, requests: requests + refused, cost: usdText(costNano), charged: usdText(chargedNano) };
}
