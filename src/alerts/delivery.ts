/** Webhook deliveries: their bodies, signatures and retries. */

import type { WebhookRecord } from "../records/settings.ts";
import {
  type AlertEvent,
  type AlertRecord,
  claimDeliveries,
  type DeliveryRecord,
  recordDelivery,
} from "../store/alerts/alerts.ts";
import type { Db } from "../store/engine/db.ts";
import type { WebhookResponse } from "./post-webhook.ts";
import { sendSigned, type WebhookSender } from "./signed-webhook.ts";

/** The gateway that sends the alert, as named in the body. */
export interface Origin {
  node: string;
  publicUrl: string;
}

export function buildAlertBody(
  event: AlertEvent,
  alert: Omit<AlertRecord, "rule" | "subject" | "node"> & { readonly rule: string },
  { node, publicUrl }: Origin,
  sentAtMs: number,
): string {
  const text = event === "firing" ? alert.message : `Resolved: ${alert.message}`;
  return JSON.stringify({
    type: `alert.${event}`,
    // Chat applications show this field and ignore the rest.
    text,
    alert: {
      id: alert.id,
      rule: alert.rule,
      message: alert.message,
      details: alert.details,
      started_at: alert.startedAtMs,
      ended_at: alert.endedAtMs,
    },
    gateway: { node, url: publicUrl },
    created_at: sentAtMs,
  });
}

export function testBody({ node, publicUrl }: Origin, sentAtMs: number): string {
  return JSON.stringify({
    type: "alert.test",
    text: "This is a test alert of the gateway. No action is required.",
    alert: null,
    gateway: { node, url: publicUrl },
    created_at: sentAtMs,
  });
}

export function sendWebhook(
  sender: WebhookSender,
  webhook: WebhookRecord,
  id: string,
  body: string,
): Promise<WebhookResponse> {
  return sendSigned(sender, "alerts", webhook, {
    contentType: "application/json",
    headers: { "x-gateway-delivery": id },
    body,
  });
}

export interface DeliveryOptions extends WebhookSender {
  db: Db;
  webhooks: readonly WebhookRecord[];
  retriesMs: readonly number[];
}

const DELIVERIES_PER_ROUND_MAX = 20;

/** Attempts every due delivery once. */
export async function deliverDue(options: DeliveryOptions): Promise<void> {
  const { db, clock, timeoutMs } = options;
  const nowMs = clock.nowMs();
  // If this process dies meanwhile, another one can claim the deliveries a little after the deadline.
  const claimed = await claimDeliveries(db, nowMs, nowMs + timeoutMs * 2, DELIVERIES_PER_ROUND_MAX);
  await Promise.all(claimed.map((delivery) => deliver(options, delivery)));
}

async function deliver(options: DeliveryOptions, { id, webhook: name, body, attempts }: DeliveryRecord) {
  const { db, clock, webhooks, retriesMs } = options;
  const webhook = webhooks.find((one) => one.name === name && one.enabled);
  if (webhook === undefined) {
    const response = "the webhook was deleted or disabled";
    return recordDelivery(db, id, { state: "failed", response, dueAtMs: null, nowMs: clock.nowMs() });
  }
  const { ok, response } = await sendWebhook(options, webhook, id, body);
  const nowMs = clock.nowMs();
  const pauseMs = ok ? undefined : retriesMs[attempts - 1];
  if (pauseMs !== undefined)
    return recordDelivery(db, id, { state: "pending", response, dueAtMs: nowMs + pauseMs, nowMs });
  return recordDelivery(db, id, { state: ok ? "delivered" : "failed", response, dueAtMs: null, nowMs });
}
