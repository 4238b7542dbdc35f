/** Endpoints that read for the caller of a key: models, usage, requests and stored responses. */

import { parseQuery } from "../console-api/http/query.ts";
import { authenticate, type Caller } from "../gateway/admission/authenticate.ts";
import { countMessageTokens, countTokens } from "../gateway/endpoints/count-tokens.ts";
import { type GeminiPage, getGeminiModel, listGeminiModels } from "../gateway/endpoints/gemini-models.ts";
import {
  computeEtag,
  getModel,
  listModels,
  listModelsForCodex,
  readModelPage,
} from "../gateway/endpoints/models.ts";
import { reportRequest } from "../gateway/endpoints/request-report.ts";
import { reportUsage } from "../gateway/endpoints/usage-report.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { callStoredResponse } from "../gateway/response-calls/stored-response.ts";
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

export class CallerEndpoints {
  readonly #gateway: Gateway;

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
        return parseQuery(call.query).has("client_version")
          ? this.#sendJson(call, (caller) => listModelsForCodex(caller.group), computeEtag)
          : this.#sendJson(call, (caller) => listModels(caller.group, readModelPage(parseQuery(call.query))));
      case "model":
        return this.#sendJson(call, (caller) => getModel(caller.group, destination.id));
      case "gemini_models":
        rejectKeyInQuery(call.query);
        return this.#sendJson(call, (caller) => listGeminiModels(caller.group, readGeminiPage(call.query)));
      case "gemini_model":
        rejectKeyInQuery(call.query);
        return this.#sendJson(call, (caller) => getGeminiModel(caller.group, destination.id));
      case "usage":
        return this.#sendJson(call, (caller) => reportUsage(gateway, caller, parseQuery(call.query)));
      case "request":
        return this.#sendJson(call, (caller) => reportRequest(gateway, caller, destination.id));
    }
  }

  /** Authenticates the caller first. */
  async #sendJson<Body>(
    call: ServerCall,
    buildBody: (caller: Caller) => Body | Promise<Body>,
    buildHeaders: (body: Body) => Record<string, string> = () => ({}),
  ): Promise<Response> {
    const { policy, auth, reads } = this.#gateway;
    const caller = authenticate(call.request.headers, policy.snapshot(), auth, call);
    reads.take(caller.key.id);
    const body = await buildBody(caller);
    return Response.json(body, { headers: { "x-request-id": call.requestId, ...buildHeaders(body) } });
  }
}

function readGeminiPage(text: string): GeminiPage {
  const query = parseQuery(text);
  return { pageSize: query.get("pageSize"), pageToken: query.get("pageToken") };
}

function readMethod(request: IncomingHttpRequest): "GET" | "POST" | "DELETE" {
  return request.method === "POST" || request.method === "DELETE" ? request.method : "GET";
}
