/** Routes that export the whole installation as gateway.yaml, and preview and apply such a file. */

import { z } from "zod";
import { exportFile } from "../../config/export/export.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { planChanges } from "../../config/plan/apply.ts";
import { buildPermit } from "../../config/plan/plan-scope.ts";
import { formatProblem } from "../../config/state/problem.ts";
import { ApiError, paramError } from "../../errors.ts";
import { changeWithLog } from "../changes/change.ts";
import {
  changeObject,
  changeResponse,
  planName,
  problemObjects,
  problemsResponse,
} from "../changes/config-view.ts";
import type { StoreContext } from "../context.ts";
import { type ApiCaller, forAdmins, forAdminsAndServices } from "../http/route.ts";

const source = {
  text: z.string().max(limits.configFileBytesMax),
  /** Also remove entries that the text does not name. */
  prune: z.boolean().default(false),
};

export const adminConfigRoutes = {
  "admin.config.export": forAdmins({
    method: "GET",
    path: "/api/admin/config",
    summary: "Export the configuration as gateway.yaml, without secrets; applying it again changes nothing",
    response: z.object({ text: z.string() }),
    run: async ({ installation: { db, clock } }) => ({ text: await exportFile(db, clock) }),
  }),
  "admin.config.plan": forAdminsAndServices({
    method: "POST",
    path: "/api/admin/config/plan",
    summary: "Preview the changes of a file, or list its errors; nothing is written",
    body: z.strictObject(source),
    bodyBytesMax: limits.apiBulkBodyBytesMax,
    response: z.object({
      problems: problemsResponse,
      changes: z.array(changeResponse),
      /** Values of the file that are not applied, with the reason. */
      notes: z.array(z.string()),
      /** Identifies this plan: send it to apply exactly these changes. Null if there is nothing to apply. */
      plan: z.string().nullable(),
    }),
    serviceScope: "config.apply",
    async run(context, { actor, body }) {
      const result = await plan(context, actor, body);
      if (!result.ok) {
        return { problems: problemObjects(result.problems), changes: [], notes: [], plan: null };
      }
      const { changes, notes } = result.plan;
      return {
        problems: [],
        changes: changes.map(changeObject),
        notes,
        plan: changes.length === 0 ? null : planName(result.plan),
      };
    },
  }),
  "admin.config.apply": forAdminsAndServices({
    method: "POST",
    path: "/api/admin/config/apply",
    summary: "Apply a file after a preview; rejected if the changes differ from the preview",
    body: z.strictObject({ ...source, plan: z.string() }),
    bodyBytesMax: limits.apiBulkBodyBytesMax,
    // A file can grant roles, passwords and money, and create keys. config/plan/plan-scope.ts limits service accounts.
    tokenScope: "none",
    serviceScope: "config.apply",
    response: z.object({
      changes: z.array(changeResponse),
      /** Created keys. Their secrets are shown only in this response. */
      keys: z.array(
        z.object({ name: z.string(), user: z.string().nullable(), group: z.string(), secret: z.string() }),
      ),
    }),
    async run(context, input) {
      const { changes, shown } = await changeWithLog(context, input, async (context) => {
        const result = await plan(context, input.actor, input.body);
        if (result.ok && planName(result.plan) === input.body.plan) return result.plan;
        throw new ApiError(
          "conflict",
          "The installation was changed after the preview. Preview the changes again.",
        );
      });
      return {
        changes: changes.map(changeObject),
        keys: shown.map(({ name, user, group, secret }) => ({ name, user, group, secret })),
      };
    },
  }),
};

async function plan(
  { installation }: StoreContext,
  caller: ApiCaller,
  { text, prune }: { text: string; prune: boolean },
) {
  // The environment contains the secrets of the process: a text from a browser must not read them.
  const from = { text, fileName: "gateway.yaml", environment: {} };
  const permit = caller.kind === "service" ? { permit: buildPermit(caller.account.scopes) } : {};
  const result = await planChanges(installation, from, { prune, fromConsole: true, ...permit });
  if (!result.ok && result.isOutOfScope) {
    throw paramError(
      result.problems[0]?.field ?? null,
      "not_in_scope",
      result.problems.slice(0, limits.apiProblemsMax).map(formatProblem).join("\n"),
    );
  }
  return result;
}
