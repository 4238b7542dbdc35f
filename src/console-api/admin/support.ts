/**
 * What a user sees, for somebody who helps: nobody signs in as somebody else. Opening it is in the audit; keys, wallet
 * and usage are those of the user's own routes, asked with `user`, and reading those is not.
 */

import { z } from "zod";
import { INTERFACES } from "../../records.ts";
import { appendChange } from "../../store/change-log/change-log.ts";
import { lookUpNames } from "../../store/reports/names.ts";
import { usageSeries } from "../../store/reports/usage-charts.ts";
import { listUsage } from "../../store/reports/usage-list.ts";
import { DAY_MS } from "../../store/usage/usage-day.ts";
import { USAGE_OUTCOMES, type UsageOutcome } from "../../store/usage/usage-row.ts";
import { auditOf } from "../changes/change-log-entry.ts";
import { forAdmins, TAKES_NOTHING } from "../http/route.ts";
import { flushUsage } from "../usage/flush-usage.ts";
import { needUser } from "./users.ts";

const refusalAnswer = z.object({
  request_id: z.string(),
  at: z.number(),
  key_id: z.string(),
  /** Null of a key that is gone. */
  key: z.string().nullable(),
  model: z.string(),
  interface: z.enum(INTERFACES),
  status: z.number(),
  outcome: z.enum(USAGE_OUTCOMES),
  /** The error's code, as the client got it. */
  code: z.string().nullable(),
});

const SHOWN_MAX = 100;
/** What a user may ask for help about. */
const TROUBLES: readonly UsageOutcome[] = ["refused", "failed", "upstream_cut"];

export const adminSupportRoutes = {
  "admin.users.support": forAdmins({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/admin/users/:id/support",
    summary:
      "List a user's rejected and failed requests of the last 24 hours. The access is recorded in the audit log.",
    params: z.strictObject({ id: z.string().max(100) }),
    answer: z.object({
      since: z.number(),
      /** The latest first; at most 100 of each kind. */
      refusals: z.array(refusalAnswer),
      /** Hour by hour; hours without use are left out. */
      hours: z.array(
        z.object({ at: z.number(), requests: z.number(), failed: z.number(), refused: z.number() }),
      ),
    }),
    async run(control, asked) {
      const { db, clock } = control.installation;
      const user = await needUser(control, asked.params.id);
      const nowMs = clock.nowMs();
      await flushUsage(control);
      const fromMs = nowMs - DAY_MS;
      const pages = await Promise.all(
        TROUBLES.map((outcome) =>
          listUsage(db, { userId: user.id, outcome, fromMs }, { after: null, limit: SHOWN_MAX }),
        ),
      );
      const rows = pages.flatMap((page) => page.rows).sort((a, b) => b.atMs - a.atMs);
      const hours = await usageSeries(db, {
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
      await appendChange(
        db,
        auditOf(asked, {
          atMs: nowMs,
          action: "user.support_view",
          target: `user ${user.email}`,
          changes: [],
        }),
      );
      return {
        since: fromMs,
        refusals: rows.map((row) => ({
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
