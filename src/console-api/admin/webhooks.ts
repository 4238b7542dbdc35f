/** Webhooks of alerts and of the usage export in the console's API: their fields, and the test of one of them. */

import { z } from "zod";
import type { WebhookResponse } from "../../alerts/post-webhook.ts";
import { webhooksToFile } from "../../config/plan/plan-webhooks.ts";
import { ApiError } from "../../errors.ts";
import type { WebhookRecord } from "../../records/settings.ts";
import { recordChange } from "../changes/audit-log-entry.ts";
import type { ConsoleContext } from "../context.ts";
import { forAdmins } from "../http/route.ts";

const webhookFields = {
  name: z.string(),
  url: z.string(),
  /** Kept as long as the address stays the same. Only the configuration file can enable it. */
  private_network: z.boolean().optional(),
  enabled: z.boolean().optional(),
};
export const webhooksResponse = z.array(z.object({ ...webhookFields, has_secret: z.boolean() }));
export const webhooksChange = z.array(z.strictObject({ ...webhookFields, secret: z.string().optional() }));

export function webhookObjects(webhooks: readonly WebhookRecord[]): z.input<typeof webhooksResponse> {
  return webhooksToFile(webhooks).map((webhook, i) => ({
    ...webhook,
    has_secret: (webhooks[i]?.sealedSecret ?? null) !== null,
  }));
}

export const testResponse = z.object({ ok: z.boolean(), message: z.string() });

interface WebhookTest {
  path: `/api/${string}`;
  summary: string;
  /** The action in the audit log. */
  action: string;
  /** Null if no saved webhook has this name. */
  send(context: ConsoleContext, webhook: string): Promise<WebhookResponse | null>;
}

/** Sends a test, records it in the audit log, and returns its result. */
function testRoute({ path, summary, action, send }: WebhookTest) {
  return forAdmins({
    method: "POST",
    path,
    summary,
    body: z.strictObject({ webhook: z.string() }),
    response: testResponse,
    async run(context, input) {
      const { db, clock } = context.installation;
      const { webhook } = input.body;
      const result = await send(context, webhook);
      if (result === null)
        throw new ApiError(
          "not_found",
          "No webhook has this name. Save the webhook first, then send a test.",
        );
      await recordChange(db, input, {
        atMs: clock.nowMs(),
        action,
        target: `webhook ${webhook}`,
        changes: [{ field: "result", from: null, to: result.response }],
      });
      return { ok: result.ok, message: result.response };
    },
  });
}

export const webhookTestRoutes = {
  "admin.settings.test_alert": testRoute({
    path: "/api/admin/settings/test-alert",
    summary: "Send a test alert to a webhook, and return the result",
    action: "alerts.test",
    send: ({ alerts }, webhook) => alerts.test(webhook),
  }),
  "admin.usage_export.test": testRoute({
    path: "/api/admin/usage-export/test",
    summary: "Send an empty batch to a webhook of the usage export, and return the result",
    action: "usage_export.test",
    send: ({ usageExport }, webhook) => usageExport.test(webhook),
  }),
};
