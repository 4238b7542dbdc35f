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
import { RejectedNames, type RejectionMemory } from "./rejected-names.ts";

/** The output cap that the gateway sends upstream: what the hold, the USD windows and the request policy allow. */
export function outputCapFor(record: {
  readonly charge: { readonly outputCap: number | null } | null;
  readonly windowCap: number | null;
  readonly policyCap: number | null;
}): number | null {
  const { charge, windowCap, policyCap } = record;
  return lowest(lowest(charge?.outputCap ?? null, windowCap), policyCap);
}

const rejectedCaps: RejectionMemory = new WeakMap();
const CAP_NAMES: readonly string[] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];

export class OutputCap {
  readonly #tokens: number;
  readonly #rejectedNames: RejectedNames;

  constructor(tokens: number, endpoint: Endpoint, request: ModelRequest, monotonicMs: () => number) {
    this.#tokens = tokens;
    this.#rejectedNames = new RejectedNames({
      request,
      names: endpoint.outputLimits,
      foreignNames: CAP_NAMES,
      memory: rejectedCaps,
      monotonicMs,
    });
  }

  applyTo(body: RequestBody, route: AccountRoute): RequestBody {
    const name = this.#rejectedNames.pickName(route);
    return name === undefined ? body : body.withOutputCap(this.#tokens, name);
  }

  /** The cap for a request that is written for this account; null if the account accepts none. */
  tokensFor(route: AccountRoute): number | null {
    return this.#rejectedNames.pickName(route) === undefined ? null : this.#tokens;
  }

  /** True if the account rejected the cap, so that a retry makes sense. */
  recordRejection(route: AccountRoute, failure: UpstreamFailure): boolean {
    return this.#rejectedNames.recordRejection(route, failure);
  }
}
