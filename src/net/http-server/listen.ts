/** The HTTP server: accepts connections, checks all of them with one timer and closes them in order at shutdown. */

import { ConnectionAdmission } from "./admission.ts";
import { ServerConnection } from "./connection.ts";
import { ConnectionBytes } from "./connection-bytes.ts";
import { connectionsMax, fileDescriptorsMax } from "./file-descriptors.ts";
import type { ConnectionLimits, ManagedConnection, ServerContext } from "./server-context.ts";
import { Turns } from "./turns.ts";

export interface ListenOptions extends Pick<ServerContext, "serve" | "refuse" | "fault"> {
  readonly hostname: string;
  readonly port: number;
  readonly limits: ConnectionLimits & {
    /**
     * Maximum number of open connections. For one more, the connection that is idle longest is closed, or the new one
     * if none is idle.
     */
    readonly max: number;
    /** The share of `max` that the addresses of one block may use. */
    readonly blockShare: number;
    /** Memory that all unauthenticated clients may occupy together. */
    readonly strangerBytesMax: number;
    /** Memory that pipelined requests of all authenticated clients may occupy together. */
    readonly clientBytesMax: number;
    readonly lookMs: number;
  };
  /** Whether an address belongs to a proxy, behind which many clients share one address. */
  isProxy(address: string): boolean;
  monotonicMs(): number;
  nowMs(): number;
}

export interface HttpListener {
  readonly hostname: string;
  readonly port: number;
  /**
   * Stops accepting connections. Resolves when all connections have received their pending responses and were closed.
   */
  close(): Promise<void>;
  /** Closes all remaining connections at once. */
  cut(): void;
}

/**
 * Number of pipelined requests of unauthenticated clients that are served in one turn of the event loop. It limits
 * them to a few milliseconds per turn.
 */
const UNAUTHENTICATED_PER_TURN = 128;

export function listen(options: ListenOptions): HttpListener {
  const { limits } = options;
  const active = new Set<ManagedConnection>();
  /** Connections with a complete response. `close` does not wait for them. */
  const lingering = new Set<ManagedConnection>();
  let empty: PromiseWithResolvers<void> | null = null;

  const context = {
    limits,
    strangerBytes: new ConnectionBytes(limits.strangerBytesMax),
    clientBytes: new ConnectionBytes(limits.clientBytesMax),
    strangerTurns: new Turns(UNAUTHENTICATED_PER_TURN),
    nowMs: options.monotonicMs(),
    dateLine: dateLine(options.nowMs()),
    isClosing: false,
    serve: options.serve,
    refuse: options.refuse,
    fault: options.fault,
    ended(connection: ManagedConnection) {
      lingering.add(connection);
      forget(connection);
    },
    left(connection: ManagedConnection) {
      admission.left(connection);
      lingering.delete(connection);
      forget(connection);
    },
  };

  const admission = new ConnectionAdmission<ManagedConnection>({
    // Without a free descriptor no connection can be accepted, and the attempts would occupy one CPU core.
    max: Math.min(limits.max, connectionsMax(fileDescriptorsMax())),
    blockShare: limits.blockShare,
    isProxy: options.isProxy,
    *all() {
      yield* active;
      yield* lingering;
    },
    nowMs: () => context.nowMs,
  });

  function forget(connection: ManagedConnection): void {
    active.delete(connection);
    if (active.size === 0) empty?.resolve();
  }

  function checkAll(): void {
    context.nowMs = options.monotonicMs();
    context.dateLine = dateLine(options.nowMs());
    for (const connections of [active, lingering]) for (const connection of connections) check(connection);
  }

  /** An error of one connection does not prevent the check of the others. */
  function check(connection: ManagedConnection): void {
    try {
      connection.look(context.nowMs);
    } catch (thrown) {
      context.fault(thrown);
      connection.cut();
    }
  }

  const timer = setInterval(checkAll, limits.lookMs);
  timer.unref();

  const listener = Bun.listen<ServerConnection>({
    hostname: options.hostname,
    port: options.port,
    socket: {
      open(socket) {
        const connection = new ServerConnection(
          context,
          socket,
          admission.blockOf(socket.remoteAddress ?? ""),
        );
        socket.data = connection;
        active.add(connection);
        admission.enter(connection);
      },
      data: (socket, bytes) => socket.data.received(bytes),
      drain: (socket) => socket.data.drained(),
      close: (socket) => socket.data.closed(),
      /** An exception of one of these handlers. Network errors are reported by `close`. */
      error: (socket, thrown) => socket.data.failed(thrown),
    },
  });

  return {
    hostname: listener.hostname,
    port: listener.port,
    close() {
      empty ??= Promise.withResolvers<void>();
      context.isClosing = true;
      listener.stop();
      for (const connection of [...active]) connection.retire();
      if (active.size === 0) empty.resolve();
      return empty.promise;
    },
    cut() {
      clearInterval(timer);
      listener.stop();
      for (const connection of [...active, ...lingering]) connection.cut();
    },
  };
}

function dateLine(nowMs: number): string {
  return `date: ${new Date(nowMs).toUTCString()}\r\n`;
}
