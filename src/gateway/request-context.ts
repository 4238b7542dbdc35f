/**
 * The context of one request: everything known and held for it, from its arrival to its settlement. It is one object,
 * created when the request arrives. Each stop of the pipeline fills its fields, and the type shows its stage:
 * `RequestContext` → `AuthenticatedRequest` → `ReadRequest` → `AdmittedRequest` → `ReservedRequest`, `PaidRequest`.
 */

import type { IdempotencyClaim } from "../billing/idempotency/idempotency.ts";
import type { RequestCapture } from "../capture/request-capture.ts";
import type { LimitLease, Subject } from "../limits/limiter-types.ts";
import type { Nano } from "../money/nano.ts";
import type { AccountRoute, PublishedModel } from "../policy/snapshot.ts";
import type { Endpoint } from "../protocols/shared/endpoint.ts";
import type { ModelRequest } from "../protocols/shared/request.ts";
import type { Tracer } from "../telemetry/tracer.ts";
import type { ModelAccess } from "./admission/admit.ts";
import type { Caller } from "./admission/authenticate.ts";
import { callerSubjects } from "./admission/caller-limits.ts";
import { disposeBody } from "./bodies/body.ts";
import type { BodyReservation } from "./bodies/body-budget.ts";
import type { Call } from "./call.ts";
import type { RequestCharge } from "./charging/charge.ts";
import type { WindowBudget } from "./charging/window-budget.ts";
import { openTrace, type Trace } from "./request/trace.ts";
import type { ConversationHolder } from "./steps/conversation-holder.ts";
import type { FallbackRun } from "./steps/fallback-run.ts";
import type { StoredConversation } from "./stored-responses/stored-conversations.ts";
import type { AccountSlot } from "./upstream/account-slot.ts";

export interface RequestContext<C extends Call = Call> {
  readonly call: C;
  readonly endpoint: Endpoint;
  readonly trace: Trace;
  caller: Caller | null;
  /** The key, user and group whose limits apply to the request. */
  subjects: readonly Subject[];
  request: ModelRequest | null;
  model: PublishedModel | null;
  /** The routes that can serve the request, best first. */
  routes: readonly AccountRoute[];
  /** The steps of the request; null if it has only one. Its caller, model and routes are those of the step in progress. */
  fallback: FallbackRun | null;
  /** The conversation that the request continues, if the gateway itself stores it. */
  storedConversation: StoredConversation | null;
  /** The memory of that conversation, if it is long. */
  conversationMemory: BodyReservation | null;
  /** Where the conversation continues that the request names; null unless an upstream holds it. */
  holder: ConversationHolder | null;
  /** The maximum cost against the caller's USD windows; null if the caller has none. */
  budget: WindowBudget | null;
  /** The maximum output tokens of each choice, if a USD window affords fewer than the client requested. */
  windowCap: number | null;
  /** The most searches of the web that the USD windows afford; null without such windows, or if searches cost nothing. */
  windowSearches: number | null;
  /** The maximum output tokens of each choice by the request policy of the caller. */
  policyCap: number | null;
  /** The caller's reservation; the account's is in `accountSlot`. Settled to the use in the row. */
  lease: LimitLease | null;
  claim: IdempotencyClaim | null;
  charge: RequestCharge | null;
  accountSlot: AccountSlot | null;
  /** Null unless the request is captured. */
  capture: RequestCapture | null;
  /** A stream can end in several ways at once: the first one is settled. */
  isSettled: boolean;
  /** Resolves when the settlement is stored; null before it begins, and if there is nothing to wait for. */
  settlement: Promise<void> | null;
  /** Its cost by the tariff; null until it is settled. */
  settledCostNano: Nano | null;
  /** Resolves when a response that continues upstream is settled. Until then the body is needed. */
  followUp: Promise<void> | null;
}

export interface AuthenticatedRequest<C extends Call = Call> extends RequestContext<C> {
  caller: Caller;
}

export interface ReadRequest<C extends Call = Call> extends AuthenticatedRequest<C> {
  request: ModelRequest;
}

/** Its model is published to the caller. It may still wait for its limits. */
export interface AdmittedRequest<C extends Call = Call> extends ReadRequest<C> {
  model: PublishedModel;
}

export interface ReservedRequest<C extends Call = Call> extends AdmittedRequest<C> {
  lease: LimitLease;
}

/** Money is held for it. */
export interface PaidRequest<C extends Call = Call> extends AdmittedRequest<C> {
  charge: RequestCharge;
}

const NO_SUBJECTS: readonly Subject[] = [];
const NO_ROUTES: readonly AccountRoute[] = [];

/** Without a tracer no spans are exported, and the request has no span context. */
export function openContext<C extends Call>(
  call: C,
  endpoint: Endpoint,
  tracer: Pick<Tracer, "begin"> | null = null,
): RequestContext<C> {
  const spanContext = tracer === null ? null : tracer.begin(call.requestId, call.request.headers);
  return {
    call,
    endpoint,
    trace: openTrace(call.startedMs, spanContext),
    caller: null,
    subjects: NO_SUBJECTS,
    request: null,
    model: null,
    routes: NO_ROUTES,
    fallback: null,
    storedConversation: null,
    conversationMemory: null,
    holder: null,
    budget: null,
    windowCap: null,
    windowSearches: null,
    policyCap: null,
    lease: null,
    claim: null,
    charge: null,
    accountSlot: null,
    capture: null,
    isSettled: false,
    settlement: null,
    settledCostNano: null,
    followUp: null,
  };
}

export function setCaller<C extends Call>(
  context: RequestContext<C>,
  caller: Caller,
): asserts context is AuthenticatedRequest<C> {
  context.caller = caller;
  context.subjects = callerSubjects(caller);
}

export function setRequest<C extends Call>(
  context: AuthenticatedRequest<C>,
  request: ModelRequest,
): asserts context is ReadRequest<C> {
  context.request = request;
}

export function setModel<C extends Call>(
  context: ReadRequest<C>,
  { model, routes }: ModelAccess,
): asserts context is AdmittedRequest<C> {
  context.model = model;
  context.routes = routes;
}

/** The request continues at another step: what depends on its group and model begins again. */
export function setStep(
  context: AdmittedRequest,
  { caller, subjects, model, routes }: Pick<AdmittedRequest, "caller" | "subjects" | "model" | "routes">,
): void {
  context.caller = caller;
  context.subjects = subjects;
  context.model = model;
  context.routes = routes;
  context.budget = null;
  context.windowCap = null;
  context.windowSearches = null;
}

/** The request continues where its conversation is. A fallback step is entered later. */
export function setHolder(context: AdmittedRequest, holder: ConversationHolder): void {
  context.holder = holder;
  if (holder.step === null) context.routes = holder.routes;
}

export function setLease<C extends Call>(
  context: AdmittedRequest<C>,
  lease: LimitLease,
): asserts context is ReservedRequest<C> {
  context.lease = lease;
}

/** After the last use of the request: frees its body, and the memory of the conversation that it continues. */
export function disposeRequest({ request, conversationMemory }: ReadRequest): void {
  disposeBody(request);
  conversationMemory?.release();
}

export function isAuthenticated(context: RequestContext): context is AuthenticatedRequest {
  return context.caller !== null;
}

export function isReserved<C extends Call>(context: AdmittedRequest<C>): context is ReservedRequest<C> {
  return context.lease !== null;
}

export function isRead(context: RequestContext): context is ReadRequest {
  return context.caller !== null && context.request !== null;
}

export function isPaid(context: RequestContext): context is PaidRequest {
  return isRead(context) && context.model !== null && context.charge !== null;
}
