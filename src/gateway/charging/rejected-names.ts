/** Which added parameters an account rejects: the next name of a list is used then, or none. */

import type { UpstreamFailure } from "../../accounts/failure.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";

/** How many of the names an account has rejected. After the last one no parameter is sent. */
interface RejectedCount {
  readonly count: number;
  readonly untilMs: number;
}

/** What accounts have rejected lately, for all requests. */
export class RejectionMemory {
  readonly #counts = new WeakMap<AccountRoute, RejectedCount>();
  #latestUntilMs = 0;

  count(route: AccountRoute, nowMs: number): number {
    const rejected = this.isEmpty(nowMs) ? undefined : this.#counts.get(route);
    return rejected !== undefined && nowMs < rejected.untilMs ? rejected.count : 0;
  }

  /** Nearly always: a model may have thousands of routes, which then need not be looked up. */
  isEmpty(nowMs: number): boolean {
    return nowMs >= this.#latestUntilMs;
  }

  set(route: AccountRoute, rejected: RejectedCount): void {
    this.#counts.set(route, rejected);
    this.#latestUntilMs = Math.max(this.#latestUntilMs, rejected.untilMs);
  }
}

const REMEMBERED_MS = 60 * 60_000;
const UNKNOWN_FIELD =
  /unsupported|not supported|unknown|unrecogni[sz]ed|unexpected|extra|not permitted|not allowed/i;
const TOO_LARGE =
  /too (?:large|high|big|long)|at most|maximum|exceed|greater than|larger than|less than|<=|≤/i;

interface AddedParameter {
  readonly request: ModelRequest;
  /** Its names in the client's dialect, the preferred one first. */
  readonly names: readonly string[];
  /** Its names in any dialect: an account of another dialect knows it by another name. */
  readonly foreignNames: readonly string[];
  readonly memory: RejectionMemory;
  monotonicMs(): number;
}

export class RejectedNames {
  readonly #parameter: AddedParameter;
  /** What this request has learnt itself. */
  readonly #counts = new Map<AccountRoute, number>();
  /** What the last attempt sent. Other requests may have learnt more since. */
  readonly #used = new Map<AccountRoute, string | undefined>();
  /** Accounts whose own maximum is lower than the value. */
  readonly #lower = new Set<AccountRoute>();

  constructor(parameter: AddedParameter) {
    this.#parameter = parameter;
  }

  /** The name to use for an account; undefined if it accepts none. */
  pickName(route: AccountRoute): string | undefined {
    const name = this.#nextName(route);
    this.#used.set(route, name);
    return name;
  }

  #nextName(route: AccountRoute): string | undefined {
    return this.#parameter.names[this.#countRejected(route)];
  }

  /** The accounts that accept no name, other than those that rejected the value only because it is too large. */
  findUnable(routes: readonly AccountRoute[]): readonly AccountRoute[] {
    const { memory, monotonicMs } = this.#parameter;
    if (memory.isEmpty(monotonicMs()) && this.#counts.size === 0) return [];
    return routes.filter((route) => this.#nextName(route) === undefined && !this.#lower.has(route));
  }

  /** The account rejected a parameter that the client did not send, so a retry makes sense. */
  recordRejection(route: AccountRoute, { class: kind, error }: UpstreamFailure): boolean {
    const { request, foreignNames, memory, monotonicMs } = this.#parameter;
    const name = this.#used.get(route);
    if (kind !== "rejected" || error === null || name === undefined) return false;
    const names = route.translation === null ? [name] : foreignNames;
    // If the client used the name itself, the error may refer to that.
    if (names.some((one) => request.body.mentions(one))) return false;
    const words: readonly string[] = error.message.match(/\w+/g) ?? [];
    if (!names.some((one) => error.param === one || words.includes(one))) return false;
    const text = `${error.code} ${error.message}`;
    const isUnknown = UNKNOWN_FIELD.test(text);
    if (TOO_LARGE.test(text) && !isUnknown) this.#lower.add(route);
    const count = this.#parameter.names.indexOf(name) + 1;
    this.#counts.set(route, count);
    // Only unsupported parameters are remembered: a value that is too large now may be accepted next time.
    if (isUnknown && !this.#lower.has(route)) {
      memory.set(route, {
        count: Math.max(count, memory.count(route, monotonicMs())),
        untilMs: monotonicMs() + REMEMBERED_MS,
      });
    }
    return true;
  }

  #countRejected(route: AccountRoute): number {
    const { memory, monotonicMs } = this.#parameter;
    return Math.max(memory.count(route, monotonicMs()), this.#counts.get(route) ?? 0);
  }
}
