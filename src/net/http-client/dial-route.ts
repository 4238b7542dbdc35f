/** One base URL, its checked addresses, and when they are looked up again. */

import type { Clock } from "../../base/clock.ts";
import { DialError } from "./dial-errors.ts";
import { canonicalAddress, mayDial } from "./ip-addresses.ts";

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

export interface DialPermission {
  readonly privateNetwork: boolean;
}

export interface RouteContext {
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly lookupTimeoutMs: number;
  readonly cacheMs: number;
  /** Finds the route of a target that a caller reports as unreachable. */
  readonly routeByTarget: WeakMap<DialTarget, DialRoute>;
  lookup(host: string): Promise<string[]>;
}

/** A name that was not used for this many cache lifetimes is looked up before it is used again. */
const IDLE_LIFETIMES = 10;
/** How long a checked address stays usable while DNS fails. After that, another party may own the address. */
const STALE_MS_MAX = 3_600_000;
const RETRY_MS = 1_000;

export class DialRoute {
  readonly #context: RouteContext;
  readonly #url: URL;
  readonly #permission: DialPermission;
  readonly #tls: DialTarget["tls"];
  /** Checked targets; the resolver's preferred address family first. */
  #targets: readonly DialTarget[] = [];
  /** The targets in rotation, and the index of the current one. */
  #live: readonly DialTarget[] = [];
  #currentIndex = 0;
  #resolvedAtMs = Number.NEGATIVE_INFINITY;
  #refreshAtMs = Number.NEGATIVE_INFINITY;
  #pendingLookup: Promise<void> | null = null;

  /** Throws a DialError when the URL is invalid or contains a forbidden address. */
  constructor(context: RouteContext, baseUrl: string, { privateNetwork }: DialPermission) {
    const url = parseBaseUrl(baseUrl);
    this.#context = context;
    this.#url = url;
    this.#permission = { privateNetwork };
    // A certificate never contains the trailing dot of a fully qualified name.
    this.#tls =
      url.protocol === "https:" ? Object.freeze({ serverName: url.hostname.replace(/\.$/, "") }) : null;
    // The URL parser has converted every numeric form to a plain address.
    if (canonicalAddress(url.hostname) === null) return;
    const verdict = mayDial(url.hostname, this.#permission);
    if (!verdict.ok) {
      throw new DialError("forbidden_address", `${url.hostname} is not allowed: it is ${verdict.reason}`);
    }
    // Without a server name, the certificate is verified against the address in the URL.
    this.#live = this.#targets = [Object.freeze({ origin: url.origin, hostHeader: null, tls: null })];
    this.#refreshAtMs = Number.POSITIVE_INFINITY;
  }

  /** Returns the next target in rotation, or a promise of it when the name has to be looked up first. */
  resolve(): DialTarget | Promise<DialTarget> {
    const nowMs = this.#context.clock.monotonicMs();
    if (nowMs < this.#refreshAtMs) return this.#next();
    const isUsable = this.#live.length > 0 && nowMs - this.#resolvedAtMs < STALE_MS_MAX;
    const isIdle = nowMs - this.#refreshAtMs >= this.#context.cacheMs * IDLE_LIFETIMES;
    if (!isUsable || isIdle) return this.#refresh().then(() => this.#next());
    // A name in regular use is looked up in the background, so that no request waits for DNS. The next request uses
    // the result, or the failure, that is stored here.
    this.#refresh().catch(() => {});
    return this.#next();
  }

  /** Removes a target from the rotation until the name is looked up again. */
  markUnreachable(target: DialTarget): void {
    if (!this.#live.includes(target)) return;
    const live = this.#live.filter((other) => other !== target);
    const otherFamily = this.#targets.filter((other) => isV6(other) !== isV6(target));
    // When none is left, the other family is used, then all addresses again: the fault may be on this side.
    this.#live = live.length > 0 ? live : otherFamily.length > 0 ? otherFamily : this.#targets;
  }

  /** The caller ensures that at least one target is in rotation. */
  #next(): DialTarget {
    this.#currentIndex = (this.#currentIndex + 1) % this.#live.length;
    const target = this.#live[this.#currentIndex];
    if (target === undefined) throw new DialError("dns_failed", `"${this.#url.hostname}" has no address`);
    return target;
  }

  /** Single-flight: callers share the lookup that is already running. */
  #refresh(): Promise<void> {
    this.#pendingLookup ??= this.#lookUp().finally(() => {
      this.#pendingLookup = null;
    });
    return this.#pendingLookup;
  }

  async #lookUp(): Promise<void> {
    const { lookup, lookupTimeoutMs, clock } = this.#context;
    const host = this.#url.hostname;
    let responses: string[];
    try {
      responses = await withTimeout(lookup(host), lookupTimeoutMs, host);
    } catch (err) {
      const nowMs = clock.monotonicMs();
      const failure = err instanceof DialError ? err : dnsFailure(host, err);
      if (this.#targets.length === 0 || nowMs - this.#resolvedAtMs >= STALE_MS_MAX) throw failure;
      this.#refreshAtMs = nowMs + RETRY_MS;
      return;
    }
    this.#setAddresses(this.#checkAddresses(responses));
  }

  /**
   * Returns the permitted addresses of a response. Rejecting a mixed response would gain nothing, because only checked
   * addresses are dialled, and would break names that have an internal and an external view.
   */
  #checkAddresses(responses: readonly string[]): readonly string[] {
    const permitted: string[] = [];
    const rejected: string[] = [];
    for (const response of new Set(responses)) {
      const address = canonicalAddress(response);
      const verdict = mayDial(response, this.#permission);
      if (verdict.ok && address !== null) permitted.push(address);
      else rejected.push(verdict.ok ? response : `${address ?? "unreadable"} is ${verdict.reason}`);
    }
    if (permitted.length > 0) return permitted;
    // This is a definite response, unlike a DNS failure: the previous addresses no longer belong to the name.
    this.#targets = this.#live = [];
    this.#refreshAtMs = Number.NEGATIVE_INFINITY;
    const host = this.#url.hostname;
    if (rejected.length === 0) throw new DialError("dns_failed", `"${host}" does not resolve to an address`);
    throw new DialError("forbidden_address", `"${host}" is not allowed: ${rejected.join(", ")}`);
  }

  #setAddresses(addresses: readonly string[]): void {
    const preferV6 = addresses[0]?.includes(":") ?? false;
    const preferred = addresses.filter((address) => address.includes(":") === preferV6);
    const others = addresses.filter((address) => address.includes(":") !== preferV6);
    this.#targets = [...preferred, ...others].map((address) => this.#createTarget(address));
    for (const target of this.#targets) this.#context.routeByTarget.set(target, this);
    // The resolver lists the reachable address family first. Rotating over both would lose every other request where
    // one family is unreachable.
    this.#live = this.#targets.slice(0, preferred.length);
    this.#currentIndex = 0;
    this.#resolvedAtMs = this.#context.clock.monotonicMs();
    this.#refreshAtMs = this.#resolvedAtMs + this.#context.cacheMs;
  }

  #createTarget(address: string): DialTarget {
    const { protocol, hostname, port: urlPort } = this.#url;
    const port = urlPort === "" ? "" : `:${urlPort}`;
    return Object.freeze({
      origin: `${protocol}//${address.includes(":") ? `[${address}]` : address}${port}`,
      hostHeader: hostname.replace(/\.$/, "") + port,
      tls: this.#tls,
    });
  }
}

function parseBaseUrl(baseUrl: string): URL {
  const url = URL.parse(baseUrl);
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw new DialError("bad_url", "the base URL is not a valid http or https URL");
  }
  if (url.username !== "" || url.password !== "") {
    throw new DialError("bad_url", "the base URL must not contain a user name or password");
  }
  return url;
}

function isV6(target: DialTarget): boolean {
  return target.origin.includes("[");
}

async function withTimeout(responses: Promise<string[]>, timeoutMs: number, host: string): Promise<string[]> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new DialError("dns_timeout", `resolving "${host}" took longer than ${timeoutMs} ms`));
    }, timeoutMs);
  });
  try {
    return await Promise.race([responses, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

function dnsFailure(host: string, err: unknown): DialError {
  const code = err instanceof Error && "code" in err && typeof err.code === "string" ? err.code : "unknown";
  return new DialError("dns_failed", `"${host}" could not be resolved (${code})`);
}
