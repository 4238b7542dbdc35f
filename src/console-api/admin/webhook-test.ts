/** The test of a webhook, of alerts or of the usage export: sent, recorded in the change log, and its result returned. */

import { z } from "zod";
import type { WebhookResponse } from "../../alerts/post-webhook.ts";
import type { Installation } from "../../config/installation/installation.ts";
import { ApiError } from "../../errors.ts";
import { appendChange } from "../../store/change-log/change-log.ts";
import { buildChangeEntry } from "../changes/change-log-entry.ts";

export const webhookTestBody = z.strictObject({ webhook: z.string() });
export const testAnswer = z.object({ ok: z.boolean(), message: z.string() });

type TestInput = Parameters<typeof buildChangeEntry>[0] & { body: z.output<typeof webhookTestBody> };

interface WebhookTest {
  installation: Pick<Installation, "db" | "clock">;
  /** The action in the change log. */
  action: string;
  /** Null if no saved webhook has this name. */
  send(webhook: string): Promise<WebhookResponse | null>;
}

export async function testWebhook(
  input: TestInput,
  { installation: { db, clock }, action, send }: WebhookTest,
): Promise<z.input<typeof testAnswer>> {
  const { webhook } = input.body;
  const result = await send(webhook);
  if (result === null)
    throw new ApiError("not_found", "No webhook has this name. Save the webhook first, then send a test.");
  await appendChange(
    db,
    buildChangeEntry(input, {
      atMs: clock.nowMs(),
      action,
      target: `webhook ${webhook}`,
      changes: [{ field: "result", from: null, to: result.answer }],
    }),
  );
  return { ok: result.ok, message: result.answer };
}
