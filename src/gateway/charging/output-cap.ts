/**
 * The output cap that the gateway adds to a request whose hold pays for a limited number of tokens. Some upstreams
 * reject the parameter: then the interface's other parameter name is used, or none. A stream that far exceeds its cap
 * is also ended by the gateway.
 */

import type { UpstreamFailure } from "../../accounts/failure.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import { readBounds } from "../../protocols/shared/json-body.ts";
import type { Endpoint, ModelRequest, RequestBody } from "../../protocols/shared/request.ts";

/** The output cap that the gateway sends upstream: what the hold and the USD windows pay for. */
export function outputCapFor(record: {
  readonly charge: { readonly outputCap: number | null } | null;
  readonly windowCap: number | null;
}): number | null {
  const { charge, windowCap } = record;
  const paidCap = charge?.outputCap ?? null;
  if (paidCap === null || windowCap === null) return paidCap ?? windowCap;
  return Math.min(paidCap, windowCap);
}

/** How many of the interface's parameter names an upstream has rejected. After the last one no cap is sent. */
interface RejectedNames {
  way: number;
  untilMs: number;
}

const REMEMBERED_MS = 60 * 60_000;
const rejectedNames = new WeakMap<AccountRoute, RejectedNames>();

export class OutputCap {
  private readonly tokens: number;
  private readonly request: ModelRequest;
  private readonly names: readonly string[];
  private readonly monotonicMs: () => number;
  /** What this request has learnt itself. */
  private readonly ways = new Map<AccountRoute, number>();

  constructor(tokens: number, endpoint: Endpoint, request: ModelRequest, monotonicMs: () => number) {
    this.tokens = tokens;
    this.request = request;
    this.names = readBounds(endpoint);
    this.monotonicMs = monotonicMs;
  }

  putInto(body: RequestBody, route: AccountRoute): RequestBody {
    const name = this.names[this.wayFor(route)];
    return name === undefined ? body : body.withOutputCap(this.tokens, name);
  }

  /**
   * True if the account rejected the request because of a cap that its client did not send: a retry then makes sense.
   */
  isRefused(route: AccountRoute, { class: kind, error }: UpstreamFailure): boolean {
    const way = this.wayFor(route);
    const name = this.names[way];
    if (kind !== "rejected" || error === null || name === undefined) return false;
    // If the client used the name itself, the error may refer to that.
    if (this.request.body.mentions(name)) return false;
    const words: readonly string[] = error.message.match(/\w+/g) ?? [];
    if (error.param !== name && !words.includes(name)) return false;
    this.ways.set(route, way + 1);
    // Only unsupported parameters are remembered: a value that is too large now may be accepted next time.
    if (UNKNOWN_FIELD.test(`${error.code} ${error.message}`)) {
      rejectedNames.set(route, { way: way + 1, untilMs: this.monotonicMs() + REMEMBERED_MS });
    }
    return true;
  }

  private wayFor(route: AccountRoute): number {
    const remembered = rejectedNames.get(route);
    const lasting = remembered !== undefined && this.monotonicMs() < remembered.untilMs ? remembered.way : 0;
    return Math.max(lasting, this.ways.get(route) ?? 0);
  }
}

const UNKNOWN_FIELD =
  /unsupported|not supported|unknown|unrecogni[sz]ed|unexpected|extra|not permitted|not allowed/i;
