/** Publishes this process among the nodes of the installation: its version, address and state, for administrators. */

import type { Clock } from "../base/clock.ts";
import type { Log } from "../observe/log.ts";
import type { Db } from "../store/engine/db.ts";
import { isProgramSupported } from "../store/engine/migrate.ts";
import { measureClockSkew, type NodeFacts, publishFacts } from "../store/nodes/nodes.ts";
import { VERSION } from "../version.ts";

interface NodeStatusOptions {
  readonly db: Db;
  /** The clock of the machine, not the one of the database. */
  readonly machineClock: Pick<Clock, "nowMs" | "monotonicMs">;
  readonly log: Log;
  readonly id: string;
  readonly everyMs: number;
}

export class NodeStatus {
  readonly #options: NodeStatusOptions;
  #facts: NodeFacts = {
    version: VERSION,
    address: null,
    state: "starting",
    coordinator: "memory",
    clockSkewMs: 0,
  };
  #isSupported = true;
  #writtenAtMs: number;
  #timer: ReturnType<typeof setInterval> | null = null;
  #publishing: Promise<void> = Promise.resolve();
  /** Waits for the one in flight, and publishes what is known then: a database that is away gets one later, not many. */
  #nextPublishing: Promise<void> | null = null;

  constructor(options: NodeStatusOptions) {
    this.#options = options;
    this.#writtenAtMs = options.machineClock.monotonicMs();
  }

  /** Since the database last accepted what this node publishes. */
  sinceWrittenMs(): number {
    return this.#options.machineClock.monotonicMs() - this.#writtenAtMs;
  }

  /** False once a migration has removed what this version needs, while this process was taken for dead. */
  get isSupported(): boolean {
    return this.#isSupported;
  }

  start(): void {
    this.#timer ??= setInterval(() => void this.#publish(), this.#options.everyMs);
    this.#timer.unref();
    void this.#publish();
  }

  /** Publishes the change at once. */
  update(facts: Partial<Pick<NodeFacts, "address" | "state" | "coordinator">>): Promise<void> {
    this.#facts = { ...this.#facts, ...facts };
    return this.#publish();
  }

  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    await (this.#nextPublishing ?? this.#publishing);
  }

  #publish(): Promise<void> {
    this.#nextPublishing ??= this.#publishing.then(() => {
      this.#nextPublishing = null;
      this.#publishing = this.#write();
      return this.#publishing;
    });
    return this.#nextPublishing;
  }

  async #write(): Promise<void> {
    const { db, machineClock, log, id } = this.#options;
    try {
      this.#facts = { ...this.#facts, clockSkewMs: await measureClockSkew(db, machineClock) };
      await publishFacts(db, id, this.#facts);
      this.#writtenAtMs = machineClock.monotonicMs();
      const isSupported = await isProgramSupported(db);
      if (!isSupported && this.#isSupported) log.error("schema_not_supported", { version: VERSION });
      this.#isSupported = isSupported;
    } catch (error) {
      log.warn("node_status_failed", { reason: error instanceof Error ? error.message : "unknown" });
    }
  }
}
