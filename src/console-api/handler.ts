/**
 * Request handler of the console API: finds the route, authenticates the caller, checks the access that the
 * route requires, and only then reads the body. All responses have the same shape.
 */

import type { Deadlines } from "../base/deadlines.ts";
import { partBytes } from "../base/parts.ts";
import { limits } from "../config/limits/product-limits.ts";
import { ApiError, errorResponse } from "../errors.ts";
import { readBody } from "../gateway/bodies/body.ts";
import type { BodyBudget } from "../gateway/bodies/body-budget.ts";
import { bodyError } from "../gateway/bodies/body-error.ts";
import { hasMoreValues } from "../json/values.ts";
import { resolveCountedAddress } from "../net/http-server/proxy.ts";
import { type IncomingHttpRequest, SharedResponse } from "../net/wire/http-message.ts";
import { logFault } from "../observe/log.ts";
import { SCIM_MEDIA, scimErrorResponse } from "../scim/scim-error.ts";
import { findActor, readBearer, readUserAgent } from "./auth/actor.ts";
import type { ConsoleContext } from "./context.ts";
import { CallerTurns } from "./http/caller-turns.ts";
import { presentedSession } from "./http/cookies.ts";
import { compileRoutes } from "./http/match-route.ts";
import { rejectForeignOrigin } from "./http/origin.ts";
import { parseQueryRecord } from "./http/query.ts";
import { rejectNul } from "./http/reject-nul.ts";
import type { ApiCaller, ConsoleRoute } from "./http/route.ts";
import { asRejection } from "./rejections.ts";

/** One request as the server received it. */
export interface ApiCall {
  readonly request: IncomingHttpRequest;
  /** Without the query. */
  readonly path: string;
  readonly query: string;
  readonly requestId: string;
  /** The address at the other end of the connection. */
  peerAddress(): string;
  /**
   * Called once the client has presented a valid session or token. Its connection then no longer counts as
   * anonymous.
   */
  authenticated(): void;
  readonly shutdownSignal: AbortSignal;
}

/** Only administrators may send large bodies here, so all of them count as one owner. */
const CONSOLE = { id: "console", userId: null };

export type ApiHandler = (call: ApiCall) => Promise<Response | SharedResponse>;

export function openApiHandler(
  context: ConsoleContext,
  routes: Readonly<Record<string, ConsoleRoute>>,
  deadlines: Deadlines,
): ApiHandler {
  const find = compileRoutes(routes);
  const run = openRunner(context);

  async function respond(call: ApiCall): Promise<Response | SharedResponse> {
    const { request, requestId } = call;
    const { headers } = request;
    const { route, params } = find(request.method, call.path);
    if (route.method !== "GET" && readBearer(headers) === null) {
      rejectForeignOrigin(headers, context.publicUrl, presentedSession(headers) !== null);
    }
    const clientAddress = resolveCountedAddress(headers, call.peerAddress(), context.publicUrl);
    const actor = await findActor(context, { headers, clientAddress });
    if (actor !== null) call.authenticated();
    const handle = route.allow(actor);
    // What a user removes was added before, and access must end at any time.
    if (route.method !== "GET" && route.method !== "DELETE") limitChanges(context, actor);
    const bytesMax = actor === null ? limits.anonymousBodyBytesMax : route.bodyBytesMax;
    const query = parseQueryRecord(call.query);
    rejectNul({ ...params, ...query });
    const body = await parseBody(
      request,
      { ...route, bodyBytesMax: bytesMax },
      deadlines,
      context.gateway.bodyBudget,
    );
    // A body may take minutes to arrive: access that was revoked meanwhile must be rejected.
    const allowed =
      request.body === null ? handle : route.allow(await findActor(context, { headers, clientAddress }));
    const result = await run(route, actor, (routeContext) =>
      allowed(routeContext, {
        params,
        query,
        body,
        requestId,
        clientAddress,
        userAgent: readUserAgent(headers),
        headers,
        signal: request.signal,
        shutdownSignal: call.shutdownSignal,
      }),
    );
    // Parsed by the schema, so that a response never contains fields that it does not declare.
    if (result instanceof Response || result instanceof SharedResponse) return result;
    return Response.json(route.response.parse(result));
  }

  return async (call) => {
    let response: Response | SharedResponse;
    try {
      response = await respond(call);
    } catch (thrown) {
      const error = asRejection(thrown);
      if (error.status === 500) logFault(context.gateway.log, { request_id: call.requestId }, thrown);
      response = call.path.startsWith("/scim/")
        ? scimErrorResponse(error)
        : errorResponse(error, call.requestId);
    }
    response.headers.set("x-request-id", call.requestId);
    // Responses are specific to a user or a moment. Only a document that is the same for everyone sets another
    // value.
    if (!response.headers.has("cache-control")) response.headers.set("cache-control", "no-store");
    response.headers.set("x-content-type-options", "nosniff");
    return response;
  };
}

/** Whatever a route lists, searches or sums must not hold the event loop, however many rows there are. */
function openRunner(context: ConsoleContext) {
  const reports = { ...context.installation, db: context.installation.db.reports };
  const reads = new CallerTurns(limits.readsOfCaller);
  return <T>(
    route: Pick<ConsoleRoute, "reads">,
    caller: ApiCaller | null,
    work: (context: ConsoleContext) => Promise<T>,
  ): Promise<T> =>
    caller === null || route.reads === "direct"
      ? work(context)
      : reads.run(callerId(caller), () => work({ ...context, installation: reports }));
}

function callerId(caller: ApiCaller): string {
  return caller.kind === "person" ? caller.userId : caller.account.id;
}

/** Administrators change many entries at once, and answer for what they fill the database with. */
function limitChanges({ changeThrottle }: ConsoleContext, actor: ApiCaller | null): void {
  if (actor?.kind !== "person" || actor.role === "admin") return;
  const waitSeconds = changeThrottle.take(actor.userId);
  if (waitSeconds === null) return;
  throw new ApiError("rate_limit_exceeded", `Too many changes. Try again in ${waitSeconds} s.`, {
    headers: { "retry-after": String(waitSeconds) },
  });
}

/** Accepts only JSON, which a form on another site cannot send. */
async function parseBody(
  request: IncomingHttpRequest,
  { bodyBytesMax, media }: Pick<ConsoleRoute, "bodyBytesMax" | "media">,
  deadlines: Deadlines,
  bodyBudget: BodyBudget,
): Promise<unknown> {
  if (request.body === null) return undefined;
  const readLimits = {
    ...limits.bodyReading,
    bytesMax: bodyBytesMax,
    idleTimeoutMs: limits.bodyIdleTimeoutMs,
    deadlines,
  };
  const received = await readBody(request, readLimits, bodyBudget, CONSOLE);
  const valuesMax = bodyBytesMax > limits.apiBodyBytesMax ? limits.apiBulkValuesMax : limits.apiValuesMax;
  const accepted = { valuesMax, media };
  if (!("ok" in received)) return parseContent(request, partBytes(received), accepted);
  if (!received.ok) throw bodyError(received);
  try {
    return parseContent(request, received.bytes, accepted);
  } finally {
    received.reservation.release();
  }
}

function parseContent(
  request: IncomingHttpRequest,
  bytes: Uint8Array,
  { valuesMax, media }: { valuesMax: number; media: string },
): unknown {
  if (bytes.length === 0) return undefined;
  const type = request.headers.get("content-type")?.split(";")[0]?.trim().toLowerCase();
  const isScim = type === SCIM_MEDIA && media === SCIM_MEDIA;
  if (type !== "application/json" && !isScim) {
    throw new ApiError("unsupported_media_type", "Send JSON, with Content-Type: application/json.");
  }
  const { text, value } = parseJson(bytes, valuesMax);
  // A long body is searched only if it contains the escape.
  if (text.includes("\\u0000")) rejectNul(value);
  return value;
}

function parseJson(bytes: Uint8Array, valuesMax: number): { text: string; value: unknown } {
  if (hasMoreValues(bytes, valuesMax)) {
    const message = `The body has more than ${valuesMax.toLocaleString("en-US")} JSON values. Send several requests.`;
    throw new ApiError("invalid_value", message);
  }
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return { text, value: JSON.parse(text) };
  } catch {
    throw new ApiError("invalid_json", "The body is not JSON in UTF-8.");
  }
}
