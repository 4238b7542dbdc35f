/**
 * The alerts of this node that are not over. They are stored in the database together with their deliveries, so that
 * a restart raises none twice.
 */

import type { NewId } from "../base/clock.ts";
import type { Log } from "../observe/log.ts";
import type { AlertsRecord, WebhookRecord } from "../records/settings.ts";
import {
  type AlertEvent,
  type AlertRecord,
  closeAlert,
  listOpenAlerts,
  type NewDelivery,
  openAlert,
} from "../store/alerts/alerts.ts";
import type { Db } from "../store/engine/db.ts";
import type { AlertCondition, AlertView } from "./alert-view.ts";
import { findConditions, isOver } from "./conditions.ts";
import { buildAlertBody, type Origin } from "./delivery.ts";

export interface OpenAlertsOptions {
  db: Db;
  log: Log;
  newId: NewId;
  /** Known once the server listens. */
  origin(): Origin;
}

export class OpenAlerts {
  readonly #options: OpenAlertsOptions;
  /** Null until first read. */
  #alerts: readonly AlertRecord[] | null = null;

  constructor(options: OpenAlertsOptions) {
    this.#options = options;
  }

  /** Opens an alert for each new condition, and closes the alerts that are over. */
  async update(view: AlertView, rules: AlertsRecord): Promise<void> {
    this.#alerts ??= await this.#list();
    const known = this.#alerts;
    const conditions = findConditions(view, rules);
    for (const condition of conditions)
      if (!known.some((alert) => isSame(alert, condition)))
        await this.#open(condition, rules.webhooks, view.nowMs);
    for (const alert of this.#alerts) {
      const persists = conditions.some((condition) => isSame(alert, condition));
      if (!persists && isOver(alert, view, rules)) await this.#close(alert, rules.webhooks, view.nowMs);
    }
  }

  #list(): Promise<readonly AlertRecord[]> {
    return listOpenAlerts(this.#options.db, this.#options.origin().node);
  }

  async #open(
    { rule, subject, seenBy, message, details }: AlertCondition,
    webhooks: readonly WebhookRecord[],
    nowMs: number,
  ): Promise<void> {
    const { db, log, newId, origin } = this.#options;
    const node = seenBy === "all" ? "" : origin().node;
    const id = newId("alert");
    const alert = { id, rule, subject, node, message, details, startedAtMs: nowMs, endedAtMs: null };
    if (await openAlert(db, alert, this.#buildDeliveries("firing", alert, webhooks))) {
      log.warn("alert", { rule, subject });
      this.#alerts = [...(this.#alerts ?? []), alert];
      // Another node has opened and delivers it. This node still tracks when it is over.
    } else this.#alerts = await this.#list();
  }

  async #close(alert: AlertRecord, webhooks: readonly WebhookRecord[], nowMs: number): Promise<void> {
    const { db, log } = this.#options;
    const deliveries = this.#buildDeliveries("resolved", { ...alert, endedAtMs: nowMs }, webhooks);
    const isFirst = await closeAlert(db, alert.id, nowMs, deliveries);
    if (isFirst) log.info("alert_resolved", { rule: alert.rule, subject: alert.subject });
    this.#alerts = (this.#alerts ?? []).filter(({ id }) => id !== alert.id);
  }

  #buildDeliveries(event: AlertEvent, alert: AlertRecord, webhooks: readonly WebhookRecord[]): NewDelivery[] {
    const { newId, origin } = this.#options;
    const body = buildAlertBody(event, alert, origin(), alert.endedAtMs ?? alert.startedAtMs);
    return webhooks
      .filter(({ enabled }) => enabled)
      .map(({ name }) => ({ id: newId("dlv"), event, webhook: name, body }));
  }
}

function isSame(alert: AlertRecord, condition: AlertCondition): boolean {
  return alert.rule === condition.rule && alert.subject === condition.subject;
}
