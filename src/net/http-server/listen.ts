/** The HTTP server: listens on a port and passes the events of its sockets to their connections. */

import type { ServerConnection } from "./connection.ts";
import { ConnectionRegistry, type RegistryOptions } from "./connection-registry.ts";

export interface ListenOptions extends RegistryOptions {
  readonly hostname: string;
  readonly port: number;
  readonly limits: RegistryOptions["limits"] & {
    /** Interval at which the time limits of all connections are checked. */
    readonly checkMs: number;
  };
}

export interface HttpListener {
  readonly hostname: string;
  readonly port: number;
  /** From now on each response closes its connection. Further connections are accepted. */
  announceClose(): void;
  /**
   * Stops accepting connections. Resolves when all connections have received their pending responses and were closed.
   */
  close(): Promise<void>;
  /** Closes all remaining connections at once. */
  closeNow(): void;
}

export function listen(options: ListenOptions): HttpListener {
  const connections = new ConnectionRegistry(options);
  const timer = setInterval(() => connections.checkTimeouts(), options.limits.checkMs);
  timer.unref();

  const listener = Bun.listen<ServerConnection>({
    hostname: options.hostname,
    port: options.port,
    socket: {
      open: (socket) => connections.open(socket),
      data: (socket, bytes) => socket.data.onData(bytes),
      drain: (socket) => socket.data.onDrain(),
      close: (socket) => socket.data.onClose(),
      /** An exception of one of these handlers. Network errors are reported by `close`. */
      error: (socket, thrown) => socket.data.failResponse(thrown),
    },
  });

  return {
    hostname: listener.hostname,
    port: listener.port,
    announceClose: () => connections.announceClose(),
    close() {
      listener.stop();
      return connections.closeWhenIdle();
    },
    closeNow() {
      clearInterval(timer);
      listener.stop();
      connections.closeNow();
    },
  };
}
