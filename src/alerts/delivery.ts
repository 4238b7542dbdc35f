/** Webhook deliveries: their bodies, signatures and retries. */

import type { Clock } from "../net/wire/clock.ts";
import type { Keyring } from "../secrets/keyring.ts";
import { SealError, unseal, webhookSecretBinding } from "../secrets/seal.ts";
import type { WebhookRecord } from "../settings-records.ts";
import {
  type AlertEvent,
  type AlertRecord,
  claimDeliveries,
  type DeliveryRecord,
  recordDelivery,
} from "../store/alerts/alerts.ts";
import type { Db } from "../store/engine/db.ts";
import { VERSION } from "../version.ts";
import {
  buildFailure,
  postWebhook,
  signBody,
  type WebhookClient,
  type WebhookResponse,
} from "./post-webhook.ts";

/** The gateway that sends the alert, as named in the body. */
export interface Origin {
  node: string;
  publicUrl: string;
}

export function buildAlertBody(
  event: AlertEvent,
  alert: AlertRecord,
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

export interface WebhookSender extends WebhookClient {
  keyring: Keyring;
  clock: Pick<Clock, "nowMs">;
}

export async function sendWebhook(
  sender: WebhookSender,
  webhook: WebhookRecord,
  id: string,
  body: string,
): Promise<WebhookResponse> {
  const { url, privateNetwork } = webhook;
  let signature: Record<string, string>;
  try {
    signature = buildSignature(sender, webhook, body);
  } catch (error) {
    if (!(error instanceof SealError)) throw error;
    return buildFailure("the stored secret cannot be decrypted; enter it again");
  }
  return postWebhook(sender, {
    url,
    privateNetwork,
    contentType: "application/json",
    headers: { "user-agent": `model-gateway/${VERSION}`, "x-gateway-delivery": id, ...signature },
    body,
  });
}

function buildSignature(
  { keyring, clock }: WebhookSender,
  { name, sealedSecret }: WebhookRecord,
  body: string,
) {
  if (sealedSecret === null) return {};
  const secret = unseal(keyring, webhookSecretBinding(name), sealedSecret);
  return { "x-gateway-signature": signBody(secret, body, clock.nowMs()) };
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
    const answer = "the webhook was deleted or disabled";
    return recordDelivery(db, id, { state: "failed", answer, dueAtMs: null, nowMs: clock.nowMs() });
  }
  const { ok, answer } = await sendWebhook(options, webhook, id, body);
  const nowMs = clock.nowMs();
  const pauseMs = ok ? undefined : retriesMs[attempts - 1];
  if (pauseMs !== undefined)
    return recordDelivery(db, id, { state: "pending", answer, dueAtMs: nowMs + pauseMs, nowMs });
  return recordDelivery(db, id, { state: ok ? "delivered" : "failed", answer, dueAtMs: null, nowMs });
}
