/**
 * Verifies the audit log, one verification at a time: each reads the whole log. Requests that arrive meanwhile share the
 * next verification, which begins after them and therefore includes what they want to see verified.
 */

import type { AuditLogVerification } from "../../store/audit-log/audit-log.ts";

interface VerifiedAuditLog extends AuditLogVerification {
  /** When the verification began. */
  readonly atMs: number;
}

interface AuditLogVerifierOptions {
  verify(): Promise<AuditLogVerification>;
  nowMs(): number;
}

const RECENT_MS = 60_000;

export class AuditLogVerifier {
  readonly #options: AuditLogVerifierOptions;
  #running: Promise<VerifiedAuditLog> | null = null;
  #next: Promise<VerifiedAuditLog> | null = null;
  #latest: VerifiedAuditLog | null = null;

  constructor(options: AuditLogVerifierOptions) {
    this.#options = options;
  }

  /** A result of the last minute, or of the verification that runs. */
  async readRecent(): Promise<VerifiedAuditLog> {
    if (this.#running !== null) return this.#running;
    const latest = this.#latest;
    return latest !== null && this.#options.nowMs() - latest.atMs < RECENT_MS ? latest : this.verify();
  }

  /** The result of a verification that begins now or later. */
  verify(): Promise<VerifiedAuditLog> {
    if (this.#running === null) return this.#start();
    this.#next ??= this.#running.then(
      () => this.#startNext(),
      () => this.#startNext(),
    );
    return this.#next;
  }

  #startNext(): Promise<VerifiedAuditLog> {
    this.#next = null;
    return this.#start();
  }

  #start(): Promise<VerifiedAuditLog> {
    this.#running = this.#run().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  async #run(): Promise<VerifiedAuditLog> {
    const atMs = this.#options.nowMs();
    this.#latest = { atMs, ...(await this.#options.verify()) };
    return this.#latest;
  }
}
