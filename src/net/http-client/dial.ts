/** Resolves base URLs to checked addresses: looks up names, rejects forbidden addresses and caches the result. */

import { lookup as systemLookup } from "node:dns/promises";
import type { Clock } from "../../base/clock.ts";
import { type DialPermission, DialRoute, type DialTarget, type RouteContext } from "./dial-route.ts";

export { DialError, type DialReason } from "./dial-errors.ts";
export type { DialPermission, DialTarget } from "./dial-route.ts";

interface DialerOptions {
  lookup?: (host: string) => Promise<string[]>;
  clock: Pick<Clock, "monotonicMs">;
  lookupTimeoutMs: number;
  cacheMs: number;
}

/** Never in use: the operator configures base URLs. Bounds what years of edits accumulate. */
const ROUTES_MAX = 1_024;

export class Dialer {
  readonly #context: RouteContext;
  // One map per permission, so that an address permitted for one account is never returned to another.
  readonly #privateRoutes = new Map<string, DialRoute>();
  readonly #publicRoutes = new Map<string, DialRoute>();

  constructor({ clock, lookupTimeoutMs, cacheMs, lookup = lookupAll }: DialerOptions) {
    this.#context = { clock, lookupTimeoutMs, cacheMs, lookup, routeByTarget: new WeakMap() };
  }

  /** Returns a plain value when the host is an address or its name is cached. Throws or rejects with a DialError. */
  resolve(baseUrl: string | URL, permission: DialPermission): DialTarget | Promise<DialTarget> {
    const key = typeof baseUrl === "string" ? baseUrl : baseUrl.href;
    const routes = permission.privateNetwork ? this.#privateRoutes : this.#publicRoutes;
    let route = routes.get(key);
    if (route === undefined) {
      route = new DialRoute(this.#context, key, permission);
      if (routes.size >= ROUTES_MAX) evictOldest(routes);
      routes.set(key, route);
    }
    return route.resolve();
  }

  /** The address did not respond: skips it until its name is looked up again. */
  markUnreachable(target: DialTarget): void {
    this.#context.routeByTarget.get(target)?.markUnreachable(target);
  }
}

function evictOldest(routes: Map<string, DialRoute>): void {
  for (const key of routes.keys()) {
    routes.delete(key);
    return;
  }
}

async function lookupAll(host: string): Promise<string[]> {
  const responses = await systemLookup(host, { all: true });
  return responses.map((response) => response.address);
}
