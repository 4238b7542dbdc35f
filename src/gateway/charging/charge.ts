/**
 * Takes the hold of a request before it is sent upstream: its maximum cost or, if the payer has less, all that the
 * payer has. The output is then capped to what the hold pays for after the estimated input.
 */

import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import {
  BillingUnavailable,
  type HoldRequest,
  type HoldResult,
} from "../../billing/engine/direct-billing.ts";
import { ApiError, storeUnavailable } from "../../errors.ts";
import { type Nano, usdText } from "../../money/nano.ts";
import {
  affordableOutput,
  costAtMost,
  type ForeseenInput,
  type Metered,
  type Tariff,
} from "../../money/tariff.ts";
import type { PublishedModel } from "../../policy/snapshot.ts";
import type { Endpoint, ModelRequest } from "../../protocols/shared/request.ts";
import type { UsagePayer } from "../../store/usage/usage-row.ts";
import type { Caller } from "../admission/authenticate.ts";
import type { Call, Gateway } from "../gateway.ts";
import type { InputEstimates } from "../metering/input-estimate.ts";
import { inputFirm, inputLeast, inputMost, isTextAlone } from "../metering/input-range.ts";
import { countInputTokens } from "../metering/meter.ts";

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
  /** The payer had less than the maximum cost of the request. */
  readonly isCapped: boolean;
  /** The output cap to send upstream, for each choice; null if the limit of the client or of the model suffices. */
  readonly outputCap: number | null;
  /** The amount to charge if the upstream's usage is implausible: the estimated input and the maximum output. */
  readonly doubtNano: Nano;
}

/** The cap to send upstream if neither the client nor the model sets one. */
const OUTPUT_TOKENS_UNBOUNDED = 16_384;
/** A shorter response is useless, and some upstreams reject a smaller cap. */
const OUTPUT_TOKENS_MIN = 16;
/** The most expensive image that is priced by tokens. */
const IMAGE_OUTPUT_TOKENS = 8_192;

/** The part of the `RequestContext` that taking a hold needs. */
export interface ChargeableRequest {
  readonly gateway: Pick<Gateway, "estimates"> & { till: Pick<BillingEngine, "hold"> };
  readonly call: Pick<Call, "requestId">;
  readonly caller: Caller;
  readonly endpoint: Endpoint;
  readonly request: ModelRequest;
  readonly model: PublishedModel;
}

/** The endpoint, request and model: everything that the use depends on. */
export type ChargeQuestion = Pick<ChargeableRequest, "endpoint" | "request" | "model">;

type InsufficientHold = Extract<HoldResult, { kind: "short" }>;
type FailedHold = Exclude<HoldResult, { kind: "held" }>;

/** The estimated use and cost of a request, before its hold. */
export interface Forecast {
  readonly tariff: Tariff;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly doubtNano: Nano;
  readonly wantedNano: Nano;
  readonly leastNano: Nano;
  /** Null if all of the input is text, which can be counted. */
  readonly firm: FirmForecast | null;
}

/** The upper estimate of an input that cannot be counted before the upstream has read it. */
interface FirmForecast {
  readonly inputTokens: number;
  /** Includes the shortest useful output. */
  readonly nano: Nano;
  /** What the input may cost above the ordinary price of its tokens: it may be audio, or be written to a cache. */
  readonly premiumNano: Nano;
}

/**
 * Returns null for unpaid requests. Throws if the payer cannot afford the request. `keptTokens` is the length of the
 * conversation that the upstream stores, if known. Returns a promise only if billing is not synchronous.
 */
export function holdMoney(
  chargeable: ChargeableRequest,
  keptTokens: number | null = null,
): RequestCharge | Promise<RequestCharge> | null {
  const { gateway, caller, endpoint, request, model } = chargeable;
  const { key, group } = caller;
  const { charge, plans } = group.billing;
  // Counting tokens is always free.
  if (charge === "none" || model.tariff === null || endpoint.name === "responses.input_tokens") return null;
  if (key.userId === null) throw noPayerError();
  if (isBounded(endpoint)) request.checkBounds();
  const { tariff } = model;
  const forecast = forecastCost(gateway.estimates, chargeable, tariff, keptTokens);
  const holdRequest: HoldRequest = {
    requestId: chargeable.call.requestId,
    userId: key.userId,
    charge,
    plans,
    tariff,
    wantedNano: forecast.wantedNano,
    leastNano: forecast.leastNano,
    firmNano: forecast.firm?.nano ?? forecast.leastNano,
    inputTokens: forecast.inputTokens,
    keyId: key.id,
    groupId: group.id,
    interface: endpoint.interface,
    endpoint: endpoint.name,
    publicModel: request.publicModel,
    stream: request.stream,
    isLasting: request.background,
  };
  const pendingHold = gateway.till.hold(holdRequest);
  if (!(pendingHold instanceof Promise) && pendingHold.kind === "held") {
    return buildCharge(charge, chargeable, forecast, pendingHold);
  }
  const take = (held: HoldResult) =>
    held.kind === "short" && mayBeEnough(held.availableNano, forecast)
      ? holdAsCounted(chargeable, holdRequest, keptTokens, held)
      : buildCharge(charge, chargeable, forecast, held);
  return pendingHold instanceof Promise ? pendingHold.then(take, toBillingError) : take(pendingHold);
}

/** Estimates are hardly ever more than four times too high: with less than a quarter, counting would not help. */
function mayBeEnough(availableNano: Nano, { leastNano }: Forecast): boolean {
  return availableNano > 0n && 4n * availableNano >= leastNano;
}

/**
 * A request is not rejected because of an estimate: the input is counted first, and the hold is tried with that cost.
 */
async function holdAsCounted(
  chargeable: ChargeableRequest,
  estimated: HoldRequest,
  keptTokens: number | null,
  shortage: InsufficientHold,
): Promise<RequestCharge> {
  const { charge, tariff } = estimated;
  const tokens = await countInputTokens(chargeable.request, chargeable.endpoint.name).catch(() => null);
  if (tokens === null) throw buildHoldError(charge, estimated.leastNano, shortage);
  const counted = forecastCost({ estimate: () => tokens }, chargeable, tariff, keptTokens);
  const { wantedNano, leastNano, inputTokens } = counted;
  if (leastNano >= estimated.leastNano) throw buildHoldError(charge, estimated.leastNano, shortage);
  const firmNano = counted.firm?.nano ?? leastNano;
  const holdRequest = { ...estimated, wantedNano, leastNano, firmNano, inputTokens };
  const pendingHold = Promise.resolve(chargeable.gateway.till.hold(holdRequest));
  return buildCharge(charge, chargeable, counted, await pendingHold.catch(toBillingError));
}

export function forecastCost(
  estimates: Pick<InputEstimates, "estimate">,
  question: ChargeQuestion,
  tariff: Tariff,
  keptTokens: number | null,
): Forecast {
  const { endpoint, request, model } = question;
  const { contextTokens } = model;
  const inputTokens = inputLeast(estimates, request, contextTokens, keptTokens);
  const outputTokens = outputWanted(question, inputTokens);
  const doubtNano = costAtMost(tariff, forecastUsage(question, inputTokens, outputTokens));
  const { pictures, files } = request.inputReach();
  const foreseen = pictures + files > 0 ? "media" : "text";
  const inputTokensMax = inputMost(request, endpoint.interface, contextTokens, keptTokens);
  const mostNano = computeMaxCost(tariff, forecastUsage(question, inputTokensMax, outputTokens), foreseen);
  const wantedNano = larger(doubtNano, mostNano);
  const outputLeast = Math.min(
    outputTokens,
    isBounded(endpoint) ? OUTPUT_TOKENS_MIN * request.choices : outputTokens,
  );
  const leastNano = costAtMost(tariff, forecastUsage(question, inputTokens, outputLeast));
  let firm: FirmForecast | null = null;
  if (!isTextAlone(request)) {
    const tokens = inputFirm(estimates, request, endpoint.interface, contextTokens, keptTokens);
    const nano = larger(
      leastNano,
      computeMaxCost(tariff, forecastUsage(question, tokens, outputLeast), foreseen),
    );
    const inputAlone = forecastUsage(question, tokens, 0);
    const premiumNano = costAtMost(tariff, inputAlone, foreseen) - costAtMost(tariff, inputAlone);
    firm = { inputTokens: tokens, nano: nano < wantedNano ? nano : wantedNano, premiumNano };
  }
  return { tariff, inputTokens, outputTokens, doubtNano, wantedNano, leastNano, firm };
}

/** The maximum cost. Images are priced by their tokens only if the upstream reports them. */
function computeMaxCost(tariff: Tariff, used: Metered, foreseen: ForeseenInput): Nano {
  const reportedNano = costAtMost(tariff, used, foreseen);
  return used.images === 0
    ? reportedNano
    : larger(reportedNano, costAtMost(tariff, { ...used, outputTokens: 0 }, foreseen));
}

function buildCharge(
  payer: UsagePayer,
  question: ChargeQuestion,
  forecast: Forecast,
  held: HoldResult,
): RequestCharge {
  const { tariff, inputTokens, outputTokens: wantedOutput, doubtNano, wantedNano, leastNano } = forecast;
  if (held.kind !== "held") throw buildHoldError(payer, leastNano, held);
  const { endpoint, request } = question;
  const heldNano = held.amountNano;
  const paidOutputTokens = affordableOutput(tariff, forecastUsage(question, inputTokens, 0), heldNano);
  const boughtOutput = heldNano >= wantedNano ? wantedOutput : outputBought(question, forecast, heldNano);
  const outputTokens = Math.min(wantedOutput, boughtOutput);
  const isCapped = isBounded(endpoint) && outputTokens < wantedOutput;
  const needsCap = isCapped || (isBounded(endpoint) && isOpenEnded(question));
  return {
    tariff,
    payer,
    heldNano,
    inputTokens,
    outputTokens,
    paidOutputTokens,
    isCapped,
    outputCap: needsCap ? Math.floor(outputTokens / request.choices) : null,
    doubtNano: doubtNano < heldNano ? doubtNano : heldNano,
  };
}

/**
 * The output that a hold pays for after the input: at its upper estimate if the hold covers it, otherwise as estimated.
 */
export function outputBought(
  question: ChargeQuestion,
  { tariff, inputTokens, firm }: Forecast,
  heldNano: Nano,
): number {
  if (firm === null || heldNano < firm.nano) {
    return affordableOutput(tariff, forecastUsage(question, inputTokens, 0), heldNano);
  }
  const beside = forecastUsage(question, firm.inputTokens, 0);
  const bought = affordableOutput(tariff, beside, heldNano - firm.premiumNano);
  return Math.max(bought, OUTPUT_TOKENS_MIN * question.request.choices);
}

function toBillingError(cause: unknown): never {
  throw cause instanceof BillingUnavailable ? storeUnavailable() : cause;
}

function larger(a: Nano, b: Nano): Nano {
  return a > b ? a : b;
}

/** The expected use, as far as it is known before the response begins. */
export function forecastUsage(
  { endpoint, request }: ChargeQuestion,
  inputTokens: number,
  outputTokens: number,
): Metered {
  // Written field by field: object spread takes several times as long, and this runs four times per request.
  return {
    inputTokens,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    outputTokens,
    reasoningTokens: 0,
    imageInputTokens: 0,
    audioInputTokens: 0,
    audioOutputTokens: 0,
    images: endpoint.interface === "images" ? request.choices : 0,
    imageKind: request.imageKind,
  };
}

/** Only these endpoints accept a limit of output tokens. */
export function isBounded({ name }: Endpoint): boolean {
  return name === "chat.completions" || name === "responses";
}

/** Neither the client nor the model limits the output. */
function isOpenEnded({ request, model }: ChargeQuestion): boolean {
  return request.outputTokensMax === null && model.outputTokensMax === null;
}

function outputWanted({ endpoint, request, model }: ChargeQuestion, inputTokens: number): number {
  if (endpoint.interface === "embeddings") return 0;
  if (endpoint.interface === "images") return IMAGE_OUTPUT_TOKENS * request.choices;
  const modelOutputMax = model.outputTokensMax ?? unboundedOutput(model, inputTokens);
  // The endpoint accepts no limit, but a summary is short: a hold for the model's whole output would be far too large.
  if (endpoint.name === "responses.compact") return Math.min(modelOutputMax, OUTPUT_TOKENS_UNBOUNDED);
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

const NO_RETRY = { "x-should-retry": "false" };

function buildHoldError(charge: UsagePayer, leastNano: Nano, held: FailedHold): ApiError {
  switch (held.kind) {
    case "in_debt":
      return debtError(held.debtNano);
    case "blocked":
      return new ApiError(
        "insufficient_quota",
        `This request has input that cannot be counted beforehand, so it needs $${usdText(held.neededNano)}. $${usdText(held.availableNano)} is available while your other requests are in flight. Wait until they end, or send fewer at once.`,
        { headers: NO_RETRY },
      );
    case "short":
      return insufficientFunds(charge, leastNano, held);
  }
}

function debtError(debtNano: Nano): ApiError {
  const debt = `$${usdText(debtNano)}`;
  return new ApiError(
    "insufficient_quota",
    `Your balance is ${debt} in debt, because an earlier request cost more than was held for it. Paid requests are refused until the debt is covered: top up at least ${debt}, or redeem a code.`,
    { headers: NO_RETRY },
  );
}

function insufficientFunds(
  charge: UsagePayer,
  leastNano: Nano,
  { availableNano, resetsAtMs }: InsufficientHold,
): ApiError {
  const needs = `This request needs at least $${usdText(leastNano)}`;
  if (charge === "balance") {
    return new ApiError(
      "insufficient_quota",
      `${needs} and $${usdText(availableNano)} of your balance is available. Top it up, or send less.`,
      { headers: NO_RETRY },
    );
  }
  if (resetsAtMs === null) {
    return new ApiError(
      "insufficient_quota",
      `${needs} and no running subscription of yours has that much left. Ask your administrator for one.`,
      { headers: NO_RETRY },
    );
  }
  const when = new Date(Math.ceil(resetsAtMs / 1000) * 1000).toISOString().replace(".000Z", "Z");
  return new ApiError(
    "usage_limit_reached",
    `${needs} and $${usdText(availableNano)} of your subscription is left. It is filled up at ${when}.`,
    { headers: NO_RETRY, resetsAtMs },
  );
}

function noPayerError(): ApiError {
  return new ApiError(
    "insufficient_quota",
    "This key belongs to no user who could be charged. Ask your administrator for a key of your own.",
    { headers: NO_RETRY },
  );
}
