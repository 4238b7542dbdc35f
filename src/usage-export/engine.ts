/**
 * Exports usage: one node of the installation posts the usage feed to webhooks, in order and at least once, and removes
 * old entries. All nodes serve the same feed to programs that pull it. Requests bear no cost here.
 */

import type { WebhookResponse } from "../alerts/post-webhook.ts";
import { SerialTask } from "../alerts/serial-task.ts";
import type { WebhookSender } from "../alerts/signed-webhook.ts";
import type { Clock } from "../base/clock.ts";
import type { Log } from "../observe/log.ts";
import type { LivePolicy } from "../policy/live-policy.ts";
import type { Snapshot } from "../policy/snapshot.ts";
import { NO_USAGE_EXPORT, type UsageExportRecord, type WebhookRecord } from "../records/settings.ts";
import type { Db } from "../store/engine/db.ts";
import { type JobLease, JobLeaseLost, type RunJob } from "../store/nodes/job-leases.ts";
import { readUsageExport } from "../store/settings/usage-export-settings.ts";
import { readEntries, readFeed, removeEntries, type UsageFeed } from "../store/usage-feed/feed.ts";
import { FeedHorizon } from "../store/usage-feed/feed-horizon.ts";
import { deleteTarget, type ExportTarget, listTargets, startTarget } from "../store/usage-feed/targets.ts";
import { readBatch, type UsageBatch } from "./batch.ts";
import { sendBatch } from "./delivery.ts";
import { ExportCounts } from "./export-counts.ts";
import { TargetDelivery } from "./target-delivery.ts";

interface UsageExportLimits {
  /** How often each node checks the feed. */
  readonly intervalMs: number;
  readonly deliveryTimeoutMs: number;
  readonly batchRowsMax: number;
  /** Delays after each failed attempt. The last one repeats: a batch is never dropped. */
  readonly retriesMs: readonly number[];
  /** How long entries stay in the feed after they were appended. */
  readonly keptMs: number;
  /** How long a pull waits for open transactions. */
  readonly settleMs: number;
}

interface UsageExportOptions extends Readonly<Omit<WebhookSender, "timeoutMs">> {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
  readonly policy: Pick<LivePolicy, "snapshot">;
  readonly runJob: RunJob;
  readonly limits: UsageExportLimits;
}

const REMOVE_INTERVAL_MS = 60_000;
const REMOVE_ROWS_MAX = 5_000;

export class UsageExport {
  readonly counts = new ExportCounts();
  readonly #options: UsageExportOptions;
  readonly #sender: WebhookSender;
  readonly #horizon: FeedHorizon;
  readonly #rounds = new SerialTask(() => this.#runRound());
  /** The largest batch that each webhook accepts, if it has rejected a larger one. */
  readonly #rowsMax = new Map<string, number>();
  #settings: UsageExportRecord = NO_USAGE_EXPORT;
  /** The snapshot that was current when `#settings` were read. */
  #settingsSnapshot: Snapshot | null = null;
  #removedAtMs = Number.NEGATIVE_INFINITY;
  #timer: ReturnType<typeof setInterval> | null = null;

  constructor(options: UsageExportOptions) {
    this.#options = options;
    this.#sender = { ...options, timeoutMs: options.limits.deliveryTimeoutMs };
    this.#horizon = new FeedHorizon(options.db);
  }

  start(): void {
    this.#timer ??= setInterval(() => void this.check(), this.#options.limits.intervalMs);
    this.#timer.unref();
  }

  /** Delivers what is due, if this node runs the job. Waits for a running round and then starts another. */
  check(): Promise<void> {
    return this.#rounds.request();
  }

  /** No round starts after this call; resolves when none is running. */
  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    await this.#rounds.stop();
  }

  /**
   * Reads entries after a position, for a program that pulls. `after` gets the feed and its last number. Null if the
   * export is disabled.
   */
  async pull(
    after: (feed: UsageFeed, last: number) => number,
    limit: number,
  ): Promise<{ feed: UsageFeed; after: number; batch: UsageBatch } | null> {
    const { db, limits } = this.#options;
    const feed = await readFeed(db);
    if (!feed?.isEnabled) return null;
    const position = after(feed, await this.#horizon.readLast());
    const to = await this.#horizon.settle(limits.settleMs);
    const batch = await readBatch(db, { feedId: feed.id, after: position, to, limit });
    return { feed, after: position, batch };
  }

  /** Sends an empty batch to a webhook, which may have just been saved; null if no webhook has this name. */
  async test(name: string): Promise<WebhookResponse | null> {
    const { db } = this.#options;
    const { webhooks } = await readUsageExport(db);
    const webhook = webhooks.find((candidate) => candidate.name === name);
    const feed = await readFeed(db);
    if (webhook === undefined || feed === null) return null;
    const known = (await listTargets(db)).find((target) => target.name === name);
    const target = known?.feedId === feed.id ? known : startTarget(name, feed);
    return sendBatch(this.#sender, webhook, target, { body: "", rowCount: 0, to: target.deliveredTo });
  }

  async #runRound(): Promise<void> {
    try {
      await this.#readSettings();
      if (!this.#settings.enabled) {
        this.counts.clearLags();
        return;
      }
      let isRunning = false;
      await this.#options.runJob(async (lease) => {
        isRunning = true;
        await this.#deliverAll(lease);
      });
      // Another node runs the job, and reports how far it is.
      if (!isRunning) this.counts.clearLags();
    } catch (error) {
      if (error instanceof JobLeaseLost) return;
      this.#options.log.warn("usage_export_failed", {
        reason: error instanceof Error ? error.message : "unknown",
      });
    }
  }

  /** Every change of settings increases the policy revision, so a new snapshot means that they must be read again. */
  async #readSettings(): Promise<void> {
    const snapshot = this.#options.policy.snapshot();
    if (snapshot === this.#settingsSnapshot) return;
    this.#settings = await readUsageExport(this.#options.db);
    this.#settingsSnapshot = snapshot;
  }

  async #deliverAll(lease: JobLease): Promise<void> {
    const { db } = this.#options;
    const feed = await readFeed(db);
    if (!feed?.isEnabled) return;
    const horizon = await this.#horizon.advance();
    const known = new Map((await listTargets(db)).map((target) => [target.name, target]));
    const webhooks = this.#settings.webhooks.filter(({ enabled }) => enabled);
    const targets = await Promise.all(
      webhooks.map(async (webhook) => {
        const target = await this.#deliverTo(webhook, known.get(webhook.name), { feed, horizon, lease });
        await this.#reportLag(target, horizon);
        return target;
      }),
    );
    this.counts.keepLags(webhooks.map(({ name }) => name));
    const names = new Set(this.#settings.webhooks.map(({ name }) => name));
    for (const name of known.keys()) if (!names.has(name)) await deleteTarget(db, name);
    await this.#removeExpired(Math.min(horizon, ...targets.map(({ deliveredTo }) => deliveredTo)));
  }

  #deliverTo(
    webhook: WebhookRecord,
    known: ExportTarget | undefined,
    round: { feed: UsageFeed; horizon: number; lease: JobLease },
  ): Promise<ExportTarget> {
    const { db, clock, log, limits } = this.#options;
    const delivery = new TargetDelivery({
      ...round,
      db,
      clock,
      log,
      limits,
      webhook,
      sender: this.#sender,
      counts: this.counts,
      rowsMax: this.#rowsMax,
    });
    return delivery.run(known);
  }

  async #reportLag({ name, deliveredTo }: ExportTarget, horizon: number): Promise<void> {
    const { db, clock } = this.#options;
    const [oldest] = await readEntries(db, { after: deliveredTo, to: horizon, limit: 1 });
    const lagMs = oldest === undefined ? 0 : Math.max(0, clock.nowMs() - oldest.appendedAtMs);
    this.counts.setLag(name, lagMs / 1_000);
  }

  async #removeExpired(upTo: number): Promise<void> {
    const { db, clock, limits } = this.#options;
    const nowMs = clock.nowMs();
    if (nowMs - this.#removedAtMs < REMOVE_INTERVAL_MS) return;
    const removed = await removeEntries(db, {
      beforeMs: nowMs - limits.keptMs,
      upTo,
      limit: REMOVE_ROWS_MAX,
    });
    // More entries may have expired: the next round removes them.
    if (removed < REMOVE_ROWS_MAX) this.#removedAtMs = nowMs;
  }
}
