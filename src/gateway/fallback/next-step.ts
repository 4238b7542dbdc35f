/** Decides where a request goes when a step could not serve it, and moves the request there. */

import { isPending } from "../../base/maybe-promise.ts";
import { ApiError, type TriedStep } from "../../errors.ts";
import { usdText } from "../../money/nano.ts";
import type { PublishedFallbackStep } from "../../policy/snapshot.ts";
import { type Authenticator, allowNetwork, type Caller } from "../admission/authenticate.ts";
import { callerSubjects } from "../admission/caller-limits.ts";
import { HoldRejection } from "../charging/hold-error.ts";
import { type AdmittedRequest, setStep } from "../request-context.ts";
import { applyRequestPolicy, type RequestPolicyServices } from "../request-policy/apply-request-policy.ts";
import { conversationNotFound } from "../steps/conversation-holder.ts";
import { FallbackRun } from "../steps/fallback-run.ts";
import { findConditions } from "../steps/find-conditions.ts";
import type { StickySteps } from "../steps/sticky-steps.ts";
import { computeAffinity } from "../upstream/dispatch-request.ts";
import type { RetryBudget } from "../upstream/retry-budget.ts";
import { readFallbackHeaders } from "./read-fallback-headers.ts";
import { findStepRoutes, isStateful } from "./step-eligibility.ts";
import { forecastPrice, isWithinPrice } from "./step-price.ts";

interface FallbackServices extends RequestPolicyServices {
  readonly auth: Pick<Authenticator, "publicUrl">;
  readonly stickySteps: Pick<StickySteps, "find" | "record">;
  readonly clock: { monotonicMs(): number };
  readonly dispatcher: { readonly retries: RetryBudget; readonly attemptsMax: number };
}

/** Sets the run, unless key or client allow no fallback. A conversation begins at the step of its stay. */
export async function openFallback(
  services: FallbackServices,
  context: AdmittedRequest,
): Promise<FallbackRun | null> {
  const { caller, call, request, model, routes, policyCap, trace } = context;
  const headers = readFallbackHeaders(call.request.headers);
  if (caller.key.fallback === "deny" || headers.isDenied) {
    if ((context.holder?.step ?? null) !== null) throw notFound(context);
    return null;
  }
  const { outputTokensMax } = request;
  const name = nameStickyConversation(context);
  const run = new FallbackRun({
    requested: {
      caller,
      model,
      routes,
      request,
      outputTokensMax,
      policyCap,
      policyChanges: trace.policyChanges,
    },
    trace,
    retries: services.dispatcher.retries.open(),
    attemptsMax: services.dispatcher.attemptsMax,
    maxPriceMillionths: headers.maxPriceMillionths,
    conversation: name,
    leaseGroupId: context.lease === null ? null : caller.group.id,
    monotonicMs: services.clock.monotonicMs,
  });
  context.fallback = run;
  try {
    await enterFirst(services, context, run);
  } catch (cause) {
    restoreRequested(context, run);
    run.abandon();
    run.close();
    throw cause;
  }
  return run;
}

/** A request that continues a conversation may begin at a later step. */
async function enterFirst(
  services: FallbackServices,
  context: AdmittedRequest,
  run: FallbackRun,
): Promise<void> {
  const holdingStep = context.holder?.step ?? null;
  if (holdingStep !== null) {
    run.restrictTo(holdingStep);
    if (!(await enterNext(services, context, run))) throw withTried(notFound(context), run.tried);
    return;
  }
  const sticky =
    run.conversation === null ? null : services.stickySteps.find(run.conversation, context.model.fallback);
  if (sticky === null) return;
  run.startAt(sticky);
  await enterNext(services, context, run);
}

function notFound({ endpoint, request }: AdmittedRequest): ApiError {
  return conversationNotFound(endpoint, request.previousResponseId ?? "");
}

/** A conversation stays within its key, group and model. Null if the request names none, or no step keeps them. */
function nameStickyConversation({ call, caller, request, model }: AdmittedRequest): string | null {
  if (model.fallback.every(({ stayMs }) => stayMs === null)) return null;
  const conversation = computeAffinity(caller.key.id, call.request.headers, request);
  return conversation === null ? null : `${conversation} ${caller.group.id} ${model.id}`;
}

/** Moves the request to its next step. Throws the error for the client if there is none. */
export async function moveToNextStep(
  services: FallbackServices,
  context: AdmittedRequest,
  { run, cause }: { readonly run: FallbackRun; readonly cause: unknown },
): Promise<void> {
  if (!(cause instanceof ApiError) || context.call.request.signal.aborted) throw cause;
  endStep(context, run, cause);
  if (await enterNext(services, context, run)) return;
  restoreRequested(context, run);
  run.abandon();
  throw withTried(run.firstError ?? cause, run.tried);
}

/** The step in progress serves the request. */
export function recordServed({ stickySteps }: Pick<FallbackServices, "stickySteps">, run: FallbackRun): void {
  run.recordServed();
  const { conversation, step, reason } = run;
  if (conversation !== null && step !== null && reason !== null)
    stickySteps.record(conversation, { step, reason });
}

/** Throws an error that no other step may hide: a refusal, a mistake of the client, a fault of the gateway. */
function endStep(context: AdmittedRequest, run: FallbackRun, error: ApiError): void {
  const conditions = findConditions(context.caller, error, run.isReserved);
  if (conditions.length > 0) {
    run.leave(error, conditions);
    return;
  }
  const isSent = context.trace.attempts.length > run.attemptsBefore;
  const skipReason = run.step === null || isSent ? null : findSkipReason(run, error);
  if (skipReason === null) {
    if (!isSent) {
      restoreRequested(context, run);
      run.abandon();
    }
    throw error;
  }
  run.skip(run.step, skipReason);
}

/** Why a step that was entered cannot take the request, although nothing was sent; null if that ends the request. */
function findSkipReason({ isReserved }: FallbackRun, error: ApiError): string | null {
  if (!isReserved) return error.limit === null ? null : "limits";
  if (error instanceof HoldRejection) return error.reason;
  // No account of the step can express the request.
  return error.status < 500 ? "not_eligible" : null;
}

async function enterNext(
  services: FallbackServices,
  context: AdmittedRequest,
  run: FallbackRun,
): Promise<boolean> {
  for (let step = run.takeNext(); step !== undefined; step = run.takeNext()) {
    restoreRequested(context, run);
    const skipReason = step === null ? null : await enterStep(services, context, { run, step });
    if (skipReason === null) {
      run.enter(step);
      return true;
    }
    run.skip(step, skipReason);
  }
  return false;
}

/** Returns why the step is skipped, or null. */
async function enterStep(
  services: FallbackServices,
  context: AdmittedRequest,
  { run, step }: { readonly run: FallbackRun; readonly step: PublishedFallbackStep },
): Promise<string | null> {
  const { requested, retries } = run;
  if (run.countAttemptsLeft() <= 0) return "attempts";
  const holder = context.holder?.step === step ? context.holder : null;
  if (context.request.background || (holder === null && isStateful(context))) return "stateful";
  const caller = { key: requested.caller.key, group: step.group };
  const firstNano = forecastPrice(services.estimates, context, requested);
  const eligible = findStepRoutes(services.estimates, context, step);
  const routes = holder === null ? eligible : eligible.filter((route) => holder.routes.includes(route));
  if (routes.length === 0) return "not_eligible";
  if (!(await allowsPolicy(services, context, { requested: requested.caller, caller }))) return "policy";
  context.request.publicModel = step.model.id;
  const priceNano = forecastPrice(services.estimates, context, { caller, model: step.model });
  run.forecast = priceNano === null ? null : usdText(priceNano);
  if (!isWithinPrice(priceNano, firstNano, [step.maxPriceMillionths, run.maxPriceMillionths])) return "price";
  if (context.trace.attempts.length > 0 && !retries.mayRetry()) return "attempts";
  setStep(context, { caller, subjects: callerSubjects(caller), model: step.model, routes });
  return null;
}

/** Applies the request policy of the step, which is that of the key and more. */
async function allowsPolicy(
  services: FallbackServices,
  context: AdmittedRequest,
  { requested, caller }: { readonly requested: Caller; readonly caller: Caller },
): Promise<boolean> {
  const { requestPolicy } = caller.group;
  if (requestPolicy === null || requestPolicy === requested.group.requestPolicy) return true;
  try {
    allowNetwork(caller, context.call.networkAddress(services.auth.publicUrl));
    const applied = applyRequestPolicy(services, context, requestPolicy);
    if (isPending(applied)) await applied;
    return true;
  } catch (cause) {
    if (cause instanceof ApiError && cause.status < 500) return false;
    throw cause;
  }
}

function restoreRequested(context: AdmittedRequest, { requested }: FallbackRun): void {
  const { caller, request, model, routes, outputTokensMax, policyCap, policyChanges } = requested;
  request.publicModel = model.id;
  request.outputTokensMax = outputTokensMax;
  context.request = request;
  context.policyCap = policyCap;
  context.trace.policyChanges = policyChanges;
  setStep(context, { caller, subjects: callerSubjects(caller), model, routes });
}

/** The error of the first step, with what became of all of them. */
function withTried(error: ApiError, tried: readonly TriedStep[]): ApiError {
  const { code, message, param, headers, failedGeneration, resetsAtMs, limit, rule } = error;
  return new ApiError(code, message, { param, headers, failedGeneration, resetsAtMs, limit, rule, tried });
}
