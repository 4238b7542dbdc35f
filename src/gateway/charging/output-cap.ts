/**
 * The bound that the gateway itself puts into a request, where money is held for so many tokens and no more. Not every
 * upstream takes it: then it goes under the family's other name, or not at all. A stream that goes on and on is ended
 * here all the same.
 */

import type { UpstreamFailure } from "../../accounts/failure.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import { readBounds } from "../../protocols/shared/json-body.ts";
import type { Endpoint, ModelRequest, RequestBody } from "../../protocols/shared/request.ts";

/** The bound on the output that the gateway itself sends upstream: what the hold and the windows of money buy. */
export function outputCapFor(record: {
  readonly charge: { readonly outputCap: number | null } | null;
  readonly windowCap: number | null;
}): number | null {
  const { charge, windowCap } = record;
  const paidCap = charge?.outputCap ?? null;
  if (paidCap === null || windowCap === null) return paidCap ?? windowCap;
  return Math.min(paidCap, windowCap);
}

/** How far down the family's names an upstream has refused them: behind the last there is no bound. */
interface Known {
  way: number;
  untilMs: number;
}

const REMEMBERED_MS = 60 * 60_000;
const known = new WeakMap<AccountRoute, Known>();

export class OutputCap {
  private readonly tokens: number;
  private readonly request: ModelRequest;
  private readonly names: readonly string[];
  private readonly monotonicMs: () => number;
  /** What this request has learnt by itself. */
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

  /** True if the account refused the request for a bound that its client never sent: then it is worth another try. */
  isRefused(route: AccountRoute, { class: kind, error }: UpstreamFailure): boolean {
    const way = this.wayFor(route);
    const name = this.names[way];
    if (kind !== "rejected" || error === null || name === undefined) return false;
    // What the client wrote itself, an error may repeat.
    if (this.request.body.mentions(name)) return false;
    const words: readonly string[] = error.message.match(/\w+/g) ?? [];
    if (error.param !== name && !words.includes(name)) return false;
    this.ways.set(route, way + 1);
    // One that is only too large for this model may be small enough the next time.
    if (UNKNOWN_FIELD.test(`${error.code} ${error.message}`)) {
      known.set(route, { way: way + 1, untilMs: this.monotonicMs() + REMEMBERED_MS });
    }
    return true;
  }

  private wayFor(route: AccountRoute): number {
    const remembered = known.get(route);
    const lasting = remembered !== undefined && this.monotonicMs() < remembered.untilMs ? remembered.way : 0;
    return Math.max(lasting, this.ways.get(route) ?? 0);
  }
}

const UNKNOWN_FIELD =
  /unsupported|not supported|unknown|unrecogni[sz]ed|unexpected|extra|not permitted|not allowed/i;
