/**
 * The limit of web searches that the gateway adds to a request whose searches are paid for. Accounts of Chat Completions
 * and Gemini have no parameter for it, and some others reject it: what they search above it is not charged.
 */

import type { UpstreamFailure } from "../../accounts/failure.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import type { ModelRequest, RequestBody } from "../../protocols/shared/request.ts";
import type { SearchLimitMember, SearchOffer } from "../../protocols/shared/search-limit.ts";
import { RejectedNames, RejectionMemory } from "./rejected-names.ts";

const rejectedLimits = new RejectionMemory();
const LIMIT_NAMES: readonly SearchLimitMember[] = ["max_tool_calls", "max_uses"];

interface PaidSearches {
  readonly searchesMax: number;
  readonly offer: SearchOffer;
  readonly endpoint: Pick<Endpoint, "searchLimit">;
  readonly request: ModelRequest;
  monotonicMs(): number;
}

export class SearchCap {
  readonly #searchesMax: number;
  readonly #offer: SearchOffer;
  readonly #rejectedNames: RejectedNames;

  constructor({ searchesMax, offer, endpoint, request, monotonicMs }: PaidSearches) {
    this.#searchesMax = searchesMax;
    this.#offer = offer;
    this.#rejectedNames = new RejectedNames({
      request,
      names: endpoint.searchLimit === null ? LIMIT_NAMES : [endpoint.searchLimit],
      foreignNames: LIMIT_NAMES,
      memory: rejectedLimits,
      monotonicMs,
    });
  }

  applyTo(body: RequestBody, route: AccountRoute): RequestBody {
    const searchesMax = this.searchesFor(route);
    return searchesMax === null ? body : body.withSearchLimit(this.#offer, searchesMax);
  }

  /** The limit for a request that is written for this account; null if the account accepts none. */
  searchesFor(route: AccountRoute): number | null {
    return this.#rejectedNames.pickName(route) === undefined ? null : this.#searchesMax;
  }

  /** True if the account rejected the limit, so that a retry makes sense. */
  recordRejection(route: AccountRoute, failure: UpstreamFailure): boolean {
    return this.#rejectedNames.recordRejection(route, failure);
  }
}
