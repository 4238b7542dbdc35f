/** Opens an attempt: the request as one account receives it, in the trace and, when it is written, in billing. */

import type { PolicyAccount } from "../../accounts/account.ts";
import { selectBetas } from "../../accounts/cloud/betas.ts";
import { KINDS } from "../../accounts/kinds/table.ts";
import { vendorForm } from "../../accounts/profile.ts";
import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import type { AttemptCapture } from "../../capture/attempt-capture.ts";
import type { RequestCapture } from "../../capture/request-capture.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import type { HostedForm, RequestBody } from "../../protocols/shared/request.ts";
import { type AttemptTrace, type RequestChanges, UNCHANGED } from "../request/attempt-trace.ts";
import { traceLines } from "../request/trace.ts";
import { DROPPED_STATE, type TranslatedAttempt } from "../translation/translated-attempt.ts";
import type { DispatchRequest, SocketTurn } from "./dispatch-request.ts";
import type { UpstreamAttempt } from "./send-request.ts";

export interface AttemptServices {
  billingEngine: Pick<BillingEngine, "recordDispatch">;
  monotonicMs(): number;
  timing: { firstByteTimeoutMs: number; unaryTimeoutMs: number };
}

export interface AttemptSource {
  readonly route: AccountRoute;
  readonly translated: TranslatedAttempt | null;
  /** The body for accounts that have the client's interface. */
  readonly body: RequestBody;
}

/** An attempt, as it is sent and as it is recorded. */
export interface OpenedAttempt {
  readonly route: AccountRoute;
  readonly translated: TranslatedAttempt | null;
  readonly outbound: UpstreamAttempt;
  readonly trace: AttemptTrace;
}

/** Records the attempt, then writes its body, which may fail when it is read. */
export function openAttempt(
  services: AttemptServices,
  dispatchRequest: DispatchRequest,
  { route, translated, body }: AttemptSource,
): OpenedAttempt {
  const { billingEngine, timing } = services;
  const { requestId, request, trace, client, capture, step } = dispatchRequest;
  const { account, upstreamModel } = route;
  const nativeBody = translated === null ? applyCaps(dispatchRequest, route, body) : body;
  const changes = translated ?? findChanges(dispatchRequest, account);
  const attemptTrace = trace.beginAttempt({ route, changes, step, nowMs: services.monotonicMs() });
  const content =
    translated === null ? writeNative(dispatchRequest, route, nativeBody) : writeTranslated(translated);
  const outbound: UpstreamAttempt = {
    account,
    method: "POST",
    upstreamModel,
    traceLines: account.propagateTrace ? traceLines(trace) : "",
    capture: capture === null ? null : captureAttempt(capture, route, step),
    wantsEvents: request.stream,
    deadlineMs: request.stream ? timing.firstByteTimeoutMs : timing.unaryTimeoutMs,
    client,
    // Not earlier: recovery charges the input of what is recorded, and a request without a connection was not sent.
    beforeWrite: dispatchRequest.isCharged
      ? () => billingEngine.recordDispatch(requestId, account.id, upstreamModel)
      : null,
    ...content,
  };
  return { route, translated, outbound, trace: attemptTrace };
}

function applyCaps({ cap, searchCap }: DispatchRequest, route: AccountRoute, body: RequestBody): RequestBody {
  const capped = cap === null ? body : cap.applyTo(body, route);
  return searchCap === null ? capped : searchCap.applyTo(capped, route);
}

type AttemptContent = Pick<UpstreamAttempt, "path" | "clientHeaders" | "body" | "turn">;

function writeNative(
  dispatchRequest: DispatchRequest,
  route: AccountRoute,
  body: RequestBody,
): AttemptContent {
  const { endpoint, clientHeaders, socketTurn } = dispatchRequest;
  const { upstreamModel } = route;
  const form = openHostedForm(dispatchRequest, route);
  return {
    path: endpoint.path,
    clientHeaders,
    body: { contentType: body.contentType, content: body.forUpstream(upstreamModel, form) },
    turn: socketTurn === null ? null : buildTurn(socketTurn, body, upstreamModel),
  };
}

/** Headers of the client are meant for its own dialect, so they are not forwarded. */
function writeTranslated({ path, headers, body }: TranslatedAttempt): AttemptContent {
  return {
    path,
    clientHeaders: headers,
    body: { contentType: "application/json", content: body },
    turn: null,
  };
}

/** What the account does not receive of a request that passes through. */
function findChanges(
  { endpoint, request, clientHeaders, seals }: DispatchRequest,
  account: PolicyAccount,
): RequestChanges {
  const { hosting } = KINDS[account.kind];
  if (seals === null && hosting === null) return UNCHANGED;
  const dropped: string[] = [];
  if (hosting !== null) {
    const { areDropped } = selectBetas(account, hosting.betas, clientHeaders.get("anthropic-beta"));
    if (areDropped) dropped.push("anthropic-beta");
    if (endpoint.stores === "in_threads" && request.storesResponse) dropped.push("thread");
  }
  // The envelopes of translated accounts are left out of a body that passes through.
  if (seals !== null) dropped.push(DROPPED_STATE);
  return { dialect: null, dropped, isStateDropped: seals !== null };
}

/** Null unless the account has another form of the API than its inventor. */
function openHostedForm(
  { endpoint, clientHeaders }: DispatchRequest,
  { account }: AccountRoute,
): HostedForm | null {
  const { hosting } = KINDS[account.kind];
  if (hosting === null) return vendorForm(account, endpoint.interface);
  const { accepted } = selectBetas(account, hosting.betas, clientHeaders.get("anthropic-beta"));
  return hosting.form(endpoint.interface, accepted);
}

function captureAttempt(
  capture: RequestCapture,
  { account: { name, credential }, upstreamModel }: AccountRoute,
  step: DispatchRequest["step"],
): AttemptCapture {
  return capture.beginAttempt({
    account: name,
    upstreamModel,
    credential,
    step: step === null ? null : { number: step.number, group: step.group },
  });
}

/** What a WebSocket needs about a turn, in addition to the whole request. */
function buildTurn(
  { upstreamLane, knownPrefix }: SocketTurn,
  body: RequestBody,
  upstreamModel: string,
): NonNullable<UpstreamAttempt["turn"]> {
  const tail = knownPrefix && {
    responseId: knownPrefix.responseId,
    body: () => body.forUpstreamAfter(upstreamModel, knownPrefix),
  };
  return { upstreamLane, tail };
}
