/** The forecast price of a step, and whether it is within the maximum that the policy and the client set. */

import type { Nano } from "../../money/nano.ts";
import type { PublishedModel } from "../../policy/snapshot.ts";
import type { Caller } from "../admission/authenticate.ts";
import { forecastCost } from "../charging/charge.ts";
import type { InputEstimates } from "../metering/input-estimate.ts";
import type { AdmittedRequest } from "../request-context.ts";

const MILLION = 1_000_000n;

interface PricedTarget {
  readonly caller: Caller;
  readonly model: PublishedModel;
}

/** The expected cost of the request, paid or not; null if the model has no price. */
export function forecastPrice(
  estimates: Pick<InputEstimates, "estimate">,
  { endpoint, request, storedConversation }: AdmittedRequest,
  { caller, model }: PricedTarget,
): Nano | null {
  const { tariff } = model;
  if (tariff === null || endpoint.output === "count") return null;
  const input = { caller, endpoint, request, model, windowCap: null, windowSearches: null };
  const conversationTokens = storedConversation?.record.tokens ?? null;
  return forecastCost(estimates, input, tariff, conversationTokens).estimatedNano;
}

/** `maxFactors` are in millionths of the price of the first step. Without a price, the first step affords no other. */
export function isWithinPrice(
  priceNano: Nano | null,
  firstNano: Nano | null,
  maxFactors: readonly (bigint | null)[],
): boolean {
  const price = priceNano ?? 0n;
  return maxFactors.every((factor) => factor === null || price * MILLION <= factor * (firstNano ?? 0n));
}
