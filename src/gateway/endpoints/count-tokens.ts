/**
 * `POST /v1/messages/count_tokens` and Gemini's `:countTokens`: the input tokens of a request, without a response. A
 * count is free and has no usage row. It is one request in the limits of its caller, without tokens and money, and never
 * affects the health of an account.
 */

import { clientError } from "../../accounts/failure.ts";
import { KINDS } from "../../accounts/kinds/table.ts";
import { isPending, type MaybePromise } from "../../base/maybe-promise.ts";
import { partBytes } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import { isObject, parseJson } from "../../json/parse.ts";
import type { LimitLease } from "../../limits/limiter-types.ts";
import { type HttpResponse, WholeResponse } from "../../net/wire/http-message.ts";
import type { LivePolicy } from "../../policy/live-policy.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import { hasInterface } from "../../policy/translation.ts";
import type { Pool } from "../../pool/pool.ts";
import { COUNT_TOKENS_ENDPOINT } from "../../protocols/messages/messages-endpoints.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import { MEDIA_TOKENS } from "../../protocols/shared/media-members.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import { JobLimitError } from "../../threads/job-limit-error.ts";
import { admit, allowInterface } from "../admission/admit.ts";
import { type Authenticator, authenticate } from "../admission/authenticate.ts";
import type { KeySlots } from "../admission/key-limits.ts";
import { disposeBody } from "../bodies/body.ts";
import type { HttpCall } from "../call.ts";
import type { CountableRequest, InputCounter } from "../metering/count-input.ts";
import { BYTES_PER_TOKEN } from "../metering/input-estimate.ts";
import type { RequestReader } from "../request/read-request.ts";
import { type AuthenticatedRequest, openContext, setCaller } from "../request-context.ts";
import { type LimitServices, reserveRequestLimits } from "../reserve-limits.ts";
import type { TokenFactors } from "../translation/token-factors.ts";
import { messageAudience } from "../upstream/message-audience.ts";
import { clientGone, type OutboundRequest, sendRequest } from "../upstream/send-request.ts";
import { JSON_LINES } from "./error-response.ts";

interface CountTokensServices extends LimitServices {
  readonly policy: Pick<LivePolicy, "snapshot">;
  readonly auth: Authenticator;
  readonly tokenCounts: KeySlots;
  readonly requests: RequestReader;
  readonly inputCounter: Pick<InputCounter, "countRequest">;
  readonly dispatcher: OutboundRequest & { readonly pool: Pick<Pool, "describe"> };
  readonly translation: { readonly factors: Pick<TokenFactors, "correct"> };
}

export function countMessageTokens(services: CountTokensServices, call: HttpCall): Promise<HttpResponse> {
  return countTokens(services, call, COUNT_TOKENS_ENDPOINT);
}

/** A client waits for the count before it sends its request: after this time the gateway's own count is used. */
const UPSTREAM_TIMEOUT_MS = 5_000;
/** The response to a count is a number. It is parsed whole, so a longer one would hold the event loop. */
const UPSTREAM_BYTES_MAX = 64 * 1024;
/** Longer texts are estimated: a tokenizer would take longer than a client waits. */
const TOKENIZED_BYTES_MAX = 256 * 1024;

/** `endpoint` is one that counts tokens. */
export async function countTokens(
  services: CountTokensServices,
  call: HttpCall,
  endpoint: Endpoint,
): Promise<HttpResponse> {
  const context = openContext(call, endpoint);
  setCaller(context, authenticate(call.request.headers, services.policy.snapshot(), services.auth, call));
  allowInterface(context.caller, endpoint);
  const keyId = context.caller.key.id;
  const slot = services.tokenCounts.take(keyId);
  if (slot === null) throw tooManyCountsError();
  try {
    await whileUnread(call, slot);
    if (call.request.signal.aborted) throw clientGone();
    const lease = await whileUnread(call, reserveRequestLimits(services, context));
    try {
      const tokens = await countRequest(services, context, lease);
      return buildResponse(tokens, endpoint.api.countField, call.requestId);
    } finally {
      lease.release();
      lease.finish();
    }
  } finally {
    services.tokenCounts.free(keyId);
  }
}

function tooManyCountsError(): ApiError {
  return new ApiError(
    "rate_limit_exceeded",
    "Too many token counts of this API key wait to be served. Please try again in 1s.",
    { headers: { "retry-after": "1" } },
  );
}

/** The body of a count that waits is read later. */
function whileUnread<Value>({ request }: HttpCall, value: MaybePromise<Value>): MaybePromise<Value> {
  if (isPending(value)) request.body?.defer();
  return value;
}

async function countRequest(
  services: CountTokensServices,
  { call, endpoint, caller }: AuthenticatedRequest<HttpCall>,
  lease: LimitLease,
): Promise<number> {
  const request = await cancelIfRejected(lease, async () =>
    services.requests.read(call.request, endpoint, caller.key),
  );
  try {
    // Accounts of another dialect serve the model as well, so the count is then the gateway's own.
    const { routes } = await cancelIfRejected(lease, async () =>
      admit(caller, { ...endpoint, dialect: "chat" }, request.publicModel),
    );
    return (
      (await askAccount(services, call, { endpoint, request, routes })) ??
      (await countHere(services, { request, output: endpoint.output, owner: caller.key.id }))
    );
  } finally {
    disposeBody(request);
  }
}

/** As for other requests: what the gateway itself rejects does not count. */
async function cancelIfRejected<Value>(lease: LimitLease, check: () => Promise<Value>): Promise<Value> {
  try {
    return await check();
  } catch (error) {
    lease.cancel();
    throw error;
  }
}

interface CountRequest {
  readonly endpoint: Endpoint;
  readonly request: ModelRequest;
  readonly routes: readonly AccountRoute[];
}

/** Null if no account counts tokens itself, or if it fails. Throws if the account rejects the request as invalid. */
async function askAccount(
  { dispatcher }: CountTokensServices,
  call: HttpCall,
  { endpoint, request, routes }: CountRequest,
): Promise<number | null> {
  const route = routes.find(
    (one) => hasInterface(one, endpoint.interface) && dispatcher.pool.describe(one).reason === null,
  );
  if (route === undefined) return null;
  const { account, upstreamModel } = route;
  const { body } = request;
  const { tokenCount } = KINDS[account.kind];
  const content = tokenCount.body({ body, upstreamModel, iface: endpoint.interface });
  if (content === null) return null;
  const result = await sendRequest(dispatcher, {
    account,
    method: "POST",
    path: endpoint.path,
    upstreamModel,
    clientHeaders: call.request.headers,
    body: { contentType: body.contentType, content },
    wantsEvents: false,
    deadlineMs: UPSTREAM_TIMEOUT_MS,
    responseBytesMax: UPSTREAM_BYTES_MAX,
    client: call.request,
  });
  if (result.kind === "failed") {
    if (result.failure.class === "rejected" && tokenCount.isRejectionFinal)
      throw clientError(result.failure, messageAudience(request, route));
    return null;
  }
  const json = parseJson(partBytes(result.body));
  const field = tokenCount.field ?? endpoint.api.countField;
  const tokens = isObject(json) ? json[field] : null;
  return typeof tokens === "number" && Number.isSafeInteger(tokens) && tokens >= 0 ? tokens : null;
}

async function countHere(
  { inputCounter, translation }: CountTokensServices,
  countable: CountableRequest & { readonly request: ModelRequest },
): Promise<number> {
  const { request } = countable;
  const { textBytes, media } = request.inputSize();
  if (textBytes > TOKENIZED_BYTES_MAX) return Math.ceil(textBytes / BYTES_PER_TOKEN) + media * MEDIA_TOKENS;
  try {
    return translation.factors.correct(request.publicModel, await inputCounter.countRequest(countable));
  } catch (error) {
    if (!(error instanceof JobLimitError)) throw error;
    throw error.isOverload ? overloadedError() : tooLargeError();
  }
}

function tooLargeError(): ApiError {
  return new ApiError(
    "request_too_large",
    "The request is too large or too complex to be counted. Shorten the conversation, its tools or its media.",
  );
}

function overloadedError(): ApiError {
  return new ApiError(
    "server_is_overloaded",
    "Too many long requests wait to be counted. Try again in 1 s.",
    { headers: { "retry-after": "1" } },
  );
}

function buildResponse(tokens: number, field: string, requestId: string): WholeResponse {
  const lines = `${JSON_LINES}x-request-id: ${requestId}\r\nrequest-id: ${requestId}\r\n`;
  return new WholeResponse(200, lines, Buffer.from(JSON.stringify({ [field]: tokens })));
}
