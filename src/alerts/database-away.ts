/**
 * The alert that the database is away. The database cannot store it meanwhile, so this node posts it directly, and
 * stores it when the database is back.
 */

import type { NewId } from "../base/clock.ts";
import type { WebhookRecord } from "../records/settings.ts";
import {
  type AlertEvent,
  type AlertRecord,
  closeAlert,
  type NewDelivery,
  openAlert,
} from "../store/alerts/alerts.ts";
import type { Db } from "../store/engine/db.ts";
import { buildAlertBody, type Origin, sendWebhook } from "./delivery.ts";
import type { WebhookSender } from "./signed-webhook.ts";

export interface DatabaseAwayOptions {
  readonly db: Db;
  readonly newId: NewId;
  readonly sender: WebhookSender;
  origin(): Origin;
  readonly retriesMs: readonly number[];
  readonly awayMs: number;
}

export interface DatabaseState {
  /** Since the database last accepted a write of this node. */
  readonly sinceWrittenMs: number;
  readonly nowMs: number;
  readonly webhooks: readonly WebhookRecord[];
}

interface OpenAlert {
  readonly alert: AlertRecord;
  /** The latest attempt to post it to each webhook: whether it was accepted. */
  readonly attempts: Map<string, Promise<boolean>>;
}

export class DatabaseAway {
  readonly #options: DatabaseAwayOptions;
  #open: OpenAlert | null = null;

  constructor(options: DatabaseAwayOptions) {
    this.#options = options;
  }

  /** Begins the alert when the database is away for long enough. */
  checkAway({ sinceWrittenMs, nowMs, webhooks }: DatabaseState): void {
    const { newId, origin, awayMs } = this.#options;
    if (this.#open !== null || sinceWrittenMs < awayMs) return;
    const seconds = Math.round(sinceWrittenMs / 1_000);
    const alert: AlertRecord = {
      id: newId("alert"),
      rule: "database_away",
      subject: "",
      node: origin().node,
      message: `The database has accepted no write of this node for ${seconds} s, so the node is not ready. Check the database and its network.`,
      details: { seconds },
      startedAtMs: nowMs - Math.round(sinceWrittenMs),
      endedAtMs: null,
    };
    this.#open = { alert, attempts: new Map() };
    for (const webhook of webhooks.filter(({ enabled }) => enabled)) void this.#post(this.#open, webhook);
  }

  /** Stores the alert and its end when the database accepts writes again. */
  async checkBack({ sinceWrittenMs, nowMs, webhooks }: DatabaseState): Promise<void> {
    const { db, awayMs } = this.#options;
    if (this.#open === null || sinceWrittenMs >= awayMs) return;
    const { alert, attempts } = this.#open;
    const enabled = webhooks.filter((webhook) => webhook.enabled);
    const accepted = await Promise.all(enabled.map(({ name }) => attempts.get(name) ?? false));
    const missed = enabled.filter((_, index) => accepted[index] !== true);
    await openAlert(db, alert, this.#buildDeliveries("firing", alert, missed));
    const ended = { ...alert, endedAtMs: nowMs };
    await closeAlert(db, alert.id, nowMs, this.#buildDeliveries("resolved", ended, enabled));
    this.#open = null;
  }

  stop(): void {
    this.#open = null;
  }

  async #post(open: OpenAlert, webhook: WebhookRecord): Promise<void> {
    const { sender, newId, origin, retriesMs } = this.#options;
    const { alert, attempts } = open;
    const body = buildAlertBody("firing", alert, origin(), alert.startedAtMs);
    const id = newId("dlv");
    for (const pauseMs of [0, ...retriesMs]) {
      await new Promise((resolve) => setTimeout(resolve, pauseMs).unref());
      // The database is back and has the delivery.
      if (this.#open !== open) return;
      const attempt = sendWebhook(sender, webhook, id, body).then(
        ({ ok }) => ok,
        () => false,
      );
      attempts.set(webhook.name, attempt);
      if (await attempt) return;
    }
  }

  #buildDeliveries(event: AlertEvent, alert: AlertRecord, webhooks: readonly WebhookRecord[]): NewDelivery[] {
    const { newId, origin } = this.#options;
    const body = buildAlertBody(event, alert, origin(), alert.endedAtMs ?? alert.startedAtMs);
    return webhooks.map(({ name }) => ({ id: newId("dlv"), event, webhook: name, body }));
  }
}
