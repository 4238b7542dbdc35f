/** The pool of idle upstream connections. The most recently used connection is taken first. */

import type { Clock } from "../../base/clock.ts";
import type { Deadlines } from "../../base/deadlines.ts";
import { ClientConnectionSocket, type ConnectionSlot, type ConnectionUser } from "./connection.ts";
import type { DialTarget } from "./dial.ts";

export interface ConnectionsOptions {
  deadlines: Deadlines;
  clock: Pick<Clock, "monotonicMs">;
  connectTimeoutMs: number;
  idleMs: number;
  idlePerOriginMax: number;
  /** Certificates to trust instead of the system's, for tests. */
  ca?: string;
}

export interface ConnectionRoute {
  readonly slot: ConnectionSlot;
  readonly hostLine: string;
}

export interface Connections {
  /** Throws when the target is not a valid URL. */
  resolveRoute(target: DialTarget): ConnectionRoute;
  takeIdle(slot: ConnectionSlot): ClientConnectionSocket | null;
  open(slot: ConnectionSlot, user: ConnectionUser): ClientConnectionSocket;
  /** Returns a connection to the pool after an exchange that left no unread bytes on it. */
  returnIdle(connection: ClientConnectionSocket): void;
  /** Closes the idle connections. A connection in use is closed when it is returned. */
  close(): void;
}

/** Never in use: the operator configures upstreams. Bounds what years of DNS changes accumulate. */
const SLOTS_MAX = 1_024;
/** An idle connection may stay open for a quarter longer than `idleMs`. */
const SWEEPS_PER_IDLE = 4;

export class ConnectionPool implements Connections {
  readonly #options: ConnectionsOptions;
  readonly #slots = new Map<string, ConnectionSlot>();
  /** The dialer returns the same target objects repeatedly, so this lookup needs no string. */
  #routes = new WeakMap<DialTarget, ConnectionRoute>();
  readonly #slotsWithIdle = new Set<ConnectionSlot>();
  #isSweepScheduled = false;
  #isClosed = false;

  constructor(options: ConnectionsOptions) {
    this.#options = options;
  }

  resolveRoute(target: DialTarget): ConnectionRoute {
    const cached = this.#routes.get(target);
    if (cached !== undefined) return cached;
    const url = new URL(target.origin);
    const slot = this.#resolveSlot(url, target.tls?.serverName ?? "");
    const route = { slot, hostLine: `host: ${target.hostHeader ?? url.host}\r\n` };
    this.#routes.set(target, route);
    return route;
  }

  takeIdle(slot: ConnectionSlot): ClientConnectionSocket | null {
    return slot.idle.pop() ?? null;
  }

  open(slot: ConnectionSlot, user: ConnectionUser): ClientConnectionSocket {
    const { deadlines, connectTimeoutMs } = this.#options;
    const connection = new ClientConnectionSocket(slot, user, deadlines, connectTimeoutMs);
    connection.connect();
    return connection;
  }

  returnIdle(connection: ClientConnectionSocket): void {
    const { slot } = connection;
    if (this.#isClosed || !connection.isOpen || slot.idle.length >= this.#options.idlePerOriginMax) {
      connection.close();
      return;
    }
    connection.user = IDLE_USER;
    connection.idleSinceMs = this.#options.clock.monotonicMs();
    connection.resume();
    if (slot.idle.push(connection) > 1) return;
    this.#slotsWithIdle.add(slot);
    if (!this.#isSweepScheduled) this.#scheduleSweep();
  }

  close(): void {
    this.#isClosed = true;
    for (const { idle } of this.#slotsWithIdle) for (const connection of idle.splice(0)) connection.close();
    this.#slotsWithIdle.clear();
  }

  #resolveSlot(url: URL, serverName: string): ConnectionSlot {
    const key = `${url.origin} ${serverName}`;
    const known = this.#slots.get(key);
    if (known !== undefined) return known;
    if (this.#slots.size >= SLOTS_MAX) {
      this.#slots.clear();
      this.#routes = new WeakMap();
    }
    const slot = createSlot(url, serverName, this.#options.ca);
    this.#slots.set(key, slot);
    return slot;
  }

  #scheduleSweep(): void {
    this.#isSweepScheduled = true;
    this.#options.deadlines.set(this.#options.idleMs / SWEEPS_PER_IDLE, () => this.#sweep());
  }

  #sweep(): void {
    this.#isSweepScheduled = false;
    const idleBeforeMs = this.#options.clock.monotonicMs() - this.#options.idleMs;
    for (const slot of this.#slotsWithIdle) {
      closeExpired(slot, idleBeforeMs);
      if (slot.idle.length === 0) this.#slotsWithIdle.delete(slot);
    }
    if (this.#slotsWithIdle.size > 0) this.#scheduleSweep();
  }
}

/** The user of an idle connection. Any byte that arrives on an idle connection closes it. */
const IDLE_USER: ConnectionUser = {
  onOpen() {},
  onDrain() {},
  onData(connection) {
    connection.destroy();
    removeIdle(connection);
  },
  onClose: removeIdle,
};

function removeIdle(connection: ClientConnectionSocket): void {
  const { idle } = connection.slot;
  const at = idle.indexOf(connection);
  if (at >= 0) idle.splice(at, 1);
}

function closeExpired({ idle }: ConnectionSlot, idleBeforeMs: number): void {
  // Connections are taken from and returned to the end, so the longest idle ones come first.
  let expired = 0;
  while (expired < idle.length && (idle[expired]?.idleSinceMs ?? 0) <= idleBeforeMs) expired++;
  for (const connection of idle.splice(0, expired)) connection.close();
}

function createSlot(url: URL, serverName: string, ca: string | undefined): ConnectionSlot {
  const isTls = url.protocol === "https:";
  const hostname = url.hostname.replace(/^\[|\]$/g, "");
  return {
    hostname,
    port: url.port !== "" ? Number(url.port) : isTls ? 443 : 80,
    tls: isTls
      ? {
          serverName: serverName === "" ? hostname : serverName,
          // Wire format: each protocol name is preceded by its length.
          ALPNProtocols: "\x08http/1.1",
          rejectUnauthorized: true,
          ...(ca === undefined ? {} : { ca }),
        }
      : null,
    idle: [],
  };
}
