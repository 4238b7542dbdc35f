/** The pool of idle upstream connections. The most recently used connection is taken first. */

import type { Clock } from "../wire/clock.ts";
import type { Deadlines } from "../wire/deadlines.ts";
import { ClientConnectionSocket, type ConnectionSlot, type ConnectionUser } from "./connection.ts";
import type { DialTarget } from "./dial.ts";

export interface ConnectionsOptions {
  alarms: Deadlines;
  clock: Pick<Clock, "monotonicMs">;
  connectTimeoutMs: number;
  idleMs: number;
  idlePerOriginMax: number;
  /** Certificates to trust instead of the system's, for tests. */
  ca?: string;
}

export interface ConnectionRoute {
  readonly place: ConnectionSlot;
  readonly hostLine: string;
}

export interface Connections {
  /** Throws when the target is not a valid URL. */
  routeOf(target: DialTarget): ConnectionRoute;
  takeIdle(place: ConnectionSlot): ClientConnectionSocket | null;
  open(place: ConnectionSlot, user: ConnectionUser): ClientConnectionSocket;
  /** Returns a connection to the pool after an exchange that left no unread bytes on it. */
  keep(connection: ClientConnectionSocket): void;
  close(): void;
}

/**
 * Upstreams are configured by the operator, so this many are never in use. The limit bounds what years of DNS changes
 * accumulate.
 */
const SLOTS_MAX = 1_024;
/** An idle connection may stay open for a quarter longer than `idleMs`. */
const SWEEPS_PER_IDLE = 4;

export function openConnections(options: ConnectionsOptions): Connections {
  const { alarms, clock, connectTimeoutMs, idleMs, idlePerOriginMax, ca } = options;
  const slots = new Map<string, ConnectionSlot>();
  // The dialer returns the same target objects repeatedly, so this lookup needs no string.
  let routes = new WeakMap<DialTarget, ConnectionRoute>();
  const withIdle = new Set<ConnectionSlot>();
  let isSweeping = false;
  let isClosed = false;

  function routeOf(target: DialTarget): ConnectionRoute {
    const cached = routes.get(target);
    if (cached !== undefined) return cached;
    const route = createRoute(target);
    routes.set(target, route);
    return route;
  }

  function createRoute(target: DialTarget): ConnectionRoute {
    const url = new URL(target.origin);
    const serverName = target.tls?.serverName ?? "";
    const key = `${url.origin} ${serverName}`;
    let place = slots.get(key);
    if (place === undefined) {
      if (slots.size >= SLOTS_MAX) {
        slots.clear();
        routes = new WeakMap();
      }
      place = createSlot(url, serverName, ca);
      slots.set(key, place);
    }
    return { place, hostLine: `host: ${target.hostHeader ?? url.host}\r\n` };
  }

  /** The user of an idle connection. Any byte that arrives on an idle connection closes it. */
  const idleUser: ConnectionUser = {
    opened() {},
    drained() {},
    received(connection) {
      connection.destroy();
      forget(connection);
    },
    closed: forget,
  };

  function forget(connection: ClientConnectionSocket): void {
    const { idle } = connection.place;
    const at = idle.indexOf(connection);
    if (at >= 0) idle.splice(at, 1);
  }

  function keep(connection: ClientConnectionSocket): void {
    const { place } = connection;
    if (isClosed || !connection.isOpen || place.idle.length >= idlePerOriginMax) {
      connection.close();
      return;
    }
    connection.user = idleUser;
    connection.idleSinceMs = clock.monotonicMs();
    connection.resume();
    if (place.idle.push(connection) > 1) return;
    withIdle.add(place);
    if (!isSweeping) scheduleSweep();
  }

  function scheduleSweep(): void {
    isSweeping = true;
    alarms.set(idleMs / SWEEPS_PER_IDLE, sweep);
  }

  function sweep(): void {
    isSweeping = false;
    const idleBeforeMs = clock.monotonicMs() - idleMs;
    for (const slot of withIdle) {
      // Connections are taken from and returned to the end, so the longest idle ones come first.
      const { idle } = slot;
      let expired = 0;
      while (expired < idle.length && (idle[expired]?.idleSinceMs ?? 0) <= idleBeforeMs) expired++;
      for (const connection of idle.splice(0, expired)) connection.close();
      if (idle.length === 0) withIdle.delete(slot);
    }
    if (withIdle.size > 0) scheduleSweep();
  }

  return {
    routeOf,
    keep,
    takeIdle: (slot) => slot.idle.pop() ?? null,
    open(slot, user) {
      const connection = new ClientConnectionSocket(slot, user, alarms, connectTimeoutMs);
      connection.connect();
      return connection;
    },
    close() {
      isClosed = true;
      for (const slot of withIdle) for (const connection of slot.idle.splice(0)) connection.close();
      withIdle.clear();
    },
  };
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
