/** Listens for connections, looks after all of them with one timer, and lets them go in order. */

import { Admission } from "./admission.ts";
import { ServerConnection } from "./connection.ts";
import { ConnectionBytes } from "./connection-bytes.ts";
import { connectionsMax, fileDescriptorsMax } from "./file-descriptors.ts";
import type { ConnectionLimits, ManagedConnection, ServerContext } from "./server-context.ts";
import { Turns } from "./turns.ts";

export interface ListenOptions extends Pick<ServerContext, "serve" | "refuse" | "fault"> {
  readonly hostname: string;
  readonly port: number;
  readonly limits: ConnectionLimits & {
    /** Connections at once. For a further one the longest idle one is closed, or the new one if none is idle. */
    readonly max: number;
    /** Of `max`, what the addresses of one block may have. */
    readonly blockShare: number;
    /** What clients that have not authenticated may occupy, all of them together. */
    readonly strangerBytesMax: number;
    /** What requests that come before their turn may occupy, those of all other clients together. */
    readonly clientBytesMax: number;
    readonly lookMs: number;
  };
  /** Whether an address is that of a proxy, behind which many clients have one address. */
  isProxy(address: string): boolean;
  monotonicMs(): number;
  nowMs(): number;
}

export interface HttpListener {
  readonly hostname: string;
  readonly port: number;
  /** Takes no more connections. Resolves when the last one has been let go, each after the answer it waits for. */
  close(): Promise<void>;
  /** Whoever is left. */
  cut(): void;
}

/** Requests that strangers have sent ahead, in one turn of the event loop: a few milliseconds, however many they are. */
const STRANGERS_IN_A_TURN = 128;

export function listen(options: ListenOptions): HttpListener {
  const { limits } = options;
  const guests = new Set<ManagedConnection>();
  /** Connections that have their answers: closing does not wait for them. */
  const lingering = new Set<ManagedConnection>();
  let empty: PromiseWithResolvers<void> | null = null;

  const hall = {
    limits,
    strangerBytes: new ConnectionBytes(limits.strangerBytesMax),
    clientBytes: new ConnectionBytes(limits.clientBytesMax),
    strangerTurns: new Turns(STRANGERS_IN_A_TURN),
    nowMs: options.monotonicMs(),
    dateLine: dateLine(options.nowMs()),
    isClosing: false,
    serve: options.serve,
    refuse: options.refuse,
    fault: options.fault,
    ended(guest: ManagedConnection) {
      lingering.add(guest);
      forget(guest);
    },
    left(guest: ManagedConnection) {
      admission.left(guest);
      lingering.delete(guest);
      forget(guest);
    },
  };

  const admission = new Admission<ManagedConnection>({
    // Without a descriptor left nobody could be accepted, and trying to would use up a core.
    max: Math.min(limits.max, connectionsMax(fileDescriptorsMax())),
    blockShare: limits.blockShare,
    isProxy: options.isProxy,
    *all() {
      yield* guests;
      yield* lingering;
    },
    nowMs: () => hall.nowMs,
  });

  function forget(guest: ManagedConnection): void {
    guests.delete(guest);
    if (guests.size === 0) empty?.resolve();
  }

  function look(): void {
    hall.nowMs = options.monotonicMs();
    hall.dateLine = dateLine(options.nowMs());
    for (const all of [guests, lingering]) for (const guest of all) lookAt(guest);
  }

  /** What is wrong with one of them does not keep the others from being looked at. */
  function lookAt(guest: ManagedConnection): void {
    try {
      guest.look(hall.nowMs);
    } catch (thrown) {
      hall.fault(thrown);
      guest.cut();
    }
  }

  const timer = setInterval(look, limits.lookMs);
  timer.unref();

  const listener = Bun.listen<ServerConnection>({
    hostname: options.hostname,
    port: options.port,
    socket: {
      open(socket) {
        const connection = new ServerConnection(hall, socket, admission.blockOf(socket.remoteAddress ?? ""));
        socket.data = connection;
        guests.add(connection);
        admission.enter(connection);
      },
      data: (socket, bytes) => socket.data.received(bytes),
      drain: (socket) => socket.data.drained(),
      close: (socket) => socket.data.closed(),
      /** What one of these has thrown. That the network failed is told by `close`. */
      error: (socket, thrown) => socket.data.failed(thrown),
    },
  });

  return {
    hostname: listener.hostname,
    port: listener.port,
    close() {
      empty ??= Promise.withResolvers<void>();
      hall.isClosing = true;
      listener.stop();
      for (const guest of [...guests]) guest.retire();
      if (guests.size === 0) empty.resolve();
      return empty.promise;
    },
    cut() {
      clearInterval(timer);
      listener.stop();
      for (const guest of [...guests, ...lingering]) guest.cut();
    },
  };
}

function dateLine(nowMs: number): string {
  return `date: ${new Date(nowMs).toUTCString()}\r\n`;
}
