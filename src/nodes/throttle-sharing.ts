/**
 * Shares the counts of throttles between nodes: invalid keys and wrong passwords count together, whichever node they
 * reach. Counts are collected and written a few times a second, and decisions only read memory.
 */

import type { Clock } from "../base/clock.ts";
import type { Log } from "../observe/log.ts";
import type { Db } from "../store/engine/db.ts";
import {
  deleteExpiredUse,
  publishThrottleUse,
  readThrottleUse,
  type ThrottleUse,
} from "../store/nodes/throttle-use.ts";
import { SerialPass } from "./serial-pass.ts";

/** One throttle, as it counts on the other nodes. */
export interface SharedCounts {
  /** Attempts of the subject on the other nodes; 0 if there are none. */
  countOthers(subject: string): number;
  /** Time until the windows of the other nodes end. */
  othersEndInMs(subject: string): number;
  /** The attempts of the subject on this node have changed. */
  report(subject: string, taken: number, remainingMs: number): void;
}

interface ThrottleSharingOptions {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
  /** The id of this process. */
  readonly node: string;
  /** The digest of a text under the pepper of the installation, equal on all nodes. */
  digest(text: string): string;
  readonly limits: {
    readonly pollMs: number;
    /** How long counts of this node are collected. */
    readonly delayMs: number;
    /** Subjects of one write. An attacker with many addresses fills no more than this. */
    readonly subjectsMax: number;
    /** Subjects of other nodes that are kept in memory. */
    readonly knownMax: number;
  };
}

interface PendingUse {
  readonly name: string;
  readonly subject: string;
  readonly taken: number;
  readonly endsMs: number;
}

interface OtherUse {
  taken: number;
  endsMs: number;
}

const DELETE_INTERVAL_MS = 60_000;

export class ThrottleSharing {
  readonly #options: ThrottleSharingOptions;
  readonly #pending = new Map<string, PendingUse>();
  /** Subjects whose attempts the other nodes know, with the end of their window. */
  readonly #published = new Map<string, number>();
  /** By throttle and subject, then by node. */
  readonly #others = new Map<string, Map<string, OtherUse>>();
  readonly #pass = new SerialPass(
    () => this.#synchronize(),
    (error) => this.#logFailure(error),
  );
  #revision = 0;
  #deletedMs: number;
  #pollTimer: ReturnType<typeof setInterval> | null = null;
  #sendTimer: ReturnType<typeof setTimeout> | null = null;

  constructor(options: ThrottleSharingOptions) {
    this.#options = options;
    this.#deletedMs = options.clock.monotonicMs();
  }

  start(): void {
    this.#pollTimer ??= setInterval(() => this.#pass.request(), this.#options.limits.pollMs);
    this.#pollTimer.unref();
    this.#pass.request();
  }

  async stop(): Promise<void> {
    if (this.#pollTimer !== null) clearInterval(this.#pollTimer);
    if (this.#sendTimer !== null) clearTimeout(this.#sendTimer);
    await this.#pass.stop();
  }

  /** `reportFrom`: a subject with fewer attempts is not reported, unless it had more. */
  share(name: string, { reportFrom }: { reportFrom: number }): SharedCounts {
    return {
      countOthers: (subject) => this.#sumOthers(name, subject).taken,
      othersEndInMs: (subject) => this.#sumOthers(name, subject).endsInMs,
      report: (subject, taken, remainingMs) => {
        this.#report(name, subject, { taken, remainingMs, isMinor: taken < reportFrom });
      },
    };
  }

  #sumOthers(name: string, subject: string): { taken: number; endsInMs: number } {
    // The common case, without the digest.
    if (this.#others.size === 0) return { taken: 0, endsInMs: 0 };
    const nowMs = this.#options.clock.monotonicMs();
    const uses = this.#others.get(this.#buildKey(name, subject))?.values() ?? [];
    let taken = 0;
    let endsMs = nowMs;
    for (const use of uses) {
      if (use.endsMs <= nowMs) continue;
      taken += use.taken;
      endsMs = Math.max(endsMs, use.endsMs);
    }
    return { taken, endsInMs: endsMs - nowMs };
  }

  #report(
    name: string,
    subject: string,
    use: { taken: number; remainingMs: number; isMinor: boolean },
  ): void {
    const { clock, limits } = this.#options;
    if (use.isMinor && this.#pending.size === 0 && this.#published.size === 0) return;
    const key = this.#buildKey(name, subject);
    if (use.isMinor && !this.#published.has(key)) {
      this.#pending.delete(key);
      return;
    }
    if (this.#pending.size >= limits.subjectsMax && !this.#pending.has(key)) return;
    const digest = key.slice(name.length + 1);
    const endsMs = clock.monotonicMs() + use.remainingMs;
    this.#pending.set(key, { name, subject: digest, taken: use.taken, endsMs });
    this.#sendTimer ??= setTimeout(() => {
      this.#sendTimer = null;
      this.#pass.request();
    }, limits.delayMs);
  }

  /** Neither addresses nor e-mail addresses are stored. */
  #buildKey(name: string, subject: string): string {
    return `${name} ${this.#options.digest(JSON.stringify(["throttle", name, subject]))}`;
  }

  async #synchronize(): Promise<void> {
    const { db, clock, node } = this.#options;
    const nowMs = clock.monotonicMs();
    const pending = [...this.#pending];
    if (pending.length > 0) {
      await publishThrottleUse(
        db,
        { node, clock },
        pending.map(([, use]) => toUse(use, nowMs)),
      );
      for (const [key, use] of pending) {
        this.#published.set(key, use.endsMs);
        if (this.#pending.get(key) === use) this.#pending.delete(key);
      }
    }
    const { revision, uses } = await readThrottleUse(db, { node, clock, since: this.#revision });
    for (const { name, subject, node: other, taken, remainingMs } of uses)
      this.#store(`${name} ${subject}`, other, { taken, endsMs: nowMs + remainingMs });
    this.#revision = revision;
    await this.#deleteExpired(nowMs);
  }

  #store(key: string, node: string, use: OtherUse): void {
    const known = this.#others.get(key);
    if (known !== undefined) {
      known.set(node, use);
      return;
    }
    if (this.#others.size >= this.#options.limits.knownMax) return;
    this.#others.set(key, new Map([[node, use]]));
  }

  async #deleteExpired(nowMs: number): Promise<void> {
    if (nowMs - this.#deletedMs < DELETE_INTERVAL_MS) return;
    this.#deletedMs = nowMs;
    for (const [key, uses] of this.#others)
      if ([...uses.values()].every(({ endsMs }) => endsMs <= nowMs)) this.#others.delete(key);
    for (const [key, endsMs] of this.#published) if (endsMs <= nowMs) this.#published.delete(key);
    await deleteExpiredUse(this.#options.db, this.#options.clock);
  }

  #logFailure(error: unknown): void {
    const reason = error instanceof Error ? error.message : "unknown";
    this.#options.log.warn("throttle_exchange_failed", { reason });
  }
}

function toUse({ name, subject, taken, endsMs }: PendingUse, nowMs: number): ThrottleUse {
  return { name, subject, taken, remainingMs: Math.max(0, endsMs - nowMs) };
}
