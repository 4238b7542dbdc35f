/**
 * The policy in force: read from the database at start, and again when its revision changes. Requests only read
 * memory. If compiling fails, the old snapshot stays in use and the failure is logged.
 */

import { isBuiltIn } from "../accounts/kinds/table.ts";
import type { Clock } from "../base/clock.ts";
import { nextTurn } from "../base/next-turn.ts";
import type { Log } from "../observe/log.ts";
import type { AccountRecord } from "../records/account.ts";
import type { PolicyRecords } from "../records/policy.ts";
import type { Keyring } from "../secrets/keyring.ts";
import { accountCredentialBinding, unseal } from "../secrets/seal.ts";
import type { Db } from "../store/engine/db.ts";
import { readRevisions } from "../store/engine/revisions.ts";
import { StoreTimeline } from "../store/engine/store-timeline.ts";
import { listChangedKeys, readKeys } from "../store/policy/keys.ts";
import { readPolicy } from "../store/policy/policy.ts";
import { KeyIndex } from "./key-index.ts";
import { compileSnapshot, type Snapshot } from "./snapshot.ts";

/** An import changes thousands of keys at once. What changes while they are read is read by the next check. */
const KEYS_PER_TURN = 1024;

export interface LivePolicy {
  snapshot(): Snapshot;
  readonly keys: KeyIndex;
  /** Applies the changes since the last check; called by a timer and after own writes. */
  refresh(): Promise<void>;
  /** The time since the last successful comparison with the database. */
  ageMs(): number;
  /** Grows with every change of keys and policy. */
  revision(): number;
  close(): void;
}

interface LivePolicyOptions {
  db: Db;
  keyring: Keyring;
  clock: Pick<Clock, "nowMs" | "monotonicMs">;
  /** Starts the built-in simulator when an account first needs it. */
  simulatorUrl: (() => string) | null;
  log: Log;
  /** How often the revision is checked: bounds how long a revoked key still works. */
  pollMs: number;
  /** A check whose read takes longer is abandoned: the database does not respond, and the next check may succeed. */
  timeoutMs: number;
}

export async function openLivePolicy(options: LivePolicyOptions): Promise<LivePolicy> {
  const policy = new PolledPolicy(options);
  await policy.refresh();
  policy.startPolling();
  return policy;
}

/** Owns the snapshot in force, the revisions it was built from, and the check that runs. */
class PolledPolicy implements LivePolicy {
  readonly keys = new KeyIndex();
  readonly #options: LivePolicyOptions;
  readonly #timeline: StoreTimeline;
  #keyRevision = 0;
  #policyRevision = -1;
  #snapshot: Snapshot | null = null;
  #comparedMs: number;
  #running: Promise<void> = Promise.resolve();
  #queued: Promise<void> | null = null;
  #timer: ReturnType<typeof setInterval> | null = null;

  constructor(options: LivePolicyOptions) {
    this.#options = options;
    this.#timeline = new StoreTimeline(options.db);
    this.#comparedMs = options.clock.monotonicMs();
  }

  snapshot(): Snapshot {
    if (this.#snapshot === null) throw new Error("the policy has not been compiled");
    return this.#snapshot;
  }

  revision(): number {
    return this.#keyRevision + this.#policyRevision;
  }

  /** A check in flight may have started before the caller's own write, so a new one is queued after it. */
  refresh(): Promise<void> {
    this.#queued ??= this.#running.then(() => {
      this.#queued = null;
      const check = abandonAfter(this.#options.timeoutMs, (isCurrent) => this.#applyChanges(isCurrent));
      this.#running = check.catch(() => {});
      return check;
    });
    return this.#queued;
  }

  ageMs(): number {
    return this.#options.clock.monotonicMs() - this.#comparedMs;
  }

  startPolling(): void {
    const { log, pollMs } = this.#options;
    this.#timer = setInterval(() => {
      // While the database does not respond, a check takes many intervals: one is queued already, and logs its failure.
      if (this.#queued !== null) return;
      this.refresh().catch((error: unknown) => {
        log.error("policy_refresh_failed", { reason: error instanceof Error ? error.message : "unknown" });
      });
    }, pollMs);
  }

  close(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
  }

  async #applyChanges(isCurrent: () => boolean): Promise<void> {
    const { db, clock } = this.#options;
    if (await this.#timeline.wasReplaced()) this.#forgetRevisions();
    const revisions = await readRevisions(db);
    if (revisions.keys < this.#keyRevision || revisions.policy < this.#policyRevision)
      this.#forgetRevisions();
    if (revisions.keys !== this.#keyRevision) {
      const changed = await listChangedKeys(db, this.#keyRevision);
      if (!isCurrent()) return;
      if (this.#keyRevision === 0) this.keys.keepOnly(changed.ids);
      for (let start = 0; start < changed.ids.length; start += KEYS_PER_TURN) {
        if (start > 0) await nextTurn();
        const keys = await readKeys(db, changed.ids.slice(start, start + KEYS_PER_TURN), clock.nowMs());
        if (!isCurrent()) return;
        this.keys.patch(keys);
      }
      this.#keyRevision = changed.revision;
    }
    if (revisions.policy !== this.#policyRevision) {
      const records = await readPolicy(db);
      if (!isCurrent()) return;
      this.#snapshot = this.#compile(records);
      this.#policyRevision = revisions.policy;
    }
    this.#comparedMs = clock.monotonicMs();
  }

  /** A database that lost its last commits uses their revisions again, for other changes. */
  #forgetRevisions(): void {
    this.#keyRevision = 0;
    this.#policyRevision = -1;
  }

  #compile(records: PolicyRecords): Snapshot {
    const { simulatorUrl, keyring } = this.#options;
    return compileSnapshot(records, {
      simulatorUrl: isSimulated(records) ? (simulatorUrl?.() ?? null) : null,
      unseal: (account) => unsealCredential(keyring, account),
    });
  }
}

function unsealCredential(keyring: Keyring, { id, sealedCredential }: AccountRecord): string | null {
  return sealedCredential === null ? null : unseal(keyring, accountCredentialBinding(id), sealedCredential);
}

/**
 * The late result of an abandoned check must not replace that of a newer one: a check asks after each read whether it is
 * still the current one. The time counts from the last read.
 */
async function abandonAfter(ms: number, check: (isCurrent: () => boolean) => Promise<void>): Promise<void> {
  let isCurrent = true;
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    isCurrent = false;
    reject(new Error("the database does not respond"));
  }, ms);
  const hasRead = () => {
    if (isCurrent) timer.refresh();
    return isCurrent;
  };
  try {
    await Promise.race([check(hasRead), promise]);
  } finally {
    clearTimeout(timer);
  }
}

function isSimulated({ accounts }: PolicyRecords): boolean {
  return accounts.some(({ kind, enabled }) => enabled && isBuiltIn(kind));
}
