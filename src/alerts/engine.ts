/**
 * Checks this process every few seconds and raises alerts for the operator, each one once until it is over. Open
 * alerts are stored in the database, so a restart raises none twice. Requests bear no cost: the checks read existing
 * counters.
 */

import type { Clock } from "../base/clock.ts";
import type { Snapshot } from "../policy/snapshot.ts";
import { type AlertsRecord, DEFAULT_ALERTS } from "../records/settings.ts";
import { removeAlerts } from "../store/alerts/alerts.ts";
import { readAlertSettings } from "../store/settings/sections.ts";
import type { AlertLimits, StoreSignals } from "./alert-view.ts";
import { type AlertViewOptions, AlertViewReader } from "./alert-view-reader.ts";
import type { SpentToday } from "./daily-spending.ts";
import { DatabaseAway, type DatabaseState } from "./database-away.ts";
import { deliverDue, sendWebhook, testBody } from "./delivery.ts";
import { type AlertedEvent, EventPosts } from "./event-posts.ts";
import { OpenAlerts, type OpenAlertsOptions } from "./open-alerts.ts";
import type { WebhookResponse } from "./post-webhook.ts";
import { SerialTask } from "./serial-task.ts";
import type { WebhookSender } from "./signed-webhook.ts";

export interface AlertOptions
  extends OpenAlertsOptions,
    Omit<AlertViewOptions, "startedAtMs">,
    Omit<WebhookSender, "timeoutMs"> {
  clock: Clock;
  store: StoreSignals;
  limits: AlertLimits;
}

const REMOVE_INTERVAL_MS = 3_600_000;

export function startAlerts(options: AlertOptions): Alerts {
  const alerts = new Alerts(options);
  alerts.start();
  return alerts;
}

export class Alerts {
  readonly #options: AlertOptions;
  readonly #sender: WebhookSender;
  readonly #viewReader: AlertViewReader;
  readonly #openAlerts: OpenAlerts;
  readonly #databaseAway: DatabaseAway;
  readonly #eventPosts: EventPosts;
  readonly #checks = new SerialTask(() => this.#check());
  /** Deliveries run concurrently with the checks, so that a slow webhook does not delay them. */
  readonly #deliveries = new SerialTask(() => this.#deliver());
  #settings: AlertsRecord = DEFAULT_ALERTS;
  /** The snapshot that was current when `#settings` were read. */
  #settingsSnapshot: Snapshot | null = null;
  #removedAtMs = Number.NEGATIVE_INFINITY;
  #timer: ReturnType<typeof setInterval> | null = null;

  constructor(options: AlertOptions) {
    const { clock, limits } = options;
    this.#options = options;
    this.#sender = { ...options, timeoutMs: limits.deliveryTimeoutMs };
    this.#viewReader = new AlertViewReader({ ...options, startedAtMs: clock.nowMs() });
    this.#openAlerts = new OpenAlerts(options);
    this.#databaseAway = new DatabaseAway({
      ...options,
      sender: this.#sender,
      retriesMs: limits.retriesMs,
      awayMs: limits.databaseAwayMs,
    });
    this.#eventPosts = new EventPosts({ ...options, sender: this.#sender, retriesMs: limits.retriesMs });
  }

  /** Posts an event that has no end to all webhooks. */
  async post(event: AlertedEvent): Promise<void> {
    const { webhooks } = await readAlertSettings(this.#options.db);
    this.#eventPosts.post(event, webhooks);
  }

  start(): void {
    this.#timer ??= setInterval(() => void this.check(), this.#options.limits.checkIntervalMs);
    this.#timer.unref();
  }

  /** Checks now, for example after a change of settings. Waits for a running check and then starts another. */
  check(): Promise<void> {
    // Not in the check itself, which waits for the database.
    this.#databaseAway.checkAway(this.#readDatabaseState());
    return this.#checks.request();
  }

  /** Sends a test to a webhook, which may have just been saved; null if no webhook has this name. */
  async test(name: string): Promise<WebhookResponse | null> {
    const { db, clock, newId, origin } = this.#options;
    const { webhooks } = await readAlertSettings(db);
    const webhook = webhooks.find((candidate) => candidate.name === name);
    if (webhook === undefined) return null;
    return sendWebhook(this.#sender, webhook, newId("dlv"), testBody(origin(), clock.nowMs()));
  }

  /** Null until first read. */
  spentToday(): SpentToday | null {
    return this.#viewReader.spentToday();
  }

  /** No check starts after this call; resolves when none is running. */
  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    this.#databaseAway.stop();
    this.#eventPosts.stop();
    // Not at the same time: a check that is still running may add deliveries.
    await this.#checks.stop();
    await this.#deliveries.stop();
  }

  async #check(): Promise<void> {
    const nowMs = this.#options.clock.nowMs();
    try {
      await this.#readSettings();
      const view = await this.#viewReader.read(this.#settings, nowMs);
      await this.#openAlerts.update(view, this.#settings);
      await this.#databaseAway.checkBack(this.#readDatabaseState());
      await this.#removeExpired(nowMs);
    } catch (error) {
      this.#logFailure(error);
      return;
    }
    void this.#deliveries.request();
  }

  #readDatabaseState(): DatabaseState {
    const { clock, store } = this.#options;
    const { webhooks } = this.#settings;
    return { sinceWrittenMs: store.sinceWrittenMs(), nowMs: clock.nowMs(), webhooks };
  }

  /**
   * Every change of settings increases the policy revision, so a new snapshot means that settings must be read
   * again.
   */
  async #readSettings(): Promise<void> {
    const snapshot = this.#options.policy.snapshot();
    if (snapshot === this.#settingsSnapshot) return;
    this.#settings = await readAlertSettings(this.#options.db);
    this.#settingsSnapshot = snapshot;
  }

  async #removeExpired(nowMs: number): Promise<void> {
    if (nowMs - this.#removedAtMs < REMOVE_INTERVAL_MS) return;
    this.#removedAtMs = nowMs;
    await removeAlerts(this.#options.db, nowMs - this.#options.limits.keptMs);
  }

  async #deliver(): Promise<void> {
    const { db, limits } = this.#options;
    const { webhooks } = this.#settings;
    try {
      await deliverDue({ ...this.#sender, db, webhooks, retriesMs: limits.retriesMs });
    } catch (error) {
      this.#logFailure(error);
    }
  }

  #logFailure(error: unknown): void {
    this.#options.log.warn("alerts_failed", { reason: error instanceof Error ? error.message : "unknown" });
  }
}
