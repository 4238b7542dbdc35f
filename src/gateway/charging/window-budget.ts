/**
 * What a request reserves in its caller's USD windows: its maximum cost, by the output limit of the client or the
 * model. If a window has less left, the request reserves that and its output is capped accordingly. So a window smaller
 * than the maximum of one request stays usable, and parallel requests do not exceed it.
 */

import type { Nano } from "../../money/nano.ts";
import { computeTariffCost, costAtMost } from "../../money/tariff.ts";
import type { InputEstimates } from "../metering/input-estimate.ts";
import {
  computePaidOutput,
  computePaidSearches,
  type Forecast,
  type ForecastInput,
  forecastCost,
  forecastUsage,
} from "./charge.ts";
import { boundCharged } from "./search-bound.ts";

export interface WindowBudget {
  readonly input: ForecastInput;
  readonly forecast: Forecast;
  /** With the longest output that the client or the model allows. */
  readonly wantedNano: Nano;
}

/** Returns null if the model has no price and therefore uses no USD window. */
export function forecastBudget(
  estimates: Pick<InputEstimates, "estimate">,
  input: ForecastInput,
): WindowBudget | null {
  const { tariff } = input.model;
  if (tariff === null) return null;
  const forecast = forecastCost(estimates, input, tariff, null);
  return { input, forecast, wantedNano: computeMaxCost(input, forecast) };
}

/** Text by its estimate, as it can be counted: one token per byte would fill windows needlessly. */
function computeMaxCost(input: ForecastInput, { tariff, upper, estimatedNano }: Forecast): Nano {
  if (input.endpoint.output === "image") {
    const used = { inputTokens: upper?.inputTokens ?? 0, outputTokens: 0, webSearches: 0 };
    const byPiece = costAtMost(tariff, forecastUsage(input, used));
    return estimatedNano > byPiece ? estimatedNano : byPiece;
  }
  return upper === null ? estimatedNano : upper.fullNano;
}

const OUTPUT_TOKENS_USUAL = 500;

/** The probable cost, if the upstream reported no usage and nothing was counted. */
export function likelyCost({ input, forecast }: WindowBudget): Nano {
  const { endpoint, request } = input;
  const usual = endpoint.output === "image" ? 0 : OUTPUT_TOKENS_USUAL * request.choices;
  const outputTokens = Math.min(forecast.outputTokens, usual);
  const used = { inputTokens: forecast.inputTokens, outputTokens, webSearches: 0 };
  return computeTariffCost(forecast.tariff, forecastUsage(input, used));
}

/** `restNano`: the smallest remainder of the windows. Below the shortest output the limiter rejects. */
export function reserveWithin({ input, forecast, wantedNano }: WindowBudget, restNano: number): Nano {
  if (Number(wantedNano) <= restNano) return wantedNano;
  if (!input.endpoint.isBounded) return wantedNano;
  const rest = BigInt(Math.floor(restNano));
  return rest > forecast.leastNano ? rest : forecast.leastNano;
}

/** The most searches of the web that are charged; null if they cost nothing. */
export function searchesWithin({ input, forecast }: WindowBudget, reservedNano: Nano): number | null {
  return boundCharged(input, forecast.tariff, computePaidSearches(forecast, reservedNano));
}

/** The output cap to send upstream, for each choice; null if the limit of the client or of the model suffices. */
export function outputCapWithin(
  { input, forecast, wantedNano }: WindowBudget,
  reservedNano: Nano,
): number | null {
  if (reservedNano >= wantedNano || !input.endpoint.isBounded) return null;
  const affordableTokens = computePaidOutput(input, forecast, reservedNano);
  if (affordableTokens >= forecast.outputTokens) return null;
  return Math.floor(affordableTokens / input.request.choices);
}
