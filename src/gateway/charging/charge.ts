/**
 * Money for a request is held before any of it goes upstream: the most it may cost or, where the payer has less, all
 * that the payer has. The answer is then bounded to what that buys beside the estimated input.
 */

import {
  type BillingEngine,
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

export interface Charge {
  readonly tariff: Tariff;
  readonly payer: UsagePayer;
  readonly heldNano: Nano;
  /** An estimate, made before anything was counted. */
  readonly inputTokens: number;
  /** The most tokens the answer may have, all choices together. */
  readonly outputTokens: number;
  /** What the hold pays for beside the estimated input: `outputTokens` or more. */
  readonly paidOutputTokens: number;
  /** The payer had less than the request could have taken. */
  readonly isCapped: boolean;
  /** The bound that has to go upstream, for each choice; null where the client's own or the model's will do. */
  readonly outputCap: number | null;
  /** What is charged when the upstream's count cannot be true: the estimated input, and the whole answer. */
  readonly doubtNano: Nano;
}

/** Where neither the client nor the model's record sets a bound, this one is sent upstream. */
const OUTPUT_TOKENS_UNBOUNDED = 16_384;
/** With less than this an answer is not worth having; some upstreams refuse a smaller bound. */
const OUTPUT_TOKENS_LEAST = 16;
/** The dearest picture that is priced by its tokens. */
const PICTURE_OUTPUT_TOKENS = 8_192;

/** A request to be paid for: as much of an admitted one (`Passage`) as holding money for it needs. */
export interface ChargeableRequest {
  readonly gateway: Pick<Gateway, "estimates"> & { till: Pick<BillingEngine, "hold"> };
  readonly call: Pick<Call, "requestId">;
  readonly caller: Caller;
  readonly endpoint: Endpoint;
  readonly request: ModelRequest;
  readonly model: PublishedModel;
}

/** What was asked for, of which model: all that its use depends on. */
export type Question = Pick<ChargeableRequest, "endpoint" | "request" | "model">;

type Short = Extract<HoldResult, { kind: "short" }>;
type NotHeld = Exclude<HoldResult, { kind: "held" }>;

/** What a request may use and cost, before anything is held for it. */
export interface Forecast {
  readonly tariff: Tariff;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly doubtNano: Nano;
  readonly wantedNano: Nano;
  readonly leastNano: Nano;
  /** Null where all of the input is text, which can be counted. */
  readonly firm: FirmForecast | null;
}

/** The upper estimate of an input that cannot be counted before its upstream has read it. */
interface FirmForecast {
  readonly inputTokens: number;
  /** With the shortest answer. */
  readonly nano: Nano;
  /** What the input may cost above the ordinary price of so many tokens: it may be sound, or written to a cache. */
  readonly premiumNano: Nano;
}

/**
 * Null where nobody is charged. Throws the refusal when the payer cannot afford the request. `keptTokens` is the length
 * of the conversation that the upstream keeps, where it is known. A promise only where the till needs its time.
 */
export function holdMoney(
  billable: ChargeableRequest,
  keptTokens: number | null = null,
): Charge | Promise<Charge> | null {
  const { gateway, caller, endpoint, request, model } = billable;
  const { key, group } = caller;
  const { charge, plans } = group.billing;
  // Counting tokens is free everywhere.
  if (charge === "none" || model.tariff === null || endpoint.name === "responses.input_tokens") return null;
  if (key.userId === null) throw withoutPayer();
  if (isBounded(endpoint)) request.checkBounds();
  const { tariff } = model;
  const forecast = forecastOf(gateway.estimates, billable, tariff, keptTokens);
  const asked: HoldRequest = {
    requestId: billable.call.requestId,
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
  const holding = gateway.till.hold(asked);
  if (!(holding instanceof Promise) && holding.kind === "held") {
    return chargeOf(charge, billable, forecast, holding);
  }
  const take = (held: HoldResult) =>
    held.kind === "short" && mayBeEnough(held.availableNano, forecast)
      ? holdAsCounted(billable, asked, keptTokens, held)
      : chargeOf(charge, billable, forecast, held);
  return holding instanceof Promise ? holding.then(take, notHeld) : take(holding);
}

/** Estimates are hardly ever more than four times too high: with less than a quarter, counting would not help. */
function mayBeEnough(availableNano: Nano, { leastNano }: Forecast): boolean {
  return availableNano > 0n && 4n * availableNano >= leastNano;
}

/** Nobody is refused for an estimate: the input is counted first, and what that costs is asked for instead. */
async function holdAsCounted(
  billable: ChargeableRequest,
  estimated: HoldRequest,
  keptTokens: number | null,
  short: Short,
): Promise<Charge> {
  const { charge, tariff } = estimated;
  const tokens = await countInputTokens(billable.request, billable.endpoint.name).catch(() => null);
  if (tokens === null) throw refusalFor(charge, estimated.leastNano, short);
  const counted = forecastOf({ estimate: () => tokens }, billable, tariff, keptTokens);
  const { wantedNano, leastNano, inputTokens } = counted;
  if (leastNano >= estimated.leastNano) throw refusalFor(charge, estimated.leastNano, short);
  const firmNano = counted.firm?.nano ?? leastNano;
  const asked = { ...estimated, wantedNano, leastNano, firmNano, inputTokens };
  const holding = Promise.resolve(billable.gateway.till.hold(asked));
  return chargeOf(charge, billable, counted, await holding.catch(notHeld));
}

export function forecastOf(
  estimates: Pick<InputEstimates, "estimate">,
  question: Question,
  tariff: Tariff,
  keptTokens: number | null,
): Forecast {
  const { endpoint, request, model } = question;
  const { contextTokens } = model;
  const inputTokens = inputLeast(estimates, request, contextTokens, keptTokens);
  const outputTokens = outputWanted(question, inputTokens);
  const doubtNano = costAtMost(tariff, useOf(question, inputTokens, outputTokens));
  const { pictures, files } = request.inputReach();
  const foreseen = pictures + files > 0 ? "media" : "text";
  const inputTokensMax = inputMost(request, endpoint.interface, contextTokens, keptTokens);
  const mostNano = costToldOrNot(tariff, useOf(question, inputTokensMax, outputTokens), foreseen);
  const wantedNano = larger(doubtNano, mostNano);
  const outputLeast = Math.min(
    outputTokens,
    isBounded(endpoint) ? OUTPUT_TOKENS_LEAST * request.choices : outputTokens,
  );
  const leastNano = costAtMost(tariff, useOf(question, inputTokens, outputLeast));
  let firm: FirmForecast | null = null;
  if (!isTextAlone(request)) {
    const tokens = inputFirm(estimates, request, endpoint.interface, contextTokens, keptTokens);
    const nano = larger(leastNano, costToldOrNot(tariff, useOf(question, tokens, outputLeast), foreseen));
    const inputAlone = useOf(question, tokens, 0);
    const premiumNano = costAtMost(tariff, inputAlone, foreseen) - costAtMost(tariff, inputAlone);
    firm = { inputTokens: tokens, nano: nano < wantedNano ? nano : wantedNano, premiumNano };
  }
  return { tariff, inputTokens, outputTokens, doubtNano, wantedNano, leastNano, firm };
}

/** The most it can cost: pictures are paid for by their tokens only if the upstream reports these. */
function costToldOrNot(tariff: Tariff, used: Metered, foreseen: ForeseenInput): Nano {
  const told = costAtMost(tariff, used, foreseen);
  return used.images === 0 ? told : larger(told, costAtMost(tariff, { ...used, outputTokens: 0 }, foreseen));
}

function chargeOf(payer: UsagePayer, question: Question, forecast: Forecast, held: HoldResult): Charge {
  const { tariff, inputTokens, outputTokens: wantedOutput, doubtNano, wantedNano, leastNano } = forecast;
  if (held.kind !== "held") throw refusalFor(payer, leastNano, held);
  const { endpoint, request } = question;
  const heldNano = held.amountNano;
  const paidOutputTokens = affordableOutput(tariff, useOf(question, inputTokens, 0), heldNano);
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

/** What a hold buys beside the input: at its upper estimate where the hold covers that, else as estimated. */
export function outputBought(
  question: Question,
  { tariff, inputTokens, firm }: Forecast,
  heldNano: Nano,
): number {
  if (firm === null || heldNano < firm.nano) {
    return affordableOutput(tariff, useOf(question, inputTokens, 0), heldNano);
  }
  const beside = useOf(question, firm.inputTokens, 0);
  const bought = affordableOutput(tariff, beside, heldNano - firm.premiumNano);
  return Math.max(bought, OUTPUT_TOKENS_LEAST * question.request.choices);
}

function notHeld(thrown: unknown): never {
  throw thrown instanceof BillingUnavailable ? storeUnavailable() : thrown;
}

function larger(a: Nano, b: Nano): Nano {
  return a > b ? a : b;
}

/** What it will have used, as far as that is known before the answer begins. */
export function useOf({ endpoint, request }: Question, inputTokens: number, outputTokens: number): Metered {
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

/** Only these endpoints take a bound on the tokens of an answer. */
export function isBounded({ name }: Endpoint): boolean {
  return name === "chat.completions" || name === "responses";
}

/** Neither the client nor the model's record says where an answer ends. */
function isOpenEnded({ request, model }: Question): boolean {
  return request.outputTokensMax === null && model.outputTokensMax === null;
}

function outputWanted({ endpoint, request, model }: Question, inputTokens: number): number {
  if (endpoint.interface === "embeddings") return 0;
  if (endpoint.interface === "images") return PICTURE_OUTPUT_TOKENS * request.choices;
  const most = model.outputTokensMax ?? unboundedOutput(model, inputTokens);
  // It takes no bound, but a summary is short: holding the model's whole output for it would be for nothing.
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

function refusalFor(charge: UsagePayer, leastNano: Nano, held: NotHeld): ApiError {
  switch (held.kind) {
    case "in_debt":
      return inDebt(held.debtNano);
    case "blocked":
      return new ApiError(
        "insufficient_quota",
        `This request has input that cannot be counted beforehand, so it needs $${usdText(held.neededNano)}. $${usdText(held.availableNano)} is available while your other requests are in flight. Wait until they end, or send fewer at once.`,
        { headers: NO_RETRY },
      );
    case "short":
      return shortOf(charge, leastNano, held);
  }
}

function inDebt(debtNano: Nano): ApiError {
  const debt = `$${usdText(debtNano)}`;
  return new ApiError(
    "insufficient_quota",
    `Your balance is ${debt} in debt, because an earlier request cost more than was held for it. Paid requests are refused until the debt is covered: top up at least ${debt}, or redeem a code.`,
    { headers: NO_RETRY },
  );
}

function shortOf(charge: UsagePayer, leastNano: Nano, { availableNano, resetsAtMs }: Short): ApiError {
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
