/**
 * Alerts about an event that has no end. They are posted from memory and not stored: nodes of the version before reject
 * a rule that they do not know. The audit log has the event.
 */

import type { Clock, NewId } from "../base/clock.ts";
import type { WebhookRecord } from "../records/settings.ts";
import type { AlertDetails } from "../store/alerts/alerts.ts";
import { buildAlertBody, type Origin, sendWebhook } from "./delivery.ts";
import type { WebhookSender } from "./signed-webhook.ts";

export interface AlertedEvent {
  readonly rule: "refresh_token_reused";
  /** One sentence, without secrets. */
  readonly message: string;
  readonly details: AlertDetails;
}

export interface EventPostOptions {
  readonly clock: Pick<Clock, "nowMs">;
  readonly newId: NewId;
  readonly sender: WebhookSender;
  origin(): Origin;
  readonly retriesMs: readonly number[];
}

export class EventPosts {
  readonly #options: EventPostOptions;
  #isStopped = false;

  constructor(options: EventPostOptions) {
    this.#options = options;
  }

  post(event: AlertedEvent, webhooks: readonly WebhookRecord[]): void {
    const { clock, newId, origin } = this.#options;
    const atMs = clock.nowMs();
    const alert = { ...event, id: newId("alert"), startedAtMs: atMs, endedAtMs: null };
    const body = buildAlertBody("firing", alert, origin(), atMs);
    for (const webhook of webhooks.filter(({ enabled }) => enabled)) void this.#send(webhook, body);
  }

  stop(): void {
    this.#isStopped = true;
  }

  async #send(webhook: WebhookRecord, body: string): Promise<void> {
    const { sender, newId, retriesMs } = this.#options;
    const id = newId("dlv");
    for (const pauseMs of [0, ...retriesMs]) {
      await new Promise((resolve) => setTimeout(resolve, pauseMs).unref());
      if (this.#isStopped) return;
      const { ok } = await sendWebhook(sender, webhook, id, body).catch(() => ({ ok: false }));
      if (ok) return;
    }
  }
}
