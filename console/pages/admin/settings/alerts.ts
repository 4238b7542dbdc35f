/** The alert settings as the API returns them, and as it accepts them. */

import type { Settings } from "./saving.ts";

export type Alerts = Settings["alerts"];
export type Webhook = Alerts["webhooks"][number];

/** `has_secret` is read-only: the API rejects it in a request. */
export function webhooksBody(webhooks: readonly Webhook[]) {
  return webhooks.map(({ has_secret: _, ...webhook }) => webhook);
}
