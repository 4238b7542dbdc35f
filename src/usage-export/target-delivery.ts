/** Delivers the usage feed to one webhook: batches in order, each until it is accepted. */

import type { WebhookSender } from "../alerts/signed-webhook.ts";
import type { Clock } from "../base/clock.ts";
import type { Log } from "../observe/log.ts";
import type { WebhookRecord } from "../records/settings.ts";
import { type Db, transaction } from "../store/engine/db.ts";
import type { JobLease } from "../store/nodes/job-leases.ts";
import type { UsageFeed } from "../store/usage-feed/feed.ts";
import { type ExportTarget, startTarget, writeTarget } from "../store/usage-feed/targets.ts";
import { readBatch, type UsageBatch } from "./batch.ts";
import { applyResponse, sendBatch } from "./delivery.ts";
import type { ExportCounts } from "./export-counts.ts";

interface TargetDeliveryOptions {
  readonly db: Db;
  readonly clock: Pick<Clock, "nowMs">;
  readonly log: Log;
  readonly limits: { readonly batchRowsMax: number; readonly retriesMs: readonly number[] };
  readonly webhook: WebhookRecord;
  readonly feed: UsageFeed;
  readonly horizon: number;
  readonly lease: JobLease;
  readonly sender: WebhookSender;
  readonly counts: ExportCounts;
  /** The largest batch that each webhook accepts, if it has rejected a larger one. */
  readonly rowsMax: Map<string, number>;
}

/** The other webhooks of a round wait for this one, so each gets a part of a large backlog. */
const BATCHES_PER_ROUND_MAX = 20;

export class TargetDelivery {
  readonly #options: TargetDeliveryOptions;

  constructor(options: TargetDeliveryOptions) {
    this.#options = options;
  }

  /** Delivers what is due. Returns the position of the webhook afterwards. */
  async run(known: ExportTarget | undefined): Promise<ExportTarget> {
    let target = this.#resume(known);
    for (let sent = 0; sent < BATCHES_PER_ROUND_MAX; sent += 1) {
      const next = await this.#deliverOne(target);
      if (next === target) return target;
      target = next;
      if (target.failures > 0) return target;
    }
    return target;
  }

  /** A webhook that was disabled for long continues with the oldest entry that is kept. */
  #resume(known: ExportTarget | undefined): ExportTarget {
    const { webhook, feed } = this.#options;
    if (known === undefined || known.feedId !== feed.id) return startTarget(webhook.name, feed);
    return known.deliveredTo >= feed.removedTo
      ? known
      : { ...known, deliveredTo: feed.removedTo, sendingTo: null };
  }

  /** Returns the same target if nothing is due. */
  async #deliverOne(target: ExportTarget): Promise<ExportTarget> {
    const { clock, webhook, horizon, limits, sender, counts, rowsMax } = this.#options;
    if (target.dueAtMs > clock.nowMs()) return target;
    const batch = await this.#read(target);
    if (batch.entryCount === 0) return target;
    const sending = { ...target, sendingTo: batch.to };
    if (batch.rowCount === 0) return this.#save({ ...target, deliveredTo: batch.to, sendingTo: null });
    // Stored before it is sent: after a restart, the same batch is sent again under the same id.
    if (target.sendingTo !== batch.to) await this.#save(sending);
    const response = await sendBatch(sender, webhook, target, batch);
    if (response.ok) {
      counts.delivered += 1;
      counts.rows += batch.rowCount;
    } else {
      counts.failed += 1;
      this.#logFailure(sending, response.response);
    }
    const next = applyResponse(sending, response, {
      nowMs: clock.nowMs(),
      retriesMs: limits.retriesMs,
      removedTo: this.#options.feed.removedTo,
      horizon,
      middle: batch.middle,
    });
    if (next.sendingTo !== null && next.sendingTo < batch.to)
      rowsMax.set(webhook.name, Math.ceil(batch.entryCount / 2));
    return this.#save(next);
  }

  #read({ feedId, deliveredTo, sendingTo }: ExportTarget): Promise<UsageBatch> {
    const { db, horizon, limits, webhook, rowsMax } = this.#options;
    const limit = rowsMax.get(webhook.name) ?? limits.batchRowsMax;
    // The end of a batch in delivery was below the horizon when it was chosen, on this node or another.
    const range = { feedId, after: deliveredTo };
    return sendingTo === null
      ? readBatch(db, { ...range, to: horizon, limit })
      : readBatch(db, { ...range, to: sendingTo, limit: limits.batchRowsMax });
  }

  async #save(target: ExportTarget): Promise<ExportTarget> {
    const { db, lease } = this.#options;
    await transaction(db, async (tx) => {
      await lease.check(tx);
      await writeTarget(tx, target);
    });
    return target;
  }

  /** Once for each row of failures: every retry would fill the log. */
  #logFailure({ name, failures }: ExportTarget, response: string): void {
    if (failures === 0) this.#options.log.warn("usage_delivery_failed", { webhook: name, reason: response });
  }
}
