/** The connections that are kept between exchanges, the latest used first. */

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
  /** Certificates to trust instead of the system's; for tests. */
  ca?: string;
}

export interface ConnectionRoute {
  readonly place: ConnectionSlot;
  readonly hostLine: string;
}

export interface Connections {
  /** Throws when the target is no address. */
  routeOf(target: DialTarget): ConnectionRoute;
  takeIdle(place: ConnectionSlot): ClientConnectionSocket | null;
  open(place: ConnectionSlot, user: ConnectionUser): ClientConnectionSocket;
  /** After an exchange that left nothing behind on it. */
  keep(connection: ClientConnectionSocket): void;
  close(): void;
}

/** Upstreams come from the operator, so this many are never in use; it bounds what years of DNS answers leave. */
const PLACES_MAX = 1_024;
/** An idle connection may stay a quarter longer than asked. */
const SWEEPS_PER_IDLE = 4;

export function openConnections(options: ConnectionsOptions): Connections {
  const { alarms, clock, connectTimeoutMs, idleMs, idlePerOriginMax, ca } = options;
  const places = new Map<string, ConnectionSlot>();
  // The dialer hands out the same targets again and again: looking one up costs no string.
  let routes = new WeakMap<DialTarget, ConnectionRoute>();
  const withIdle = new Set<ConnectionSlot>();
  let isSweeping = false;
  let isClosed = false;

  function routeOf(target: DialTarget): ConnectionRoute {
    const known = routes.get(target);
    if (known !== undefined) return known;
    const route = createRoute(target);
    routes.set(target, route);
    return route;
  }

  function createRoute(target: DialTarget): ConnectionRoute {
    const url = new URL(target.origin);
    const serverName = target.tls?.serverName ?? "";
    const key = `${url.origin} ${serverName}`;
    let place = places.get(key);
    if (place === undefined) {
      if (places.size >= PLACES_MAX) {
        places.clear();
        routes = new WeakMap();
      }
      place = createPlace(url, serverName, ca);
      places.set(key, place);
    }
    return { place, hostLine: `host: ${target.hostHeader ?? url.host}\r\n` };
  }

  /** Silence is all that is expected of an idle connection. */
  const idler: ConnectionUser = {
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
    connection.user = idler;
    connection.idleSinceMs = clock.monotonicMs();
    connection.resume();
    if (place.idle.push(connection) > 1) return;
    withIdle.add(place);
    if (!isSweeping) sweepLater();
  }

  function sweepLater(): void {
    isSweeping = true;
    alarms.set(idleMs / SWEEPS_PER_IDLE, sweep);
  }

  function sweep(): void {
    isSweeping = false;
    const before = clock.monotonicMs() - idleMs;
    for (const place of withIdle) {
      // Taken and put back at the end, so the longest idle stand first.
      const { idle } = place;
      let old = 0;
      while (old < idle.length && (idle[old]?.idleSinceMs ?? 0) <= before) old++;
      for (const connection of idle.splice(0, old)) connection.close();
      if (idle.length === 0) withIdle.delete(place);
    }
    if (withIdle.size > 0) sweepLater();
  }

  return {
    routeOf,
    keep,
    takeIdle: (place) => place.idle.pop() ?? null,
    open(place, user) {
      const connection = new ClientConnectionSocket(place, user, alarms, connectTimeoutMs);
      connection.connect();
      return connection;
    },
    close() {
      isClosed = true;
      for (const place of withIdle) for (const connection of place.idle.splice(0)) connection.close();
      withIdle.clear();
    },
  };
}

function createPlace(url: URL, serverName: string, ca: string | undefined): ConnectionSlot {
  const isTls = url.protocol === "https:";
  const hostname = url.hostname.replace(/^\[|\]$/g, "");
  return {
    hostname,
    port: url.port !== "" ? Number(url.port) : isTls ? 443 : 80,
    tls: isTls
      ? {
          serverName: serverName === "" ? hostname : serverName,
          // As on the wire: each name with its length before it.
          ALPNProtocols: "\x08http/1.1",
          rejectUnauthorized: true,
          ...(ca === undefined ? {} : { ca }),
        }
      : null,
    idle: [],
  };
}
