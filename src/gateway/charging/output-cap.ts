/**
 * The output cap that the gateway adds to a request whose hold pays for a limited number of tokens, or whose request
 * policy allows no more. Some upstreams reject the parameter: then the interface's other parameter name is used, or
 * none. A stream that far exceeds its cap is also ended by the gateway.
 */

import type { UpstreamFailure } from "../../accounts/failure.ts";
import { lowest } from "../../base/lowest.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import type { ModelRequest, RequestBody } from "../../protocols/shared/request.ts";

/** The output cap that the gateway sends upstream: what the hold, the USD windows and the request policy allow. */
export function outputCapFor(record: {
  readonly charge: { readonly outputCap: number | null } | null;
  readonly windowCap: number | null;
  readonly policyCap: number | null;
}): number | null {
  const { charge, windowCap, policyCap } = record;
  return lowest(lowest(charge?.outputCap ?? null, windowCap), policyCap);
}

/** How many of the interface's parameter names an upstream has rejected. After the last one no cap is sent. */
interface RejectedNames {
  count: number;
  untilMs: number;
}

const REMEMBERED_MS = 60 * 60_000;
const rejectedNames = new WeakMap<AccountRoute, RejectedNames>();

export class OutputCap {
  readonly #tokens: number;
  readonly #request: ModelRequest;
  readonly #names: readonly string[];
  readonly #monotonicMs: () => number;
  /** What this request has learnt itself. */
  readonly #rejectedCounts = new Map<AccountRoute, number>();

  constructor(tokens: number, endpoint: Endpoint, request: ModelRequest, monotonicMs: () => number) {
    this.#tokens = tokens;
    this.#request = request;
    this.#names = endpoint.outputLimits;
    this.#monotonicMs = monotonicMs;
  }

  applyTo(body: RequestBody, route: AccountRoute): RequestBody {
    const name = this.#names[this.#countRejected(route)];
    return name === undefined ? body : body.withOutputCap(this.#tokens, name);
  }

  /** The cap for a request that is written for this account; null if the account accepts none. */
  tokensFor(route: AccountRoute): number | null {
    return this.#countRejected(route) < this.#names.length ? this.#tokens : null;
  }

  /**
   * True if the account rejected the request because of a cap that its client did not send: a retry then makes sense.
   */
  recordRejection(route: AccountRoute, { class: kind, error }: UpstreamFailure): boolean {
    const rejectedCount = this.#countRejected(route);
    const name = this.#names[rejectedCount];
    if (kind !== "rejected" || error === null || name === undefined) return false;
    // An account of another dialect knows the cap by another name.
    const names = route.translation === null ? [name] : BOUND_NAMES;
    // If the client used the name itself, the error may refer to that.
    if (names.some((one) => this.#request.body.mentions(one))) return false;
    const words: readonly string[] = error.message.match(/\w+/g) ?? [];
    if (!names.some((one) => error.param === one || words.includes(one))) return false;
    this.#rejectedCounts.set(route, rejectedCount + 1);
    // Only unsupported parameters are remembered: a value that is too large now may be accepted next time.
    if (UNKNOWN_FIELD.test(`${error.code} ${error.message}`)) {
      rejectedNames.set(route, { count: rejectedCount + 1, untilMs: this.#monotonicMs() + REMEMBERED_MS });
    }
    return true;
  }

  #countRejected(route: AccountRoute): number {
    const remembered = rejectedNames.get(route);
    const rememberedCount =
      remembered !== undefined && this.#monotonicMs() < remembered.untilMs ? remembered.count : 0;
    return Math.max(rememberedCount, this.#rejectedCounts.get(route) ?? 0);
  }
}

const BOUND_NAMES: readonly string[] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
const UNKNOWN_FIELD =
  /unsupported|not supported|unknown|unrecogni[sz]ed|unexpected|extra|not permitted|not allowed/i;
