/**
 * Money for a request is held before anything of it goes upstream: the most it may cost, or, where the payer has less,
 * as much as there is, and then its answer is bounded to what that buys beside the input as estimated.
 */

import { type HoldAsked, type HoldResult, type Till, TillUnavailable } from "../billing/till.ts";
import { ApiError, storeUnavailable } from "../errors.ts";
import type { Endpoint, ModelRequest } from "../interfaces/request.ts";
import type { InputEstimates } from "../metering/input-estimate.ts";
import { inputLeast, inputMost } from "../metering/input-range.ts";
import { type Nano, usdText } from "../money/nano.ts";
import {
  affordableOutput,
  costAtMost,
  costOf,
  type Foreseen,
  type Metered,
  type Tariff,
} from "../money/tariff.ts";
import type { PublishedModel } from "../policy/snapshot.ts";
import type { UsagePayer } from "../store/usage-row.ts";
import type { Caller } from "./authenticate.ts";
import type { Gateway } from "./gateway.ts";
import { inputOf } from "./meter.ts";

export interface Charge {
  readonly tariff: Tariff;
  readonly payer: UsagePayer;
  readonly heldNano: Nano;
  /** As estimated before anybody counted. */
  readonly inputTokens: number;
  /** What the answer may take, all choices together. */
  readonly outputTokens: number;
  /** What the hold pays for beside the input as estimated: as much, or more. */
  readonly paidOutputTokens: number;
  /** The payer had less than the request could have taken. */
  readonly isCapped: boolean;
  /** The bound that has to go upstream, for each choice; null where the client's own or the model's will do. */
  readonly outputCap: number | null;
  /** What a count that cannot be true is worth: the input as estimated, and the whole answer. */
  readonly doubtNano: Nano;
}

/** Where neither the client nor the model's record sets a bound, this one is sent upstream. */
const OUTPUT_TOKENS_UNBOUNDED = 16_384;
/** With less than this an answer is not worth having; some upstreams refuse a smaller bound. */
const OUTPUT_TOKENS_LEAST = 16;
/** The dearest picture that is priced by its tokens. */
const PICTURE_OUTPUT_TOKENS = 8_192;

/** What a request may take, and cost, before anything is held for it. */
interface Forecast {
  readonly tariff: Tariff;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly doubtNano: Nano;
  readonly wantedNano: Nano;
  readonly leastNano: Nano;
}

/** What holding needs of the gateway. */
type Cashier = Pick<Gateway, "estimates"> & { till: Pick<Till, "hold"> };

/**
 * Null where nobody is charged. Throws the refusal when the payer cannot afford the request. `keptTokens` is how long
 * the conversation was that the upstream keeps, where that is known. A promise only where the till needs its time.
 */
export function holdMoney(
  gateway: Cashier,
  requestId: string,
  caller: Caller,
  endpoint: Endpoint,
  request: ModelRequest,
  model: PublishedModel,
  keptTokens: number | null = null,
): Charge | Promise<Charge> | null {
  const { key, group } = caller;
  const { charge, plans } = group.billing;
  // Counting tokens is free everywhere.
  if (charge === "none" || model.tariff === null || endpoint.name === "responses.input_tokens") return null;
  if (key.userId === null) throw withoutPayer();
  if (isBounded(endpoint)) request.checkBounds();
  const { tariff } = model;
  const forecast = forecastOf(gateway, endpoint, request, model, tariff, keptTokens);
  const asked: HoldAsked = {
    requestId,
    userId: key.userId,
    charge,
    plans,
    tariff,
    wantedNano: forecast.wantedNano,
    leastNano: forecast.leastNano,
    inputTokens: forecast.inputTokens,
    keyId: key.id,
    groupId: group.id,
    interface: endpoint.interface,
    endpoint: endpoint.name,
    publicModel: request.publicModel,
    stream: request.stream,
    isLasting: request.background,
  };
  const holding = gateway.till.hold(asked);
  if (!(holding instanceof Promise) && holding.kind === "held") {
    return chargeOf(charge, endpoint, request, model, forecast, holding);
  }
  const take = (held: HoldResult) =>
    held.kind === "short" && mayBeEnough(held.availableNano, forecast)
      ? holdAsCounted(gateway, asked, endpoint, request, model, forecast, keptTokens, held)
      : chargeOf(charge, endpoint, request, model, forecast, held);
  return holding instanceof Promise ? holding.then(take, notHeld) : take(holding);
}

/** An estimate is hardly ever more than four times too much: whoever has less would be counted for in vain. */
function mayBeEnough(availableNano: Nano, { leastNano }: Forecast): boolean {
  return availableNano > 0n && 4n * availableNano >= leastNano;
}

/** Before anybody is refused for an estimate, the input is counted, and as much asked for as that costs. */
async function holdAsCounted(
  { till }: Cashier,
  asked: HoldAsked,
  endpoint: Endpoint,
  request: ModelRequest,
  model: PublishedModel,
  estimated: Forecast,
  keptTokens: number | null,
  short: HoldResult,
): Promise<Charge> {
  const refuse = () => chargeOf(asked.charge, endpoint, request, model, estimated, short);
  const tokens = await inputOf(request, endpoint.name).catch(() => null);
  if (tokens === null) return refuse();
  const estimates = { estimate: () => tokens };
  const counted = forecastOf({ estimates }, endpoint, request, model, asked.tariff, keptTokens);
  const { wantedNano, leastNano, inputTokens } = counted;
  if (leastNano >= estimated.leastNano) return refuse();
  const holding = Promise.resolve(till.hold({ ...asked, wantedNano, leastNano, inputTokens }));
  return chargeOf(asked.charge, endpoint, request, model, counted, await holding.catch(notHeld));
}

function forecastOf(
  { estimates }: { estimates: Pick<InputEstimates, "estimate"> },
  endpoint: Endpoint,
  request: ModelRequest,
  model: PublishedModel,
  tariff: Tariff,
  keptTokens: number | null,
): Forecast {
  const { contextTokens } = model;
  const inputTokens = inputLeast(estimates, request, contextTokens, keptTokens);
  const outputTokens = outputWanted(endpoint, request, model, inputTokens);
  const doubtNano = costAtMost(tariff, useOf(endpoint, request, inputTokens, outputTokens));
  const { pictures, files } = request.inputReach();
  const inputTokensMax = inputMost(request, endpoint.interface, contextTokens, keptTokens);
  const mostUsed = useOf(endpoint, request, inputTokensMax, outputTokens);
  const mostNano = costToldOrNot(tariff, mostUsed, pictures + files > 0 ? "media" : "text");
  const outputLeast = isBounded(endpoint) ? OUTPUT_TOKENS_LEAST * request.choices : outputTokens;
  const leastUsed = useOf(endpoint, request, inputTokens, Math.min(outputTokens, outputLeast));
  return {
    tariff,
    inputTokens,
    outputTokens,
    doubtNano,
    wantedNano: larger(doubtNano, mostNano),
    leastNano: costAtMost(tariff, leastUsed),
  };
}

/** The most that it costs: pictures are paid by their tokens only if these are told. */
function costToldOrNot(tariff: Tariff, used: Metered, foreseen: Foreseen): Nano {
  const told = costAtMost(tariff, used, foreseen);
  return used.images === 0 ? told : larger(told, costAtMost(tariff, { ...used, outputTokens: 0 }, foreseen));
}

function chargeOf(
  payer: UsagePayer,
  endpoint: Endpoint,
  request: ModelRequest,
  model: PublishedModel,
  { tariff, inputTokens, outputTokens: wantedOutput, doubtNano, wantedNano, leastNano }: Forecast,
  held: HoldResult,
): Charge {
  if (held.kind === "short") throw shortOf(payer, leastNano, held);
  const heldNano = held.amountNano;
  const paidOutputTokens = affordableOutput(tariff, useOf(endpoint, request, inputTokens, 0), heldNano);
  const outputTokens = heldNano >= wantedNano ? wantedOutput : Math.min(wantedOutput, paidOutputTokens);
  const isCapped = isBounded(endpoint) && outputTokens < wantedOutput;
  const needsCap = isCapped || (isBounded(endpoint) && isOpenEnded(request, model));
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

function notHeld(thrown: unknown): never {
  throw thrown instanceof TillUnavailable ? storeUnavailable() : thrown;
}

function larger(a: Nano, b: Nano): Nano {
  return a > b ? a : b;
}

/** What a request will probably cost: for windows of money, settled later. */
export function likelyCost(
  gateway: Pick<Gateway, "estimates">,
  endpoint: Endpoint,
  request: ModelRequest,
  model: PublishedModel,
): Nano {
  if (model.tariff === null) return 0n;
  const inputTokens = gateway.estimates.estimate(request.publicModel, request.inputSize());
  const outputTokens =
    endpoint.interface === "images"
      ? 0
      : Math.min(outputWanted(endpoint, request, model, inputTokens), 500 * request.choices);
  return costOf(model.tariff, useOf(endpoint, request, inputTokens, outputTokens));
}

/** As far as it can be told before a word of the answer. */
function useOf(
  endpoint: Endpoint,
  request: ModelRequest,
  inputTokens: number,
  outputTokens: number,
): Metered {
  // Field by field: spreading takes several times as long, and this is made four times for a request.
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

/** Only these can be told to stop after so many tokens. */
function isBounded({ name }: Endpoint): boolean {
  return name === "chat.completions" || name === "responses";
}

/** Neither the client nor the model's record says where an answer ends. */
function isOpenEnded(request: ModelRequest, model: PublishedModel): boolean {
  return request.outputTokensMax === null && model.outputTokensMax === null;
}

function outputWanted(
  endpoint: Endpoint,
  request: ModelRequest,
  model: PublishedModel,
  inputTokens: number,
): number {
  if (endpoint.interface === "embeddings") return 0;
  if (endpoint.interface === "images") return PICTURE_OUTPUT_TOKENS * request.choices;
  const most = model.outputTokensMax ?? unboundedOutput(model, inputTokens);
  // A summary, and one that takes no bound: the model's whole output would be held for nothing.
  if (endpoint.name === "responses.compact") return Math.min(most, OUTPUT_TOKENS_UNBOUNDED);
  if (request.outputTokensMax === null) return most * request.choices;
  // A client may ask for more than the model can say, but never gets it.
  return (
    Math.min(request.outputTokensMax, model.outputTokensMax ?? request.outputTokensMax) * request.choices
  );
}

/** Some upstreams refuse a bound that does not fit the window beside the input. */
function unboundedOutput({ contextTokens }: PublishedModel, inputTokens: number): number {
  if (contextTokens === null) return OUTPUT_TOKENS_UNBOUNDED;
  return Math.min(OUTPUT_TOKENS_UNBOUNDED, Math.max(OUTPUT_TOKENS_LEAST, contextTokens - inputTokens));
}

const NO_RETRY = { "x-should-retry": "false" };

function shortOf(
  charge: UsagePayer,
  leastNano: Nano,
  { availableNano, resetsAtMs }: Extract<HoldResult, { kind: "short" }>,
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

function withoutPayer(): ApiError {
  return new ApiError(
    "insufficient_quota",
    "This key belongs to no user who could be charged. Ask your administrator for a key of your own.",
    { headers: NO_RETRY },
  );
}
