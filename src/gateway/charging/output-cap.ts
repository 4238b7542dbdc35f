/**
 * The output cap that the gateway adds to a request whose hold pays for a limited number of tokens, or whose request
 * policy allows no more. Some upstreams reject the parameter: then the interface's other parameter name is used, or
 * none. If a request policy requires the cap, such an account is not used instead. A stream that far exceeds its cap is
 * also ended by the gateway.
 */

import type { UpstreamFailure } from "../../accounts/failure.ts";
import { lowest } from "../../base/lowest.ts";
import { ApiError } from "../../errors.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import type { ModelRequest, RequestBody } from "../../protocols/shared/request.ts";
import { RejectedNames, RejectionMemory } from "./rejected-names.ts";

/** The output cap that the gateway sends upstream: what the hold, the USD windows and the request policy allow. */
export function outputCapFor(record: {
  readonly charge: { readonly outputCap: number | null } | null;
  readonly windowCap: number | null;
  readonly policyCap: number | null;
}): number | null {
  const { charge, windowCap, policyCap } = record;
  return lowest(lowest(charge?.outputCap ?? null, windowCap), policyCap);
}

const rejectedCaps = new RejectionMemory();
const CAP_NAMES: readonly string[] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];

interface AddedCap {
  readonly tokens: number;
  /** A request policy has the cap: the request is not sent without it. */
  readonly isRequired: boolean;
  readonly endpoint: Endpoint;
  readonly request: ModelRequest;
  monotonicMs(): number;
}

export class OutputCap {
  readonly #tokens: number;
  readonly #isRequired: boolean;
  readonly #param: string;
  readonly #rejectedNames: RejectedNames;

  constructor({ tokens, isRequired, endpoint, request, monotonicMs }: AddedCap) {
    this.#tokens = tokens;
    this.#isRequired = isRequired;
    this.#param = endpoint.outputLimits[0] ?? "";
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

  /** The accounts that must not be used, because they are known to accept no cap. */
  findUnable(routes: readonly AccountRoute[]): readonly AccountRoute[] {
    return this.#isRequired ? this.#rejectedNames.findUnable(routes) : [];
  }

  isUnable(route: AccountRoute): boolean {
    return this.findUnable([route]).length > 0;
  }

  /** The error of a request that only such accounts could serve. */
  unableError(publicModel: string): ApiError {
    return new ApiError(
      "policy_violation",
      `\`${this.#param}\`: the key's request policy limits the output to ${this.#tokens} tokens, and no account that serves the model \`${publicModel}\` accepts such a limit. Use another model, or ask your administrator.`,
      { param: this.#param, rule: "output_tokens" },
    );
  }

  /** True if the account rejected the cap, so that a retry makes sense. */
  recordRejection(route: AccountRoute, failure: UpstreamFailure): boolean {
    return this.#rejectedNames.recordRejection(route, failure);
  }
}
