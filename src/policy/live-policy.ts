/**
 * The policy in force: read from the database at start, and again when its revision changes. Requests only read
 * memory. If compiling fails, the old snapshot stays in use and the failure is logged.
 */

import type { Clock } from "../net/wire/clock.ts";
import type { Log } from "../observe/log.ts";
import type { AccountRecord, PolicyRecords } from "../records.ts";
import type { Keyring } from "../secrets/keyring.ts";
import { accountCredentialBinding, unseal } from "../secrets/seal.ts";
import type { Db } from "../store/engine/db.ts";
import { readRevisions } from "../store/engine/revisions.ts";
import { readKeys } from "../store/policy/keys.ts";
import { readPolicy } from "../store/policy/policy.ts";
import { createKeyIndex, type KeyIndex } from "./key-index.ts";
import { compileSnapshot, type Snapshot } from "./snapshot.ts";

export interface LivePolicy {
  snapshot(): Snapshot;
  readonly keys: KeyIndex;
  /** Applies the changes since the last check; called by a timer and after own writes. */
  refresh(): Promise<void>;
  /** The time since the last successful comparison with the database. */
  ageMs(): number;
  close(): void;
}

export interface LivePolicyOptions {
  db: Db;
  keyring: Keyring;
  clock: Pick<Clock, "nowMs" | "monotonicMs">;
  /** Starts the built-in simulator when an account first needs it. */
  simulatorUrl: (() => string) | null;
  log: Log;
  /** How often the revision is checked: bounds how long a revoked key still works. */
  pollMs: number;
  /** A check that takes longer is abandoned: the database does not respond, and the next check may succeed. */
  timeoutMs: number;
}

export async function openLivePolicy(options: LivePolicyOptions): Promise<LivePolicy> {
  const { db, keyring, log } = options;
  const keys = createKeyIndex();
  let keyRevision = 0;
  let policyRevision = -1;
  let snapshot: Snapshot | null = null;
  let comparedMs = options.clock.monotonicMs();
  let running: Promise<void> = Promise.resolve();
  let queued: Promise<void> | null = null;

  async function applyChanges(isCurrent: () => boolean): Promise<void> {
    const revisions = await readRevisions(db);
    if (revisions.keys !== keyRevision) {
      const changed = await readKeys(db, keyRevision, options.clock.nowMs());
      if (!isCurrent()) return;
      keys.patch(changed.keys);
      keyRevision = changed.revision;
    }
    if (revisions.policy !== policyRevision) {
      const records = await readPolicy(db);
      if (!isCurrent()) return;
      snapshot = compileSnapshot(records, {
        simulatorUrl: isSimulated(records) ? (options.simulatorUrl?.() ?? null) : null,
        unseal: (account) => unsealCredential(keyring, account),
      });
      policyRevision = revisions.policy;
    }
    comparedMs = options.clock.monotonicMs();
  }

  /** A check in flight may have started before the caller's own write, so a new one is queued after it. */
  function refresh(): Promise<void> {
    queued ??= running.then(() => {
      queued = null;
      const check = abandonAfter(options.timeoutMs, applyChanges);
      running = check.catch(() => {});
      return check;
    });
    return queued;
  }

  await refresh();
  const timer = setInterval(() => {
    refresh().catch((error: unknown) => {
      log.error("policy_refresh_failed", { reason: error instanceof Error ? error.message : "unknown" });
    });
  }, options.pollMs);

  return {
    snapshot() {
      if (!snapshot) throw new Error("the policy has not been compiled");
      return snapshot;
    },
    keys,
    refresh,
    ageMs: () => options.clock.monotonicMs() - comparedMs,
    close: () => clearInterval(timer),
  };
}

function unsealCredential(keyring: Keyring, { id, sealedCredential }: AccountRecord): string | null {
  return sealedCredential === null ? null : unseal(keyring, accountCredentialBinding(id), sealedCredential);
}

/** The late result of an abandoned check must not replace that of a newer one. */
async function abandonAfter(ms: number, check: (isCurrent: () => boolean) => Promise<void>): Promise<void> {
  let isCurrent = true;
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    isCurrent = false;
    reject(new Error("the database does not respond"));
  }, ms);
  try {
    await Promise.race([check(() => isCurrent), promise]);
  } finally {
    clearTimeout(timer);
  }
}

function isSimulated({ accounts }: PolicyRecords): boolean {
  return accounts.some(({ kind, enabled }) => kind === "simulator" && enabled);
}
