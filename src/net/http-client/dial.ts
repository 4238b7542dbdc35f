/** Resolves base URLs to checked addresses: looks up names, rejects forbidden addresses and caches the result. */

import { lookup as systemLookup } from "node:dns/promises";
import type { Clock } from "../wire/clock.ts";
import { DialError } from "./dial-errors.ts";
import { canonicalAddress, mayDial } from "./ip-addresses.ts";

export { DialError, type DialReason } from "./dial-errors.ts";

/**
 * Where to connect for a base URL. The origin contains the exact address that was checked, so a second lookup cannot
 * return a different one.
 */
export interface DialTarget {
  /** `https://203.0.113.7:8443`. */
  readonly origin: string;
  /** The host that the operator configured, for the Host header; null when the origin contains it. */
  readonly hostHeader: string | null;
  /** The name is sent as SNI and the certificate is verified against it. */
  readonly tls: { readonly serverName: string } | null;
}

export interface Dialer {
  /** Returns a plain value when the host is an address or its name is cached. Throws or rejects with a DialError. */
  resolve(baseUrl: string | URL, privateNetwork: boolean): DialTarget | Promise<DialTarget>;
  /** The address did not respond: skips it until its name is looked up again. */
  unreachable(target: DialTarget): void;
}

export interface DialerOptions {
  lookup?: (host: string) => Promise<string[]>;
  clock: Clock;
  lookupTimeoutMs: number;
  cacheMs: number;
}

/** A name that was not used for this many cache lifetimes is looked up before it is used again. */
const IDLE_LIFETIMES = 10;
/** How long a checked address stays usable while DNS fails. After that, another party may own the address. */
const STALE_MS_MAX = 3_600_000;
const RETRY_MS = 1_000;
/**
 * Base URLs are configured by the operator, so this many are never in use. The limit bounds what years of edits
 * accumulate.
 */
const ROUTES_MAX = 1_024;

/** One base URL and the last result of its lookup. */
interface Route {
  readonly url: URL;
  readonly privateNetwork: boolean;
  readonly tls: DialTarget["tls"];
  /** Checked targets; the resolver's preferred address family first. */
  targets: readonly DialTarget[];
  /** The targets in rotation, and the index of the current one. */
  live: readonly DialTarget[];
  turn: number;
  goodAtMs: number;
  refreshAtMs: number;
  pending: Promise<void> | null;
}

export function openDialer(options: DialerOptions): Dialer {
  const { clock, lookupTimeoutMs, cacheMs, lookup = lookupAll } = options;
  // One map per permission, so that an address permitted for one account is never returned to another.
  const privateRoutes = new Map<string, Route>();
  const publicRoutes = new Map<string, Route>();
  const routeByTarget = new WeakMap<DialTarget, Route>();

  function resolve(baseUrl: string | URL, privateNetwork: boolean): DialTarget | Promise<DialTarget> {
    const key = typeof baseUrl === "string" ? baseUrl : baseUrl.href;
    const routes = privateNetwork ? privateRoutes : publicRoutes;
    let route = routes.get(key);
    if (route === undefined) {
      route = createRoute(key, privateNetwork);
      if (routes.size >= ROUTES_MAX) evictOldest(routes);
      routes.set(key, route);
    }
    const nowMs = clock.monotonicMs();
    if (nowMs < route.refreshAtMs) return next(route);
    const isUsable = route.live.length > 0 && nowMs - route.goodAtMs < STALE_MS_MAX;
    const isIdle = nowMs - route.refreshAtMs >= cacheMs * IDLE_LIFETIMES;
    if (!isUsable || isIdle) return refresh(route).then(() => next(route));
    // A name in regular use is looked up in the background, so that no request waits for DNS. The next request uses
    // the result, or the failure, that is stored on the route.
    refresh(route).catch(() => {});
    return next(route);
  }

  /** Single-flight: callers share the lookup that is already running. */
  function refresh(route: Route): Promise<void> {
    route.pending ??= lookUp(route).finally(() => {
      route.pending = null;
    });
    return route.pending;
  }

  async function lookUp(route: Route): Promise<void> {
    const host = route.url.hostname;
    let answers: string[];
    try {
      answers = await withTimeout(lookup(host), lookupTimeoutMs, host);
    } catch (err) {
      const nowMs = clock.monotonicMs();
      const failure = err instanceof DialError ? err : dnsFailure(host, err);
      if (route.targets.length === 0 || nowMs - route.goodAtMs >= STALE_MS_MAX) throw failure;
      route.refreshAtMs = nowMs + RETRY_MS;
      return;
    }
    adopt(route, answers);
  }

  function adopt(route: Route, answers: readonly string[]): void {
    // Of a mixed answer, the permitted part is used. Rejecting all of it would gain nothing, because only checked
    // addresses are dialled, and would break names that have an internal and an external view.
    const host = route.url.hostname;
    const permitted: string[] = [];
    const rejected: string[] = [];
    for (const answer of new Set(answers)) {
      const address = canonicalAddress(answer);
      const verdict = mayDial(answer, route);
      if (verdict.ok && address !== null) permitted.push(address);
      else rejected.push(verdict.ok ? answer : `${address ?? "unreadable"} is ${verdict.reason}`);
    }
    if (permitted.length === 0) {
      // This is a definite answer, unlike a DNS failure: the previous addresses no longer belong to the name.
      route.targets = route.live = [];
      route.refreshAtMs = Number.NEGATIVE_INFINITY;
      if (rejected.length === 0) throw new DialError("dns_failed", `"${host}" resolves to no address`);
      throw new DialError("forbidden_address", `"${host}" may not be dialled: ${rejected.join(", ")}`);
    }
    const preferV6 = permitted[0]?.includes(":") ?? false;
    const preferred = permitted.filter((address) => address.includes(":") === preferV6);
    const others = permitted.filter((address) => address.includes(":") !== preferV6);
    route.targets = [...preferred, ...others].map((address) => createTarget(route, address));
    for (const target of route.targets) routeByTarget.set(target, route);
    // The resolver lists the reachable address family first. Rotating over both would lose every other request where
    // one family is unreachable.
    route.live = route.targets.slice(0, preferred.length);
    route.turn = 0;
    route.goodAtMs = clock.monotonicMs();
    route.refreshAtMs = route.goodAtMs + cacheMs;
  }

  function unreachable(target: DialTarget): void {
    const route = routeByTarget.get(target);
    if (route === undefined || !route.live.includes(target)) return;
    const live = route.live.filter((other) => other !== target);
    const otherFamily = route.targets.filter((other) => isV6(other) !== isV6(target));
    // When none is left, the other family is used, then all addresses again: the fault may be on this side.
    route.live = live.length > 0 ? live : otherFamily.length > 0 ? otherFamily : route.targets;
  }

  return { resolve, unreachable };
}

function createRoute(baseUrl: string, privateNetwork: boolean): Route {
  const url = URL.parse(baseUrl);
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw new DialError("bad_url", "the base URL is not a valid http or https URL");
  }
  if (url.username !== "" || url.password !== "") {
    throw new DialError("bad_url", "the base URL must not carry a user name or password");
  }
  const route: Route = {
    url,
    privateNetwork,
    // A certificate never contains the trailing dot of a fully qualified name.
    tls: url.protocol === "https:" ? Object.freeze({ serverName: url.hostname.replace(/\.$/, "") }) : null,
    targets: [],
    live: [],
    turn: 0,
    goodAtMs: Number.NEGATIVE_INFINITY,
    refreshAtMs: Number.NEGATIVE_INFINITY,
    pending: null,
  };
  // The URL parser has converted every numeric form to a plain address.
  if (canonicalAddress(url.hostname) === null) return route;
  const verdict = mayDial(url.hostname, route);
  if (!verdict.ok) {
    throw new DialError("forbidden_address", `${url.hostname} may not be dialled: it is ${verdict.reason}`);
  }
  // Without a server name, the certificate is verified against the address in the URL.
  route.live = route.targets = [Object.freeze({ origin: url.origin, hostHeader: null, tls: null })];
  route.refreshAtMs = Number.POSITIVE_INFINITY;
  return route;
}

function createTarget(route: Route, address: string): DialTarget {
  const { url, tls } = route;
  const port = url.port === "" ? "" : `:${url.port}`;
  return Object.freeze({
    origin: `${url.protocol}//${address.includes(":") ? `[${address}]` : address}${port}`,
    hostHeader: url.hostname.replace(/\.$/, "") + port,
    tls,
  });
}

/** The caller ensures that at least one target is in rotation. */
function next(route: Route): DialTarget {
  route.turn = (route.turn + 1) % route.live.length;
  const target = route.live[route.turn];
  if (target === undefined) throw new DialError("dns_failed", `"${route.url.hostname}" has no address`);
  return target;
}

function isV6(target: DialTarget): boolean {
  return target.origin.includes("[");
}

function evictOldest(routes: Map<string, Route>): void {
  for (const key of routes.keys()) {
    routes.delete(key);
    return;
  }
}

async function withTimeout(answers: Promise<string[]>, timeoutMs: number, host: string): Promise<string[]> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new DialError("dns_timeout", `looking up "${host}" took longer than ${timeoutMs} ms`));
    }, timeoutMs);
  });
  try {
    return await Promise.race([answers, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

function dnsFailure(host: string, err: unknown): DialError {
  const code = err instanceof Error && "code" in err && typeof err.code === "string" ? err.code : "unknown";
  return new DialError("dns_failed", `"${host}" could not be looked up (${code})`);
}

async function lookupAll(host: string): Promise<string[]> {
  const answers = await systemLookup(host, { all: true });
  return answers.map((answer) => answer.address);
}
