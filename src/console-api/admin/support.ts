/**
 * Shows an administrator what a user sees, without signing in as that user. Opening it is recorded in the
 * audit log. Keys, wallet and usage come from the user's own routes with the parameter `user`, and reading
 * those is not recorded.
 */

import { z } from "zod";
import { DAY_MS } from "../../base/time.ts";
import { INTERFACES } from "../../records/interfaces.ts";
import { lookUpNames } from "../../store/reports/names.ts";
import { readUsageSeries } from "../../store/reports/usage-charts.ts";
import { listUsage } from "../../store/reports/usage-list.ts";
import { USAGE_OUTCOMES, type UsageOutcome } from "../../store/usage/usage-row.ts";
import { recordChange } from "../changes/audit-log-entry.ts";
import { forAdmins } from "../http/route.ts";
import { flushUsage } from "../usage/flush-usage.ts";
import { requireUser } from "./users.ts";

const rejectionResponse = z.object({
  request_id: z.string(),
  at: z.number(),
  key_id: z.string(),
  /** Null if the key was deleted. */
  key: z.string().nullable(),
  model: z.string(),
  interface: z.enum(INTERFACES),
  status: z.number(),
  outcome: z.enum(USAGE_OUTCOMES),
  /** The error code that the client received. */
  code: z.string().nullable(),
});

const ROWS_MAX = 100;
/** Outcomes about which a user may contact support. */
const FAILED_OUTCOMES: readonly UsageOutcome[] = ["refused", "failed", "upstream_cut"];

export const adminSupportRoutes = {
  "admin.users.support": forAdmins({
    method: "POST",
    path: "/api/admin/users/:id/support",
    summary:
      "List a user's rejected and failed requests of the last 24 hours. The access is recorded in the audit log.",
    params: z.strictObject({ id: z.string().max(100) }),
    response: z.object({
      since: z.number(),
      /** Newest first; at most 100 of each kind. */
      rejections: z.array(rejectionResponse),
      /** One entry per hour; hours without requests are omitted. */
      hours: z.array(
        z.object({ at: z.number(), requests: z.number(), failed: z.number(), refused: z.number() }),
      ),
    }),
    async run(context, input) {
      const { db, clock } = context.installation;
      const user = await requireUser(context, input.params.id);
      const nowMs = clock.nowMs();
      await flushUsage(context);
      const fromMs = nowMs - DAY_MS;
      const pages = await Promise.all(
        FAILED_OUTCOMES.map((outcome) =>
          listUsage(db, { userId: user.id, outcome, fromMs }, { after: null, limit: ROWS_MAX }),
        ),
      );
      const rows = pages.flatMap((page) => page.rows).sort((a, b) => b.atMs - a.atMs);
      const hours = await readUsageSeries(db, {
        scope: { kind: "user", id: user.id },
        fromMs,
        toMs: nowMs,
        granularity: "hour",
        by: "total",
      });
      const keys = await lookUpNames(
        db,
        "key",
        rows.map(({ keyId }) => keyId),
      );
      await recordChange(db, input, {
        atMs: nowMs,
        action: "user.support_view",
        target: `user ${user.email}`,
        changes: [],
      });
      return {
        since: fromMs,
        rejections: rows.map((row) => ({
          request_id: row.requestId,
          at: row.atMs,
          key_id: row.keyId,
          key: keys.get(row.keyId) ?? null,
          model: row.publicModel,
          interface: row.interface,
          status: row.status,
          outcome: row.outcome,
          code: row.errorCode,
        })),
        hours: hours.map(({ atMs, requests, failed, refused }) => ({ at: atMs, requests, failed, refused })),
      };
    },
  }),
};
