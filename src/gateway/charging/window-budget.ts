/**
 * What a request reserves in its caller's USD windows: its maximum cost, by the output limit of the client or the
 * model. If a window has less left, the request reserves that and its output is capped accordingly. So a window smaller
 * than the maximum of one request stays usable, and parallel requests do not exceed it.
 */

import type { Nano } from "../../money/nano.ts";
import { computeTariffCost, costAtMost } from "../../money/tariff.ts";
import type { InputEstimates } from "../metering/input-estimate.ts";
import {
  type ChargeQuestion,
  type Forecast,
  forecastCost,
  forecastUsage,
  isBounded,
  outputBought,
} from "./charge.ts";

export interface WindowBudget {
  readonly question: ChargeQuestion;
  readonly forecast: Forecast;
  /** With the longest output that the client or the model allows. */
  readonly wantedNano: Nano;
}

/** Returns null if the model has no price and therefore uses no USD window. */
export function forecastBudget(
  estimates: Pick<InputEstimates, "estimate">,
  question: ChargeQuestion,
): WindowBudget | null {
  const { tariff } = question.model;
  if (tariff === null) return null;
  const forecast = forecastCost(estimates, question, tariff, null);
  return { question, forecast, wantedNano: computeMaxCost(question, forecast) };
}

/**
 * Uses the estimate for text, which can be counted. A hold assumes one token per byte, which would fill windows
 * needlessly.
 */
function computeMaxCost(question: ChargeQuestion, { tariff, firm, doubtNano, outputTokens }: Forecast): Nano {
  if (question.endpoint.interface === "images") {
    const byPiece = costAtMost(tariff, forecastUsage(question, firm?.inputTokens ?? 0, 0));
    return doubtNano > byPiece ? doubtNano : byPiece;
  }
  if (firm === null) return doubtNano;
  return costAtMost(tariff, forecastUsage(question, firm.inputTokens, outputTokens)) + firm.premiumNano;
}

const OUTPUT_TOKENS_USUAL = 500;

/** The probable cost, if the upstream reported no usage and nothing was counted. */
export function likelyCost({ question, forecast }: WindowBudget): Nano {
  const { endpoint, request } = question;
  const usual = endpoint.interface === "images" ? 0 : OUTPUT_TOKENS_USUAL * request.choices;
  const outputTokens = Math.min(forecast.outputTokens, usual);
  return computeTariffCost(forecast.tariff, forecastUsage(question, forecast.inputTokens, outputTokens));
}

/**
 * `restNano` is the smallest remainder of the caller's windows. Below the shortest output the limiter rejects the
 * request.
 */
export function reserveWithin({ question, forecast, wantedNano }: WindowBudget, restNano: number): Nano {
  if (Number(wantedNano) <= restNano) return wantedNano;
  if (!isBounded(question.endpoint)) return wantedNano;
  const rest = BigInt(Math.floor(restNano));
  return rest > forecast.leastNano ? rest : forecast.leastNano;
}

/** The output cap to send upstream, for each choice; null if the limit of the client or of the model suffices. */
export function outputCapWithin(
  { question, forecast, wantedNano }: WindowBudget,
  reservedNano: Nano,
): number | null {
  if (reservedNano >= wantedNano || !isBounded(question.endpoint)) return null;
  const affordableTokens = outputBought(question, forecast, reservedNano);
  if (affordableTokens >= forecast.outputTokens) return null;
  return Math.floor(affordableTokens / question.request.choices);
}
