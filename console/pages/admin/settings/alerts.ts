/** The alert settings as the API returns them, and as it accepts them. */

import type { Settings } from "./saving.ts";

export type Alerts = Settings["alerts"];
export type Webhook = Alerts["webhooks"][number];

/** A webhook as the API accepts it. An omitted secret is kept. */
export type WebhookBody = Omit<Webhook, "has_secret"> & { secret?: string };

/** `has_secret` is read-only: the API rejects it in a request. */
export function webhooksBody(webhooks: readonly Webhook[]): WebhookBody[] {
  return webhooks.map(({ has_secret: _, ...webhook }) => webhook);
}
