/** Listens for connections, looks after all of them with one timer, and lets them go in order. */

import { CONNECTION_HANDLERS, Connection, type Hall } from "./connection.ts";
import type { ConnectionLimits } from "./connection-limits.ts";

export interface ListenOptions extends Pick<Hall, "serve" | "refuse"> {
  readonly hostname: string;
  readonly port: number;
  readonly limits: ConnectionLimits & { readonly lookMs: number };
  monotonicMs(): number;
  nowMs(): number;
}

export interface Listening {
  readonly hostname: string;
  readonly port: number;
  /** Takes no more connections. Resolves when the last one has been let go, each after the answer it waits for. */
  close(): Promise<void>;
  /** Whoever is left. */
  cut(): void;
}

export function listen(options: ListenOptions): Listening {
  const connections = new Set<Connection>();
  /** Those that have their answers: nobody waits for them. */
  const lingering = new Set<Connection>();
  let empty: PromiseWithResolvers<void> | null = null;

  const hall = {
    limits: options.limits,
    nowMs: options.monotonicMs(),
    dateLine: dateLine(options.nowMs()),
    isClosing: false,
    serve: options.serve,
    refuse: options.refuse,
    ended(connection: Connection) {
      lingering.add(connection);
      forget(connection);
    },
    left(connection: Connection) {
      lingering.delete(connection);
      forget(connection);
    },
  };

  function forget(connection: Connection): void {
    connections.delete(connection);
    if (connections.size === 0) empty?.resolve();
  }

  function look(): void {
    hall.nowMs = options.monotonicMs();
    hall.dateLine = dateLine(options.nowMs());
    for (const connection of connections) connection.look(hall.nowMs);
    for (const connection of lingering) connection.look(hall.nowMs);
  }

  const timer = setInterval(look, options.limits.lookMs);
  timer.unref();

  const listener = Bun.listen<Connection>({
    hostname: options.hostname,
    port: options.port,
    socket: {
      ...CONNECTION_HANDLERS,
      open(socket) {
        const connection = new Connection(hall, socket);
        socket.data = connection;
        connections.add(connection);
      },
    },
  });

  return {
    hostname: listener.hostname,
    port: listener.port,
    close() {
      empty ??= Promise.withResolvers<void>();
      hall.isClosing = true;
      listener.stop();
      for (const connection of [...connections]) connection.retire();
      if (connections.size === 0) empty.resolve();
      return empty.promise;
    },
    cut() {
      clearInterval(timer);
      listener.stop();
      for (const connection of [...connections, ...lingering]) connection.cut();
    },
  };
}

function dateLine(nowMs: number): string {
  return `date: ${new Date(nowMs).toUTCString()}\r\n`;
}
