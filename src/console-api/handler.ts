/**
 * The door of the console's API: finds the operation, finds out who asks and whether they may, by the table's words,
 * and only then reads what they sent. It answers in one shape.
 */

import { limits } from "../config/product-limits.ts";
import { ApiError, errorResponse } from "../errors.ts";
import { readBody } from "../gateway/request/body.ts";
import type { BodyBudget } from "../gateway/request/body-budget.ts";
import { bodyError } from "../gateway/request/body-error.ts";
import type { Deadlines } from "../net/wire/deadlines.ts";
import { type IncomingHttpRequest, SharedAnswer } from "../net/wire/http-message.ts";
import { partBytes } from "../net/wire/parts.ts";
import { logFault } from "../observe/log.ts";
import { findActor, readBearer, readUserAgent } from "./auth/actor.ts";
import type { ConsoleContext } from "./context.ts";
import { presentedSession } from "./http/cookies.ts";
import { compileRoutes } from "./http/match.ts";
import { refuseNul } from "./http/nul.ts";
import { clientAddressOf, refuseForeign } from "./http/origin.ts";
import { parseQueryRecord } from "./http/query.ts";
import { asRefusal } from "./http/refusals.ts";
import type { ConsoleRoute } from "./http/route.ts";

/** One request as it came through the server. */
export interface ApiCall {
  readonly request: IncomingHttpRequest;
  /** Without the query. */
  readonly path: string;
  readonly query: string;
  readonly requestId: string;
  /** Who is at the other end of the connection. */
  peerAddress(): string;
  /** The client has shown a session or a token: its connection no longer counts as a stranger's. */
  authenticated(): void;
  readonly leaving: AbortSignal;
}

/** Only administrators may send large bodies here, so all of them count as one owner. */
const CONSOLE = { id: "console", userId: null };

export type ApiHandler = (call: ApiCall) => Promise<Response | SharedAnswer>;

export function openApiHandler(
  control: ConsoleContext,
  routes: Readonly<Record<string, ConsoleRoute>>,
  alarms: Deadlines,
): ApiHandler {
  const find = compileRoutes(routes);

  async function answer(call: ApiCall): Promise<Response | SharedAnswer> {
    const { request, requestId } = call;
    const { headers } = request;
    const { route, params } = find(request.method, call.path);
    if (route.method !== "GET" && readBearer(headers) === null) {
      refuseForeign(headers, control.publicUrl, presentedSession(headers) !== null);
    }
    const clientAddress = clientAddressOf(headers, call.peerAddress(), control.publicUrl);
    const actor = await findActor(control, { headers, clientAddress });
    if (actor !== null) call.authenticated();
    const handle = route.allow(actor);
    const bytesMax = actor === null ? limits.strangerBodyBytesMax : route.bodyBytesMax;
    const query = parseQueryRecord(call.query);
    refuseNul({ ...params, ...query });
    const body = await bodyOf(request, bytesMax, alarms, control.gateway.bodies);
    // A body may take minutes to arrive: access that was revoked meanwhile must not act any more.
    const allowed =
      request.body === null ? handle : route.allow(await findActor(control, { headers, clientAddress }));
    const answered = await allowed(control, {
      params,
      query,
      body,
      requestId,
      clientAddress,
      userAgent: readUserAgent(headers),
      headers,
      signal: request.signal,
      leaving: call.leaving,
    });
    // By its schema: what an answer does not promise does not leave, whatever a record may hold one day.
    if (answered instanceof Response || answered instanceof SharedAnswer) return answered;
    return Response.json(route.answer.parse(answered));
  }

  return async (call) => {
    let response: Response | SharedAnswer;
    try {
      response = await answer(call);
    } catch (thrown) {
      const error = asRefusal(thrown);
      if (error.status === 500) logFault(control.gateway.log, call.requestId, thrown);
      response = errorResponse(error, call.requestId);
    }
    response.headers.set("x-request-id", call.requestId);
    // Answers are about one user or moment; only a document that is the same for everyone says otherwise.
    if (!response.headers.has("cache-control")) response.headers.set("cache-control", "no-store");
    response.headers.set("x-content-type-options", "nosniff");
    return response;
  };
}

/** JSON alone: no form of another site can send that. */
async function bodyOf(
  request: IncomingHttpRequest,
  bytesMax: number,
  alarms: Deadlines,
  room: BodyBudget,
): Promise<unknown> {
  if (request.body === null) return undefined;
  const within = { ...limits.bodyReading, bytesMax, idleTimeoutMs: limits.bodyIdleTimeoutMs, alarms };
  const read = await readBody(request, within, room, CONSOLE);
  if (!("ok" in read)) return parsed(request, partBytes(read));
  if (!read.ok) throw bodyError(read);
  try {
    return parsed(request, read.bytes);
  } finally {
    read.held.release();
  }
}

function parsed(request: IncomingHttpRequest, bytes: Uint8Array): unknown {
  if (bytes.length === 0) return undefined;
  const type = request.headers.get("content-type")?.split(";")[0]?.trim().toLowerCase();
  if (type !== "application/json") {
    throw new ApiError("unsupported_media_type", "Send JSON, with Content-Type: application/json.");
  }
  const { text, value } = jsonOf(bytes);
  // A long body is looked through only where there is something to find.
  if (text.includes("\\u0000")) refuseNul(value);
  return value;
}

function jsonOf(bytes: Uint8Array): { text: string; value: unknown } {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return { text, value: JSON.parse(text) };
  } catch {
    throw new ApiError("invalid_json", "The body is not JSON in UTF-8.");
  }
}
