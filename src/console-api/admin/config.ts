/** Routes that export the whole installation as gateway.yaml, and preview and apply such a file. */

import { z } from "zod";
import { exportFile } from "../../config/export/export.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { buildPermit, type PlanPermit } from "../../config/plan/plan-scope.ts";
import { changeAuthor } from "../changes/audit-log-entry.ts";
import { changeResponse, problemsResponse } from "../files/config-view.ts";
import { type ApiCaller, forAdmins, forAdminsAndServices } from "../http/route.ts";

const source = {
  text: z.string().max(limits.apiFileBytesMax),
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
    bodyBytesMax: limits.apiFileBodyBytesMax,
    response: z.object({
      problems: problemsResponse,
      changes: z.array(changeResponse),
      /** Values of the file that are not applied, with the reason. */
      notes: z.array(z.string()),
      /** Identifies this plan: send it to apply exactly these changes. Null if there is nothing to apply. */
      plan: z.string().nullable(),
    }),
    serviceScope: "config.apply",
    run: ({ files }, input) =>
      files.run({ kind: "plan", ...input.body, ...buildCallerPermit(input.actor) }, changeAuthor(input)),
  }),
  "admin.config.apply": forAdminsAndServices({
    method: "POST",
    path: "/api/admin/config/apply",
    summary: "Apply a file after a preview; rejected if the changes differ from the preview",
    body: z.strictObject({ ...source, plan: z.string() }),
    bodyBytesMax: limits.apiFileBodyBytesMax,
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
    async run({ files, gateway }, input) {
      const operation = { kind: "apply", ...input.body, ...buildCallerPermit(input.actor) } as const;
      const response = await files.run(operation, changeAuthor(input));
      await gateway.policy.refresh();
      return response;
    },
  }),
};

function buildCallerPermit(caller: ApiCaller): { permit?: PlanPermit } {
  return caller.kind === "service" ? { permit: buildPermit(caller.account.scopes) } : {};
}
