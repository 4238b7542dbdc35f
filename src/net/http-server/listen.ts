/** The HTTP server: listens on a port and passes the events of its sockets to their connections. */

import type { TCPSocketListenOptions } from "bun";
import type { ServerConnection } from "./connection.ts";
import { ConnectionRegistry, type RegistryOptions } from "./connection-registry.ts";

export interface ListenOptions extends RegistryOptions {
  readonly hostname: string;
  readonly port: number;
  /** Other processes of the same user may listen on the port, too. The kernel divides connections between them. */
  readonly isPortShared: boolean;
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
  /** Stops accepting connections. Those that are open are served on. */
  stopListening(): void;
  /** Stops accepting. Resolves when all connections have got their responses and were closed. */
  close(): Promise<void>;
  /** Closes all remaining connections at once. */
  closeNow(): void;
}

export function listen(options: ListenOptions): HttpListener {
  const connections = new ConnectionRegistry(options);
  const timer = setInterval(() => connections.checkTimeouts(), options.limits.checkMs);
  timer.unref();

  // The types of the runtime lack `reusePort` here.
  const socketOptions: TCPSocketListenOptions<ServerConnection> & { reusePort: boolean } = {
    hostname: options.hostname,
    port: options.port,
    reusePort: options.isPortShared,
    socket: {
      open: (socket) => connections.open(socket),
      data: (socket, bytes) => socket.data.onData(bytes),
      drain: (socket) => socket.data.onDrain(),
      close: (socket) => socket.data.onClose(),
      /** An exception of one of these handlers. Network errors are reported by `close`. */
      error: (socket, thrown) => socket.data.failResponse(thrown),
    },
  };
  const listener = Bun.listen(socketOptions);

  return {
    hostname: listener.hostname,
    port: listener.port,
    announceClose: () => connections.announceClose(),
    stopListening: () => listener.stop(),
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
