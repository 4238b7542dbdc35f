/**
 * Shares the health of upstream accounts between the nodes of an installation: an account that one node has found
 * parked, out of quota or cooling down is so on all of them, and one node probes it.
 */

import type { PolicyAccount } from "../accounts/account.ts";
import type { Clock } from "../base/clock.ts";
import type { Log } from "../observe/log.ts";
import type { LivePolicy } from "../policy/live-policy.ts";
import { hashAffinity } from "../pool/affinity.ts";
import { CAUSES } from "../pool/cool-down.ts";
import type { Pool } from "../pool/pool.ts";
import type { HealthObserver, HealthReport } from "../pool/shared-health.ts";
import type { Db } from "../store/engine/db.ts";
import {
  type AccountFact,
  listNodeIds,
  publishAccountFacts,
  readAccountFacts,
} from "../store/nodes/account-facts.ts";
import { SerialPass } from "./serial-pass.ts";

interface HealthSharingOptions {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
  /** The id of this process. */
  readonly node: string;
  readonly policy: Pick<LivePolicy, "snapshot">;
  readonly pool: Pick<Pool, "applyReport" | "observeHealth">;
  /** The digest of a text under the pepper of the installation, equal on all nodes. */
  digest(text: string): string;
  readonly limits: {
    /** How often the database is checked for reports of other nodes, if no notification arrives. */
    readonly pollMs: number;
    /** How long reports of this node are collected. */
    readonly delayMs: number;
    /** How long a node leaves a probe to the node that has reported the failure, and to each node before it. */
    readonly probeDelayMs: number;
  };
}

interface PendingReport {
  readonly fact: AccountFact;
  readonly reportedMs: number;
}

export class HealthSharing implements HealthObserver {
  readonly #options: HealthSharingOptions;
  /** The latest report about each account and model. */
  readonly #pending = new Map<string, PendingReport>();
  readonly #accessDigests = new WeakMap<PolicyAccount, string>();
  readonly #sending = new SerialPass(
    () => this.#send(),
    (error) => this.#logFailure(error),
  );
  readonly #receiving = new SerialPass(
    () => this.#receive(),
    (error) => this.#logFailure(error),
  );
  #revision = 0;
  #pollTimer: ReturnType<typeof setInterval> | null = null;
  #sendTimer: ReturnType<typeof setTimeout> | null = null;

  constructor(options: HealthSharingOptions) {
    this.#options = options;
  }

  /** Resolves when the reports of the other nodes are known. */
  async start(): Promise<void> {
    const { pool, limits } = this.#options;
    await this.#receive();
    pool.observeHealth(this);
    this.#pollTimer = setInterval(() => {
      this.receive();
      // Reports that the database has not accepted before.
      if (this.#pending.size > 0) this.#sending.request();
    }, limits.pollMs);
    this.#pollTimer.unref();
  }

  /** Call it when another node has published a report. */
  receive(): void {
    this.#receiving.request();
  }

  onHealthChange(account: PolicyAccount, model: string | null, report: HealthReport): void {
    const { clock, limits } = this.#options;
    const fact: AccountFact = {
      accountId: account.id,
      model: model ?? "",
      access: this.#digestAccess(account),
      cause: report.kind === "works" ? null : report.cause,
      remainingMs: report.kind === "works" ? 0 : report.forMs,
      needsProbe: report.kind === "unusable" && report.needsProbe,
    };
    this.#pending.set(`${account.id} ${fact.model}`, { fact, reportedMs: clock.monotonicMs() });
    this.#sendTimer ??= setTimeout(() => {
      this.#sendTimer = null;
      this.#sending.request();
    }, limits.delayMs);
  }

  async stop(): Promise<void> {
    if (this.#pollTimer !== null) clearInterval(this.#pollTimer);
    if (this.#sendTimer !== null) clearTimeout(this.#sendTimer);
    this.#sending.request();
    await Promise.all([this.#sending.stop(), this.#receiving.stop()]);
  }

  async #send(): Promise<void> {
    const { db, clock, node } = this.#options;
    const reports = [...this.#pending];
    if (reports.length === 0) return;
    const nowMs = clock.monotonicMs();
    const facts = reports.map(([, { fact, reportedMs }]) => ({
      ...fact,
      remainingMs: fact.remainingMs - (nowMs - reportedMs),
    }));
    await publishAccountFacts(db, { node, clock }, facts);
    // A report that arrived meanwhile stays.
    for (const [key, report] of reports) if (this.#pending.get(key) === report) this.#pending.delete(key);
  }

  async #receive(): Promise<void> {
    const { db, clock, node } = this.#options;
    const { revision, facts } = await readAccountFacts(db, { node, clock, since: this.#revision });
    const nodeIds = facts.some(({ needsProbe }) => needsProbe) ? await listNodeIds(db) : [];
    for (const fact of facts) this.#apply(fact, nodeIds);
    this.#revision = revision;
  }

  #apply(fact: AccountFact, nodeIds: readonly string[]): void {
    const { policy, pool } = this.#options;
    const account = policy.snapshot().accounts.get(fact.accountId);
    if (account === undefined || this.#digestAccess(account) !== fact.access) return;
    const report = toReport(fact);
    if (report === null) return;
    const probeDelayMs = this.#computeProbeDelay(fact, nodeIds);
    pool.applyReport(account, fact.model === "" ? null : fact.model, { report, probeDelayMs });
  }

  /** The node that reported the failure probes first. Each other node has its place after it. */
  #computeProbeDelay({ accountId, model }: AccountFact, nodeIds: readonly string[]): number {
    const { node, limits } = this.#options;
    const place = (id: string) => hashAffinity(`${accountId} ${model} ${id}`);
    const before = nodeIds.filter((id) => id !== node && place(id) < place(node)).length;
    return limits.probeDelayMs * (1 + before);
  }

  #digestAccess(account: PolicyAccount): string {
    const known = this.#accessDigests.get(account);
    if (known !== undefined) return known;
    const { kind, baseUrl, credential } = account;
    const digest = this.#options.digest(JSON.stringify(["account access", kind, baseUrl, credential]));
    this.#accessDigests.set(account, digest);
    return digest;
  }

  #logFailure(error: unknown): void {
    const reason = error instanceof Error ? error.message : "unknown";
    this.#options.log.warn("health_exchange_failed", { reason });
  }
}

/** Null for a cause of a newer version. */
function toReport({ cause, remainingMs, needsProbe }: AccountFact): HealthReport | null {
  if (cause === null) return { kind: "works" };
  const known = CAUSES.find((one) => one === cause);
  return known === undefined ? null : { kind: "unusable", cause: known, forMs: remainingMs, needsProbe };
}
