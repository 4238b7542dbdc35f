/**
 * What a request reserves in its caller's windows of money: the most that it may cost, by its client's bound on the
 * answer or the model's. Where a window has less left, the request reserves that, and its answer is bounded to what it
 * buys: a window smaller than the bound of one request stays usable, and parallel requests do not overshoot it.
 */

import type { Nano } from "../../money/nano.ts";
import { costAtMost, costOf } from "../../money/tariff.ts";
import type { InputEstimates } from "../metering/input-estimate.ts";
import { type Forecast, forecastOf, isBounded, outputBought, type Question, useOf } from "./charge.ts";

export interface WindowBudget {
  readonly question: Question;
  readonly forecast: Forecast;
  /** With the longest answer that the client or the model allows. */
  readonly wantedNano: Nano;
}

/** Null where the model has no price, and so fills no window of money. */
export function forecastBudget(
  estimates: Pick<InputEstimates, "estimate">,
  question: Question,
): WindowBudget | null {
  const { tariff } = question.model;
  if (tariff === null) return null;
  const forecast = forecastOf(estimates, question, tariff, null);
  return { question, forecast, wantedNano: mostWithin(question, forecast) };
}

/** Text at its estimate, for it can be counted; a hold takes every byte for a token, which would fill windows in vain. */
function mostWithin(question: Question, { tariff, firm, doubtNano, outputTokens }: Forecast): Nano {
  if (question.endpoint.interface === "images") {
    const byPiece = costAtMost(tariff, useOf(question, firm?.inputTokens ?? 0, 0));
    return doubtNano > byPiece ? doubtNano : byPiece;
  }
  if (firm === null) return doubtNano;
  return costAtMost(tariff, useOf(question, firm.inputTokens, outputTokens)) + firm.premiumNano;
}

const OUTPUT_TOKENS_USUAL = 500;

/** What it will probably have cost, where nobody told and nothing was counted. */
export function likelyCost({ question, forecast }: WindowBudget): Nano {
  const { endpoint, request } = question;
  const usual = endpoint.interface === "images" ? 0 : OUTPUT_TOKENS_USUAL * request.choices;
  const outputTokens = Math.min(forecast.outputTokens, usual);
  return costOf(forecast.tariff, useOf(question, forecast.inputTokens, outputTokens));
}

/** `restNano`: the least that any of its caller's windows has left. Below the shortest answer the limiter refuses it. */
export function reserveWithin({ question, forecast, wantedNano }: WindowBudget, restNano: number): Nano {
  if (Number(wantedNano) <= restNano) return wantedNano;
  if (!isBounded(question.endpoint)) return wantedNano;
  const rest = BigInt(Math.floor(restNano));
  return rest > forecast.leastNano ? rest : forecast.leastNano;
}

/** The bound that has to go upstream, for each choice; null where the client's own or the model's will do. */
export function outputCapWithin(
  { question, forecast, wantedNano }: WindowBudget,
  reservedNano: Nano,
): number | null {
  if (reservedNano >= wantedNano || !isBounded(question.endpoint)) return null;
  const bought = outputBought(question, forecast, reservedNano);
  if (bought >= forecast.outputTokens) return null;
  return Math.floor(bought / question.request.choices);
}
