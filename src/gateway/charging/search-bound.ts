/**
 * How many searches of the web a request may run: those that its own settings allow or, if it sets no limit, the bound of
 * its group. They are held, sent as the limit of the request, and charged at most.
 */

import { usageLimits } from "../../count-limits.ts";
import type { Tariff } from "../../money/tariff.ts";
import type { AccountRoute, PublishedModel } from "../../policy/snapshot.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import { isSearchModel } from "../../protocols/shared/web-searches.ts";
import type { Caller } from "../admission/authenticate.ts";

interface SearchingRequest {
  readonly caller: { readonly group: Pick<Caller["group"], "webSearchesMax"> };
  readonly endpoint: Pick<Endpoint, "interface">;
  readonly request: Pick<ModelRequest, "searchOffer">;
  readonly model: Pick<PublishedModel, "routes">;
  /** What a USD window affords; null if it affords all. */
  readonly windowSearches: number | null;
}

/** The searches to hold: 0 if they cost nothing or if the request offers none. */
export function countHeldSearches(input: SearchingRequest, tariff: Tariff): number {
  if (tariff.prices.webSearch === 0n) return 0;
  const offer = input.request.searchOffer();
  // A search model searches once for each response, whether or not the request has options for it.
  if (isServedBySearchModel(input)) return 1;
  if (offer === null) return 0;
  const allowed = Math.min(offer.searchesMax ?? boundOfGroup(input), usageLimits.webSearchesMax);
  return Math.min(allowed, input.windowSearches ?? allowed);
}

/** By the routes of a model, which may have thousands of accounts. A change of the policy makes new ones. */
const servedBySearchModel = new WeakMap<readonly AccountRoute[], boolean>();

function isServedBySearchModel({ model, endpoint }: SearchingRequest): boolean {
  const routes = model.routes.get(endpoint.interface);
  if (routes === undefined) return false;
  let isServed = servedBySearchModel.get(routes);
  if (isServed === undefined) {
    isServed = routes.some(({ upstreamModel }) => isSearchModel(upstreamModel));
    servedBySearchModel.set(routes, isServed);
  }
  return isServed;
}

function boundOfGroup({ caller }: SearchingRequest): number {
  return caller.group.webSearchesMax;
}

/**
 * The most searches that are charged, if a hold or a reservation pays for `paidSearches`; null if they cost nothing. Some
 * models search without an offer: nothing is held for that.
 */
export function boundCharged(input: SearchingRequest, tariff: Tariff, paidSearches: number): number | null {
  if (tariff.prices.webSearch === 0n) return null;
  return input.request.searchOffer() === null ? Math.max(paidSearches, boundOfGroup(input)) : paidSearches;
}
