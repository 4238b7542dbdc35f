/** Endpoints that read for the caller of a key: models, usage, requests and stored responses. */

import { parseQuery } from "../console-api/http/query.ts";
import { authenticate, type Caller } from "../gateway/admission/authenticate.ts";
import { countMessageTokens, countTokens } from "../gateway/endpoints/count-tokens.ts";
import {
  type GeminiPage,
  getGeminiModel,
  respondWithGeminiModels,
} from "../gateway/endpoints/gemini-models.ts";
import {
  getModel,
  readModelPage,
  respondWithModels,
  respondWithModelsForCodex,
} from "../gateway/endpoints/models.ts";
import { reportRequest } from "../gateway/endpoints/request-report.ts";
import { reportUsage } from "../gateway/endpoints/usage-report.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { callStoredResponse } from "../gateway/response-calls/stored-response.ts";
import { Turns } from "../net/http-server/turn-queue.ts";
import type { HttpResponse, IncomingHttpRequest } from "../net/wire/http-message.ts";
import { rejectKeyInQuery } from "./gemini-query.ts";
import type { Destination } from "./routes.ts";
import type { ServerCall } from "./server-call.ts";

type CallerDestination = Extract<
  Destination,
  {
    kind:
      | "stored_response"
      | "count_tokens"
      | "models"
      | "model"
      | "gemini_models"
      | "gemini_model"
      | "usage"
      | "request";
  }
>;

/** Writing a list takes up to a millisecond for each MiB, and many clients may request one at once. */
const LISTS_PER_TURN = 8;

export class CallerEndpoints {
  readonly #gateway: Gateway;
  readonly #lists = new Turns(LISTS_PER_TURN);

  constructor(gateway: Gateway) {
    this.#gateway = gateway;
  }

  respond(call: ServerCall, destination: CallerDestination): Promise<HttpResponse> {
    const gateway = this.#gateway;
    switch (destination.kind) {
      case "stored_response":
        return callStoredResponse(gateway, call, {
          ...destination,
          method: readMethod(call.request),
          query: parseQuery(call.query),
        });
      case "count_tokens":
        if (destination.endpoint === undefined) return countMessageTokens(gateway, call);
        rejectKeyInQuery(call.query);
        return countTokens(gateway, call, destination.endpoint);
      case "models":
        return this.#listModels(call);
      case "model":
        return this.#sendJson(call, (caller) => getModel(caller.group, destination.id));
      case "gemini_models":
        rejectKeyInQuery(call.query);
        return this.#listGeminiModels(call);
      case "gemini_model":
        rejectKeyInQuery(call.query);
        return this.#sendJson(call, (caller) => getGeminiModel(caller.group, destination.id));
      case "usage":
        return this.#sendJson(call, (caller) => reportUsage(gateway, caller, parseQuery(call.query)));
      case "request":
        return this.#sendJson(call, (caller) => reportRequest(gateway, caller, destination.id));
    }
  }

  async #listModels(call: ServerCall): Promise<HttpResponse> {
    const query = parseQuery(call.query);
    const { group } = this.#authenticate(call);
    await this.#nextListTurn();
    return query.has("client_version")
      ? respondWithModelsForCodex(group, call.requestId)
      : respondWithModels(group, readModelPage(query), call.requestId);
  }

  async #listGeminiModels(call: ServerCall): Promise<HttpResponse> {
    const { group } = this.#authenticate(call);
    await this.#nextListTurn();
    return respondWithGeminiModels(group, readGeminiPage(call.query), call.requestId);
  }

  #nextListTurn(): Promise<void> {
    return new Promise((resolve) => this.#lists.add(resolve));
  }

  async #sendJson(call: ServerCall, buildBody: (caller: Caller) => unknown): Promise<Response> {
    const caller = this.#authenticate(call);
    const body = await buildBody(caller);
    return Response.json(body, { headers: { "x-request-id": call.requestId } });
  }

  /** Throws if the key has called too often. */
  #authenticate(call: ServerCall): Caller {
    const { policy, auth, reads } = this.#gateway;
    const caller = authenticate(call.request.headers, policy.snapshot(), auth, call);
    reads.take(caller.key.id);
    return caller;
  }
}

function readGeminiPage(text: string): GeminiPage {
  const query = parseQuery(text);
  return { pageSize: query.get("pageSize"), pageToken: query.get("pageToken") };
}

function readMethod(request: IncomingHttpRequest): "GET" | "POST" | "DELETE" {
  return request.method === "POST" || request.method === "DELETE" ? request.method : "GET";
}
