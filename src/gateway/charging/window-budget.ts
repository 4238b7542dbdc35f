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
  type Forecast,
  type ForecastInput,
  forecastCost,
  forecastUsage,
} from "./charge.ts";

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

/**
 * Uses the estimate for text, which can be counted. A hold assumes one token per byte, which would fill windows
 * needlessly.
 */
function computeMaxCost(
  input: ForecastInput,
  { tariff, upper, estimatedNano, outputTokens }: Forecast,
): Nano {
  if (input.endpoint.output === "image") {
    const byPiece = costAtMost(tariff, forecastUsage(input, upper?.inputTokens ?? 0, 0));
    return estimatedNano > byPiece ? estimatedNano : byPiece;
  }
  if (upper === null) return estimatedNano;
  return costAtMost(tariff, forecastUsage(input, upper.inputTokens, outputTokens)) + upper.premiumNano;
}

const OUTPUT_TOKENS_USUAL = 500;

/** The probable cost, if the upstream reported no usage and nothing was counted. */
export function likelyCost({ input, forecast }: WindowBudget): Nano {
  const { endpoint, request } = input;
  const usual = endpoint.output === "image" ? 0 : OUTPUT_TOKENS_USUAL * request.choices;
  const outputTokens = Math.min(forecast.outputTokens, usual);
  return computeTariffCost(forecast.tariff, forecastUsage(input, forecast.inputTokens, outputTokens));
}

/**
 * `restNano` is the smallest remainder of the caller's windows. Below the shortest output the limiter rejects the
 * request.
 */
export function reserveWithin({ input, forecast, wantedNano }: WindowBudget, restNano: number): Nano {
  if (Number(wantedNano) <= restNano) return wantedNano;
  if (!input.endpoint.isBounded) return wantedNano;
  const rest = BigInt(Math.floor(restNano));
  return rest > forecast.leastNano ? rest : forecast.leastNano;
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
