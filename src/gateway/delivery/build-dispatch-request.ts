/** Builds what dispatch needs from an admitted request: its routes, its client, and the readers of its response. */

import type { Clock } from "../../base/clock.ts";
import type { StreamReader } from "../../protocols/shared/stream.ts";
import { type Authenticator, type Caller, requireActiveKey } from "../admission/authenticate.ts";
import { OutputCap, outputCapFor } from "../charging/output-cap.ts";
import { SearchCap } from "../charging/search-cap.ts";
import type { OutputCounter } from "../metering/output-counter.ts";
import { searchesPaidFor } from "../metering/usage-bounds.ts";
import type { InFlightRequests } from "../request/in-flight-requests.ts";
import type { ReadRequest, ReservedRequest } from "../request-context.ts";
import { type Drains, type LingeringClient, lingeringClient } from "../stream/drains.ts";
import type { StreamCounters } from "../stream/stream-counters.ts";
import { EmbeddingsTranslator } from "../translation/embeddings-translator.ts";
import { RequestTranslator, type TranslationServices } from "../translation/request-translator.ts";
import { type ConversationSeals, findSeals } from "../translation/sealed-conversation.ts";
import type { Translator } from "../translation/translated-attempt.ts";
import { computeAffinity, type DispatchRequest } from "../upstream/dispatch-request.ts";
import type { Client } from "../upstream/send-request.ts";

interface ReaderServices {
  readonly clock: Pick<Clock, "nowMs">;
  readonly dispatcher: { readonly jsonDepthMax: number };
}

/** The services that an attempt uses. */
export interface DispatchRequestServices extends ReaderServices {
  readonly auth: Pick<Authenticator, "keys" | "nowMs">;
  readonly translation: TranslationServices;
  readonly dispatcher: { readonly jsonDepthMax: number; monotonicMs(): number };
}

interface AttemptOptions {
  readonly client: Client;
  /** Counts the output of a stream; null if it is not counted. */
  readonly counters: StreamCounters | null;
}

export function buildDispatchRequest(
  services: DispatchRequestServices,
  context: ReservedRequest,
  { client, counters }: AttemptOptions,
): DispatchRequest {
  const { call, caller, endpoint, request, routes, fallback } = context;
  const { key, group } = caller;
  const { headers } = call.request;
  let translator: Translator | null = null;
  return {
    requestId: call.requestId,
    keyId: key.id,
    requireKey: () => requireActiveKey(key, services.auth),
    // A request waits in the queue of the key's group, whichever group serves it.
    groupId: fallback?.requested.caller.group.id ?? group.id,
    queue: fallback?.accountQueue() ?? group.queue,
    step: fallback?.toDispatchStep() ?? null,
    lease: context.lease,
    affinity: routes.length > 1 ? computeAffinity(key.id, headers, request) : null,
    // A conversation with fallback may have been on an account of another step.
    seals: routes.length > 1 || fallback !== null ? readSeals(services, context) : null,
    endpoint,
    request,
    cap: openOutputCap(services, context),
    searchCap: openSearchCap(services, context),
    routes,
    clientHeaders: headers,
    socketTurn: call.socketTurn,
    client,
    openReader(translated) {
      if (!request.stream) throw new Error("expected a whole response, received a stream");
      const counter = counters?.next() ?? null;
      return translated === null ? openReader(services, context, counter) : translated.openReader(counter);
    },
    openTranslator() {
      // One for all attempts of a request, so that its body is parsed once.
      translator ??= openTranslator(services, context);
      return translator;
    },
    continuesStored: context.storedConversation !== null,
    isCharged: context.charge !== null,
    capture: context.capture,
    trace: context.trace,
  };
}

/** Null if nothing limits the output. */
function openOutputCap(
  { dispatcher: { monotonicMs } }: DispatchRequestServices,
  context: ReservedRequest,
): OutputCap | null {
  const tokens = outputCapFor(context);
  if (tokens === null) return null;
  const { endpoint, request, policyCap } = context;
  return new OutputCap({ tokens, isRequired: policyCap !== null, endpoint, request, monotonicMs });
}

/** Null unless the request offers searches that are paid for. */
function openSearchCap(
  { dispatcher: { monotonicMs } }: DispatchRequestServices,
  context: ReservedRequest,
): SearchCap | null {
  const searchesMax = searchesPaidFor(context);
  if (searchesMax === null) return null;
  const { endpoint, request } = context;
  const offer = request.searchOffer();
  return offer === null ? null : new SearchCap({ searchesMax, offer, endpoint, request, monotonicMs });
}

function readSeals(
  { translation }: DispatchRequestServices,
  { routes, request, storedConversation, caller, endpoint }: ReservedRequest,
): ConversationSeals | null {
  if (endpoint.dialect === null) return null;
  const { key } = caller;
  return findSeals(translation.seals, { routes, request, storedConversation, owner: key.userId ?? key.id });
}

function openTranslator(
  { translation, clock }: DispatchRequestServices,
  context: ReservedRequest,
): Translator {
  return context.endpoint.output === "vector"
    ? new EmbeddingsTranslator(context, translation)
    : new RequestTranslator(translation, context, clock.nowMs);
}

/** Opens a reader for the events of a response. `counter` counts their text; null if nothing is counted. */
export function openReader(
  { clock, dispatcher }: ReaderServices,
  { call, endpoint, request }: ReadRequest,
  counter: OutputCounter | null,
): StreamReader {
  return endpoint.openReader(request, {
    nowMs: clock.nowMs,
    depthMax: dispatcher.jsonDepthMax,
    sink: counter,
    previousResponseId: call.socketTurn?.knownPrefix?.responseId ?? null,
  });
}

export interface DrainServices {
  readonly drains: Drains;
  readonly inFlight: Pick<InFlightRequests, "register">;
  readonly timing: { readonly drainOnDisconnectMs: number };
}

/** Returns the client as dispatch sees it if its group drains abandoned responses; null if its group cancels them. */
export function openLingeringClient(
  { drains, inFlight, timing }: DrainServices,
  { call, caller }: ReservedRequest,
): LingeringClient | null {
  if (caller.group.onDisconnect !== "drain") return null;
  return lingeringClient(call.request, drainOwner(caller), drains, timing.drainOnDisconnectMs, inFlight);
}

/** The user, or the key if it has none, whose share of the drains a response takes. */
export function drainOwner({ key }: Caller): string {
  return key.userId ?? key.id;
}
