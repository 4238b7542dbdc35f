/** All connections of a server: counted for admission, checked against limits, closed at shutdown. */

import type { Socket } from "bun";
import { ConnectionAdmission } from "./admission.ts";
import { ServerConnection } from "./connection.ts";
import { ConnectionBytes } from "./connection-bytes.ts";
import { connectionsMax, fileDescriptorsMax } from "./file-descriptors.ts";
import type { ConnectionLimits, ListenPhase, ManagedConnection, ServerContext } from "./server-context.ts";
import { Turns } from "./turn-queue.ts";

export interface RegistryOptions extends Pick<ServerContext, "serve" | "reject" | "reportFault"> {
  readonly limits: ConnectionLimits & {
    /**
     * Maximum number of open connections. For one more, the connection that is idle longest is closed, or the new one
     * if none is idle.
     */
    readonly max: number;
    /** The share of `max` that the addresses of one block may use. */
    readonly blockShare: number;
    readonly unauthenticatedBytesMax: number;
    /** Memory that pipelined requests of all authenticated clients may occupy together. */
    readonly authenticatedBytesMax: number;
    /** Memory that unread responses of all authenticated clients may occupy together. */
    readonly unsentBytesMax: number;
  };
  /** Whether an address belongs to a proxy, behind which many clients share one address. */
  isProxy(address: string): boolean;
  monotonicMs(): number;
  nowMs(): number;
}

/**
 * Number of pipelined requests of unauthenticated clients that are served in one turn of the event loop. It limits
 * them to a few milliseconds per turn.
 */
const UNAUTHENTICATED_PER_TURN = 128;
/** Connections that are closed in one turn because of a time limit. Closing all of a flood would take 100 ms. */
const TIMED_OUT_PER_TURN = 256;

export class ConnectionRegistry implements ServerContext {
  readonly limits: ConnectionLimits;
  readonly unauthenticatedBytes: ConnectionBytes;
  readonly authenticatedBytes: ConnectionBytes;
  readonly unsentBytes: ConnectionBytes;
  readonly unauthenticatedTurns = new Turns(UNAUTHENTICATED_PER_TURN);
  readonly serve: ServerContext["serve"];
  readonly reject: ServerContext["reject"];
  readonly reportFault: ServerContext["reportFault"];
  nowMs: number;
  dateLine: string;
  phase: ListenPhase = "open";
  readonly #options: RegistryOptions;
  readonly #admission: ConnectionAdmission<ManagedConnection>;
  readonly #active = new Set<ManagedConnection>();
  /** Connections with a complete response. Shutdown does not wait for them. */
  readonly #lingering = new Set<ManagedConnection>();
  /** The rest of the connections of the check in progress; null between checks. */
  #checking: Iterator<ManagedConnection> | null = null;
  readonly #noneActive = Promise.withResolvers<void>();

  constructor(options: RegistryOptions) {
    const { limits } = options;
    this.#options = options;
    this.limits = limits;
    this.serve = options.serve;
    this.reject = options.reject;
    this.reportFault = options.reportFault;
    this.unauthenticatedBytes = new ConnectionBytes(limits.unauthenticatedBytesMax);
    this.authenticatedBytes = new ConnectionBytes(limits.authenticatedBytesMax);
    this.unsentBytes = new ConnectionBytes(limits.unsentBytesMax);
    this.nowMs = options.monotonicMs();
    this.dateLine = formatDateLine(options.nowMs());
    this.#admission = new ConnectionAdmission({
      // Without a free descriptor no connection can be accepted, and the attempts would occupy one CPU core.
      max: Math.min(limits.max, connectionsMax(fileDescriptorsMax())),
      blockShare: limits.blockShare,
      isProxy: options.isProxy,
      all: () => this.#all(),
      nowMs: () => this.nowMs,
    });
  }

  /** Adds a connection that the listener has accepted. */
  open(socket: Socket<ServerConnection>): void {
    const block = this.#admission.getBlock(socket.remoteAddress ?? "");
    const connection = new ServerConnection(this, socket, block);
    socket.data = connection;
    this.#active.add(connection);
    this.#admission.add(connection);
  }

  onResponseEnd(connection: ManagedConnection): void {
    this.#lingering.add(connection);
    this.#removeActive(connection);
  }

  onClose(connection: ManagedConnection): void {
    this.#admission.remove(connection);
    this.#lingering.delete(connection);
    this.#removeActive(connection);
  }

  /** Updates the clock of the connections and closes those that have exceeded a time limit. */
  checkTimeouts(): void {
    this.nowMs = this.#options.monotonicMs();
    this.dateLine = formatDateLine(this.#options.nowMs());
    if (this.#checking !== null) return;
    this.#checking = this.#all();
    this.#continueChecking();
  }

  /** Each connection closes after its next response. */
  announceClose(): void {
    if (this.phase === "open") this.phase = "leaving";
  }

  /** Begins the shutdown. Resolves when all connections have received their pending responses. */
  closeWhenIdle(): Promise<void> {
    this.phase = "closing";
    for (const connection of [...this.#active]) connection.closeWhenIdle();
    if (this.#active.size === 0) this.#noneActive.resolve();
    return this.#noneActive.promise;
  }

  closeNow(): void {
    for (const connection of [...this.#all()]) connection.closeNow();
  }

  #continueChecking(): void {
    let timedOut = 0;
    for (let next = this.#checking?.next(); next?.done === false; next = this.#checking?.next()) {
      if (this.#isTimedOut(next.value)) timedOut++;
      if (timedOut === TIMED_OUT_PER_TURN) {
        setImmediate(() => this.#continueChecking());
        return;
      }
    }
    this.#checking = null;
  }

  /** An error of one connection does not prevent the check of the others. */
  #isTimedOut(connection: ManagedConnection): boolean {
    try {
      return connection.checkTimeouts(this.nowMs);
    } catch (thrown) {
      this.reportFault(thrown);
      connection.closeNow();
      return true;
    }
  }

  #removeActive(connection: ManagedConnection): void {
    this.#active.delete(connection);
    if (this.phase === "closing" && this.#active.size === 0) this.#noneActive.resolve();
  }

  *#all(): Generator<ManagedConnection, void> {
    yield* this.#active;
    yield* this.#lingering;
  }
}

function formatDateLine(nowMs: number): string {
  return `date: ${new Date(nowMs).toUTCString()}\r\n`;
}
