/**
 * Takes the hold of a request before it is sent upstream: its maximum cost or, if the payer has less, all that the
 * payer has. The output and the searches of the web are then capped to what the hold pays for after the estimated input.
 */

import { isPending, type MaybePromise, whenReady } from "../../base/maybe-promise.ts";
import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import {
  BillingUnavailable,
  type HoldRequest,
  type HoldResult,
} from "../../billing/engine/direct-billing.ts";
import { storeUnavailable } from "../../errors.ts";
import type { Nano } from "../../money/nano.ts";
import {
  affordableOutput,
  costAtMost,
  dearerTier,
  type ForeseenInput,
  type PricedUsage,
  type Tariff,
} from "../../money/tariff.ts";
import type { PublishedModel } from "../../policy/snapshot.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import type { UsagePayer } from "../../store/usage/usage-row.ts";
import type { Caller } from "../admission/authenticate.ts";
import type { InputCounter } from "../metering/count-input.ts";
import type { InputEstimates } from "../metering/input-estimate.ts";
import {
  computeInputMax,
  estimateInputMin,
  estimateInputUpper,
  isTextAlone,
} from "../metering/input-range.ts";
import { buildHoldError, type InsufficientHold, noPayerError } from "./hold-error.ts";
import { boundCharged, countHeldSearches } from "./search-bound.ts";

export interface RequestCharge {
  readonly tariff: Tariff;
  readonly payer: UsagePayer;
  readonly heldNano: Nano;
  /** An estimate, made before anything is counted. */
  readonly inputTokens: number;
  /** The maximum output tokens of all choices together. */
  readonly outputTokens: number;
  /** The output tokens that the hold pays for after the estimated input: `outputTokens` or more. */
  readonly paidOutputTokens: number;
  /** The most searches of the web that are charged; null if they cost nothing. */
  readonly searchesMax: number | null;
  /** The payer had less than the maximum cost of the request. */
  readonly isCapped: boolean;
  /** The output cap to send upstream, for each choice; null if the limit of the client or of the model suffices. */
  readonly outputCap: number | null;
}

/** The cap to send upstream if neither the client nor the model sets one. */
const OUTPUT_TOKENS_UNBOUNDED = 16_384;
/** A shorter response is useless, and some upstreams reject a smaller cap. */
export const OUTPUT_TOKENS_MIN = 16;
/** The most expensive image that is priced by tokens. */
const IMAGE_OUTPUT_TOKENS = 8_192;

export interface HoldServices {
  readonly estimates: Pick<InputEstimates, "estimate">;
  readonly inputCounter: Pick<InputCounter, "countRequest">;
  readonly billingEngine: Pick<BillingEngine, "hold">;
}

/** The part of the request context that the hold depends on. */
export interface ChargeableRequest {
  readonly call: { readonly requestId: string };
  readonly caller: Caller;
  readonly endpoint: Endpoint;
  readonly request: ModelRequest;
  readonly model: PublishedModel;
  /** The output tokens of each choice that a USD window affords; null if it affords all of them. */
  readonly windowCap: number | null;
  /** The searches of the web that a USD window affords; null without such a window, or if searches cost nothing. */
  readonly windowSearches: number | null;
}

/** Everything that the use depends on. */
export type ForecastInput = Omit<ChargeableRequest, "call">;

/** The estimated use and cost of a request, before its hold. */
export interface Forecast {
  readonly tariff: Tariff;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** The most searches of the web. */
  readonly searches: number;
  /** The estimated input, the maximum output and all searches. */
  readonly estimatedNano: Nano;
  readonly wantedNano: Nano;
  readonly leastNano: Nano;
  /** Null if all of the input is text, which can be counted. */
  readonly upper: UpperForecast | null;
}

/** The upper estimate of an input that cannot be counted before the upstream has read it. */
interface UpperForecast {
  readonly inputTokens: number;
  /** Includes the shortest useful output, and one search if the request offers searches. */
  readonly nano: Nano;
  /** Includes the maximum output and all searches. */
  readonly fullNano: Nano;
  /** What the input may cost above the ordinary price of its tokens: it may be audio, or be written to a cache. */
  readonly premiumNano: Nano;
}

/**
 * Returns null for unpaid requests. Throws if the payer cannot afford the request. `conversationTokens` is the length of the
 * conversation that the upstream stores, if known. Returns a promise only if billing is not synchronous.
 */
export function holdMoney(
  services: HoldServices,
  chargeable: ChargeableRequest,
  conversationTokens: number | null = null,
): MaybePromise<RequestCharge> | null {
  const { caller, endpoint, request, model } = chargeable;
  const { key, group } = caller;
  const { charge, plans } = group.billing;
  // Counting tokens is always free.
  if (charge === "none" || model.tariff === null || endpoint.output === "count") return null;
  if (key.userId === null) throw noPayerError();
  if (endpoint.isBounded) request.checkBounds();
  const { tariff } = model;
  const forecast = forecastCost(services.estimates, chargeable, tariff, conversationTokens);
  const holdRequest: HoldRequest = {
    requestId: chargeable.call.requestId,
    userId: key.userId,
    charge,
    plans,
    tariff,
    wantedNano: forecast.wantedNano,
    leastNano: forecast.leastNano,
    firmNano: forecast.upper?.nano ?? forecast.leastNano,
    inputTokens: forecast.inputTokens,
    keyId: key.id,
    groupId: group.id,
    interface: endpoint.interface,
    endpoint: endpoint.name,
    publicModel: request.publicModel,
    stream: request.stream,
    isLasting: request.background,
  };
  const pendingHold = services.billingEngine.hold(holdRequest);
  if (!isPending(pendingHold) && pendingHold.kind === "held") {
    return buildCharge(charge, chargeable, forecast, pendingHold);
  }
  const take = (holdResult: HoldResult) =>
    holdResult.kind === "short" && mayBeEnough(holdResult.availableNano, forecast)
      ? holdAsCounted(services, {
          chargeable,
          estimated: holdRequest,
          conversationTokens,
          shortage: holdResult,
        })
      : buildCharge(charge, chargeable, forecast, holdResult);
  return whenReady(isPending(pendingHold) ? pendingHold.catch(toBillingError) : pendingHold, take);
}

/** Estimates are hardly ever more than four times too high: with less than a quarter, counting would not help. */
function mayBeEnough(availableNano: Nano, { leastNano }: Forecast): boolean {
  return availableNano > 0n && 4n * availableNano >= leastNano;
}

/** A hold for the estimated cost that the payer could not afford. */
interface UnaffordableHold {
  readonly chargeable: ChargeableRequest;
  readonly estimated: HoldRequest;
  readonly conversationTokens: number | null;
  readonly shortage: InsufficientHold;
}

/** An estimate rejects no request: the input is counted, and the hold is tried with that cost. */
async function holdAsCounted(
  { billingEngine, inputCounter }: HoldServices,
  { chargeable, estimated, conversationTokens, shortage }: UnaffordableHold,
): Promise<RequestCharge> {
  const { charge, tariff } = estimated;
  const { request, endpoint, caller } = chargeable;
  const countable = { request, output: endpoint.output, owner: caller.key.id };
  const tokens = await inputCounter.countRequest(countable).catch(() => null);
  if (tokens === null) throw buildHoldError(charge, estimated.leastNano, shortage);
  const counted = forecastCost({ estimate: () => tokens }, chargeable, tariff, conversationTokens);
  const { wantedNano, leastNano, inputTokens } = counted;
  if (leastNano >= estimated.leastNano) throw buildHoldError(charge, estimated.leastNano, shortage);
  const firmNano = counted.upper?.nano ?? leastNano;
  const holdRequest = { ...estimated, wantedNano, leastNano, firmNano, inputTokens };
  const pendingHold = Promise.resolve(billingEngine.hold(holdRequest));
  return buildCharge(charge, chargeable, counted, await pendingHold.catch(toBillingError));
}

export function forecastCost(
  estimates: Pick<InputEstimates, "estimate">,
  input: ForecastInput,
  tariff: Tariff,
  conversationTokens: number | null,
): Forecast {
  const { endpoint, request, model } = input;
  const terms = { output: endpoint.output, contextTokens: model.contextTokens, conversationTokens };
  const inputTokens = estimateInputMin(estimates, request, terms);
  const outputTokens = computeRequestedOutput(input, inputTokens);
  const webSearches = countHeldSearches(input, tariff);
  const estimatedNano = costAtMost(tariff, forecastUsage(input, { inputTokens, outputTokens, webSearches }));
  const { pictures, files } = request.inputContents();
  const foreseen = pictures + files > 0 ? "media" : "text";
  const inputTokensMax = computeInputMax(request, terms);
  const most = forecastUsage(input, { inputTokens: inputTokensMax, outputTokens, webSearches });
  const mostNano = computeMaxCost(tariff, most, foreseen);
  const wantedNano = larger(estimatedNano, mostNano);
  const outputMin = Math.min(
    outputTokens,
    endpoint.isBounded ? OUTPUT_TOKENS_MIN * request.choices : outputTokens,
  );
  const least = { inputTokens, outputTokens: outputMin, webSearches: Math.min(1, webSearches) };
  const leastNano = costAtMost(tariff, forecastUsage(input, least));
  let upper: UpperForecast | null = null;
  if (!isTextAlone(request)) {
    const tokens = estimateInputUpper(estimates, request, terms);
    const nano = larger(
      leastNano,
      computeMaxCost(tariff, forecastUsage(input, { ...least, inputTokens: tokens }), foreseen),
    );
    const inputAlone = forecastUsage(input, { inputTokens: tokens, outputTokens: 0, webSearches: 0 });
    const premiumNano = costAtMost(tariff, inputAlone, foreseen) - costAtMost(tariff, inputAlone);
    const full = forecastUsage(input, { inputTokens: tokens, outputTokens, webSearches });
    const fullNano = costAtMost(tariff, full) + premiumNano;
    upper = { inputTokens: tokens, nano: nano < wantedNano ? nano : wantedNano, fullNano, premiumNano };
  }
  return {
    tariff,
    inputTokens,
    outputTokens,
    searches: webSearches,
    estimatedNano,
    wantedNano,
    leastNano,
    upper,
  };
}

/** The maximum cost. Images are priced by their tokens only if the upstream reports them. */
function computeMaxCost(tariff: Tariff, used: PricedUsage, foreseen: ForeseenInput): Nano {
  const reportedNano = costAtMost(tariff, used, foreseen);
  return used.images === 0
    ? reportedNano
    : larger(reportedNano, costAtMost(tariff, { ...used, outputTokens: 0 }, foreseen));
}

function buildCharge(
  payer: UsagePayer,
  input: ForecastInput,
  forecast: Forecast,
  holdResult: HoldResult,
): RequestCharge {
  const { tariff, inputTokens, outputTokens: wantedOutput, wantedNano, leastNano } = forecast;
  if (holdResult.kind !== "held") throw buildHoldError(payer, leastNano, holdResult);
  const { endpoint, request } = input;
  const heldNano = holdResult.amountNano;
  const webSearches = computePaidSearches(forecast, heldNano);
  const withoutOutput = forecastUsage(input, { inputTokens, outputTokens: 0, webSearches });
  const paidOutputTokens = affordableOutput(tariff, withoutOutput, heldNano);
  const affordableTokens =
    heldNano >= wantedNano ? wantedOutput : computePaidOutput(input, forecast, heldNano);
  const outputTokens = Math.min(wantedOutput, affordableTokens);
  const isOutputCapped = endpoint.isBounded && outputTokens < wantedOutput;
  const needsCap = isOutputCapped || (endpoint.isBounded && isOpenEnded(input));
  return {
    tariff,
    payer,
    heldNano,
    inputTokens,
    outputTokens,
    paidOutputTokens,
    searchesMax: boundCharged(input, tariff, webSearches),
    isCapped: isOutputCapped || webSearches < forecast.searches,
    outputCap: needsCap ? Math.floor(outputTokens / request.choices) : null,
  };
}

/**
 * The searches that a hold pays for: all of them, or as large a part as of the output. `leastNano` pays for one, so that
 * a payer who can afford none is rejected.
 */
export function computePaidSearches(
  { searches, leastNano, estimatedNano, wantedNano, upper }: Forecast,
  heldNano: Nano,
): number {
  if (searches <= 1 || heldNano >= wantedNano) return searches;
  const isUpper = upper !== null && heldNano >= upper.nano;
  const fromNano = isUpper ? upper.nano : leastNano;
  const toNano = isUpper ? upper.fullNano : estimatedNano;
  if (heldNano >= toNano) return searches;
  return 1 + Number((BigInt(searches - 1) * (heldNano - fromNano)) / (toNano - fromNano));
}

/**
 * The output that a hold pays for after the input and its searches: the input at its upper estimate if the hold covers
 * it, otherwise as estimated.
 */
export function computePaidOutput(input: ForecastInput, forecast: Forecast, heldNano: Nano): number {
  const { tariff, inputTokens, upper } = forecast;
  const webSearches = computePaidSearches(forecast, heldNano);
  if (upper === null || heldNano < upper.nano) {
    const estimated = forecastUsage(input, { inputTokens, outputTokens: 0, webSearches });
    return affordableOutput(tariff, estimated, heldNano);
  }
  const withoutOutput = forecastUsage(input, {
    inputTokens: upper.inputTokens,
    outputTokens: 0,
    webSearches,
  });
  const affordableTokens = affordableOutput(tariff, withoutOutput, heldNano - upper.premiumNano);
  return Math.max(affordableTokens, OUTPUT_TOKENS_MIN * input.request.choices);
}

function toBillingError(cause: unknown): never {
  throw cause instanceof BillingUnavailable ? storeUnavailable() : cause;
}

function larger(a: Nano, b: Nano): Nano {
  return a > b ? a : b;
}

/** The expected use, as far as it is known before the response begins. */
export function forecastUsage(
  { endpoint, request, model: { tariff } }: ForecastInput,
  {
    inputTokens,
    outputTokens,
    webSearches,
  }: Pick<PricedUsage, "inputTokens" | "outputTokens" | "webSearches">,
): PricedUsage {
  // Written field by field: object spread takes several times as long, and this runs four times per request.
  return {
    inputTokens,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    cacheWrite1hTokens: 0,
    outputTokens,
    reasoningTokens: 0,
    imageInputTokens: 0,
    audioInputTokens: 0,
    audioOutputTokens: 0,
    images: endpoint.output === "image" ? request.choices : 0,
    webSearches,
    imageKind: request.imageKind,
    // Nearly all prices have no tiers. An upstream may serve a cheaper tier at the standard one.
    tier:
      tariff === null || tariff.prices.tiers.size === 0 ? null : dearerTier(tariff, request.requestedTier()),
  };
}

/** Neither the client nor the model limits the output. */
function isOpenEnded({ request, model }: ForecastInput): boolean {
  return request.outputTokensMax === null && model.outputTokensMax === null;
}

function computeRequestedOutput(input: ForecastInput, inputTokens: number): number {
  const outputTokens = computeOutputMax(input, inputTokens);
  const { windowCap, request } = input;
  return windowCap === null ? outputTokens : Math.min(outputTokens, windowCap * request.choices);
}

function computeOutputMax({ endpoint, request, model }: ForecastInput, inputTokens: number): number {
  if (endpoint.output === "vector") return 0;
  if (endpoint.output === "image") return IMAGE_OUTPUT_TOKENS * request.choices;
  const modelOutputMax = model.outputTokensMax ?? unboundedOutput(model, inputTokens);
  if (endpoint.isShort) return Math.min(modelOutputMax, OUTPUT_TOKENS_UNBOUNDED);
  if (request.outputTokensMax === null) return modelOutputMax * request.choices;
  // A client may request more than the model's maximum but never receives it.
  return (
    Math.min(request.outputTokensMax, model.outputTokensMax ?? request.outputTokensMax) * request.choices
  );
}

/** Some upstreams reject a limit that exceeds the context window minus the input. */
function unboundedOutput({ contextTokens }: PublishedModel, inputTokens: number): number {
  if (contextTokens === null) return OUTPUT_TOKENS_UNBOUNDED;
  return Math.min(OUTPUT_TOKENS_UNBOUNDED, Math.max(OUTPUT_TOKENS_MIN, contextTokens - inputTokens));
}
