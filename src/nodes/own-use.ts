/**
 * Counts what the requests of this process have used, by key, group and hour, and publishes it. The other nodes then
 * know which part of the stored usage was used by processes that have ended.
 */

import type { Clock } from "../base/clock.ts";
import type { Log } from "../observe/log.ts";
import type { Db } from "../store/engine/db.ts";
import { deleteOldNodeUse, publishNodeUse } from "../store/usage/node-use.ts";
import type { UsageRow } from "../store/usage/usage-row.ts";

export interface OwnUseOptions {
  readonly db: Db;
  readonly clock: Pick<Clock, "nowMs">;
  readonly log: Log;
  /** The id of this process. */
  readonly node: string;
  /** Resolves when all rows that were added are stored. What is published must never exceed what is stored. */
  flush(): Promise<void>;
  readonly limits: {
    /** How often a node publishes without a change of nodes, so that hours do not accumulate in memory. */
    readonly publishIntervalMs: number;
    /** How long an hour that has ended stays in memory. */
    readonly keptMs: number;
  };
}

interface HourUse {
  readonly keyId: string;
  readonly groupId: string;
  readonly hourMs: number;
  requests: number;
  tokens: number;
  costNano: bigint;
  isChanged: boolean;
}

const HOUR_MS = 3_600_000;
/** The longest window is 30 days. */
const PUBLISHED_MS = 31 * 24 * HOUR_MS;

export class OwnUse {
  readonly #options: OwnUseOptions;
  readonly #hours = new Map<string, HourUse>();
  #publishing: Promise<void> = Promise.resolve();
  #timer: ReturnType<typeof setInterval> | null = null;

  constructor(options: OwnUseOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer ??= setInterval(() => {
      this.#publishAndClean().catch((error: unknown) => {
        const reason = error instanceof Error ? error.message : "unknown";
        this.#options.log.warn("node_use_failed", { reason });
      });
    }, this.#options.limits.publishIntervalMs);
    this.#timer.unref();
  }

  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    await this.#publishing.catch(() => {});
  }

  /** Counts a row as the hourly sums of the database do. */
  add({ keyId, groupId, atMs, outcome, requestCount, inputTokens, outputTokens, costNano }: UsageRow): void {
    if (outcome === "refused" || requestCount === 0) return;
    const hourMs = Math.floor(atMs / HOUR_MS) * HOUR_MS;
    const name = `${hourMs} ${keyId} ${groupId}`;
    let hour = this.#hours.get(name);
    if (hour === undefined) {
      hour = { keyId, groupId, hourMs, requests: 0, tokens: 0, costNano: 0n, isChanged: true };
      this.#hours.set(name, hour);
    }
    hour.requests += requestCount;
    hour.tokens += inputTokens + outputTokens;
    if (costNano !== 0n) hour.costNano += costNano;
    hour.isChanged = true;
  }

  /** One at a time: a later sum must not be replaced by an earlier one. */
  publish(): Promise<void> {
    const published = this.#publishing.catch(() => {}).then(() => this.#publishChanged());
    this.#publishing = published;
    return published;
  }

  async #publishAndClean(): Promise<void> {
    const { db, clock } = this.#options;
    await this.publish();
    await deleteOldNodeUse(db, clock.nowMs() - PUBLISHED_MS);
  }

  async #publishChanged(): Promise<void> {
    const { db, clock, node, flush, limits } = this.#options;
    const changed = [...this.#hours.values()].filter(({ isChanged }) => isChanged);
    const uses = changed.map((hour) => ({ ...hour }));
    for (const hour of changed) hour.isChanged = false;
    const nowMs = clock.nowMs();
    try {
      await flush();
      await publishNodeUse(db, node, uses);
    } catch (error) {
      for (const hour of changed) hour.isChanged = true;
      throw error;
    }
    for (const [name, { hourMs, isChanged }] of this.#hours)
      if (!isChanged && hourMs + HOUR_MS < nowMs - limits.keptMs) this.#hours.delete(name);
  }
}
