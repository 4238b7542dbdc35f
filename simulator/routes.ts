/** Routes the requests of the simulator. */

import { respondCloud } from "./cloud/cloud-call.ts";
import { respondCloudList } from "./cloud/cloud-lists.ts";
import { needsAccessToken, parseCloudPath } from "./cloud/cloud-path.ts";
import { respondToControl } from "./control.ts";
import {
  type Delivery,
  deliver,
  isMessages,
  REJECTIONS,
  readCredential,
  type SimulatedApi,
} from "./delivery/delivery.ts";
import { canaryHeaders, earlyFault } from "./delivery/faults.ts";
import type { Call } from "./endpoint.ts";
import { forcedFault, openEntry, REQUEST_ID } from "./entry.ts";
import {
  badCredential,
  createRejection,
  methodNotAllowed,
  missing,
  notJson,
  type Rejection,
  unknownModel,
  unknownUrl,
} from "./errors.ts";
import {
  isGeminiPath,
  parseGeminiPath,
  respondGemini,
  respondGeminiList,
  streams,
} from "./gemini/gemini-routes.ts";
import { googleRejection } from "./gemini/google-rejection.ts";
import { type JsonFields, stringField, topLevelFields } from "./json-fields.ts";
import { countMessageTokens, createMessage } from "./messages/messages.ts";
import { readBehaviour } from "./model/model-name.ts";
import { chatCompletion } from "./openai/chat.ts";
import { embeddings } from "./openai/embeddings.ts";
import { images } from "./openai/images.ts";
import { compact, countInputTokens, createResponse, storedResponse } from "./openai/responses.ts";
import { jsonReply, NO_USAGE, type Reply } from "./reply.ts";
import { type RequestBody, readBody } from "./request-body.ts";
import type { Simulation } from "./simulation.ts";
import { SimulatedSocket } from "./socket/socket.ts";

type PostEndpoint = (call: Call, simulation: Simulation, uploads: number) => Reply;

const POST_ENDPOINTS: Readonly<Record<string, PostEndpoint>> = {
  "/chat/completions": (call) => chatCompletion(call),
  "/responses": (call, simulation) => createResponse(call, simulation.store),
  "/responses/input_tokens": (call) => countInputTokens(call),
  "/responses/compact": (call, simulation) => compact(call, simulation.store),
  "/messages": (call, simulation) => createMessage(call, simulation),
  "/messages/count_tokens": (call) => countMessageTokens(call),
  "/embeddings": (call) => embeddings(call),
  "/images/generations": (call) => images(call, "image_generation", 0),
  "/images/edits": (call, _simulation, uploads) => images(call, "image_edit", uploads),
};

const MODELS = ["sim-fast", "sim-reason", "sim-tools", "sim-embed", "sim-image"] as const;
const MODELS_CREATED_AT = 1_767_225_600;

/** Upgrades a request to a WebSocket; returns false when that is not possible. */
export type Upgrade = (request: Request, socket: SimulatedSocket, headers: Record<string, string>) => boolean;

/** Returns undefined when the request was upgraded to a WebSocket. */
export async function handle(
  request: Request,
  simulation: Simulation,
  upgrade: Upgrade | null = null,
): Promise<Response | undefined> {
  const url = request.url;
  const pathAt = url.indexOf("/", url.indexOf("//") + 2);
  const queryAt = url.indexOf("?", pathAt);
  const path = queryAt < 0 ? url.slice(pathAt) : url.slice(pathAt, queryAt);
  const query = queryAt < 0 ? "" : url.slice(queryAt + 1);

  if (path === "/token") return simulation.tokenIssuer.respond(request);
  const refused = checkCredential(request.headers, path, simulation);
  if (refused !== null) return refused;
  if (path.startsWith("/__")) return respondToControl(request, path, simulation);

  const inPath = request.method === "POST" ? findModelPath(path) : null;
  if (inPath !== null) return handleModelPath(request, inPath, { path, query }, simulation);
  const route = parsePath(path, query);
  if (upgrade !== null && route?.path === "/responses" && request.headers.has("sec-websocket-key")) {
    return handleUpgrade(request, path, simulation, upgrade);
  }
  const endpoint = request.method === "POST" && route !== null ? POST_ENDPOINTS[route.path] : undefined;
  if (endpoint === undefined || route === null) return respondOther(request, path, route, query, simulation);

  if (simulation.tokens.ready !== null) await simulation.tokens.ready;
  const body = await readBody(request, simulation.ledger.full);
  const fields = topLevelFields(body.text);
  const model = readModel(route, fields);
  const behaviour = readBehaviour(model ?? "");
  const fault = forcedFault(simulation) ?? behaviour.fault;
  const requestId = simulation.newId(REQUEST_ID);
  const { headers } = request;
  const entry = openEntry(
    { id: requestId, path, headers, model: model ?? "", body, socket: null },
    simulation,
  );
  entry.stream = fields?.get("stream") === "true";
  simulation.ledger.open(entry);
  const { clock, ledger, tokens } = simulation;
  const api = isMessages(path) ? "messages" : "openai";
  const delivery: Delivery = { request, api, behaviour, fault, entry, ledger, tokens, requestId, clock };
  return deliver(delivery, () => {
    if (fields === null) return notJson();
    if (model === null) return missing("model");
    const call: Call = {
      fields,
      headers,
      behaviour,
      fault,
      seed: simulation.seed,
      createdAt: Math.floor(entry.at / 1_000),
      newId: simulation.newId,
      promptCache: simulation.promptCache,
      tokens: simulation.tokens,
    };
    return endpoint(call, simulation, body.form === null ? 0 : countUploads(body));
  });
}

/** A call whose path has the model and decides whether to stream. */
interface ModelPath {
  readonly api: SimulatedApi;
  readonly model: string;
  readonly streams: boolean;
  respond(call: Call, query: string, simulation: Simulation): Reply;
}

function findModelPath(path: string): ModelPath | null {
  const cloud = parseCloudPath(path);
  if (cloud !== null) {
    const { model, streams, host, api } = cloud;
    const respond: ModelPath["respond"] = (call, query, simulation) =>
      respondCloud(call, cloud, query, simulation);
    return { api: host === "bedrock" ? "bedrock" : api, model, streams, respond };
  }
  const gemini = parseGeminiPath(path);
  if (gemini === null) return null;
  return {
    api: "gemini",
    model: gemini.model,
    streams: streams(gemini),
    respond: (call, query) => respondGemini(call, gemini, query),
  };
}

async function handleModelPath(
  request: Request,
  target: ModelPath,
  { path, query }: { readonly path: string; readonly query: string },
  simulation: Simulation,
): Promise<Response> {
  if (simulation.tokens.ready !== null) await simulation.tokens.ready;
  const body = await readBody(request, simulation.ledger.full);
  const fields = topLevelFields(body.text);
  const { api, model } = target;
  const { headers } = request;
  const { clock, ledger, tokens } = simulation;
  const behaviour = readBehaviour(model);
  const fault = forcedFault(simulation) ?? behaviour.fault;
  const requestId = simulation.newId(REQUEST_ID);
  const entry = openEntry({ id: requestId, path, headers, model, body, socket: null }, simulation);
  entry.stream = target.streams;
  ledger.open(entry);
  const delivery: Delivery = { request, api, behaviour, fault, entry, ledger, tokens, requestId, clock };
  return deliver(delivery, () => {
    if (fields === null) return notJson();
    const { seed, newId, promptCache } = simulation;
    const createdAt = Math.floor(entry.at / 1_000);
    const call: Call = { fields, headers, behaviour, fault, seed, createdAt, newId, promptCache, tokens };
    return target.respond(call, query, simulation);
  });
}

/** Returns the response to a caller without a valid credential, or null. */
function checkCredential(headers: Headers, path: string, simulation: Simulation): Response | null {
  const bearer = /^bearer\s+(.+)$/i.exec(headers.get("authorization") ?? "")?.[1] ?? null;
  if (needsAccessToken(path)) {
    const message =
      "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential.";
    return simulation.tokenIssuer.isValid(bearer)
      ? null
      : rejectionResponse(googleRejection(401, message), simulation);
  }
  if (simulation.credential === null) return null;
  const isBedrock = parseCloudPath(path) !== null || path === "/inference-profiles";
  const credential = isBedrock ? bearer : readCredential(headers);
  return credential === simulation.credential ? null : unauthorised(credential, path, simulation);
}

function handleUpgrade(
  request: Request,
  path: string,
  simulation: Simulation,
  upgrade: Upgrade,
): Response | undefined {
  const { headers } = request;
  const requestId = simulation.newId(REQUEST_ID);
  const rejection = rejectUpgrade(simulation, readCredential(headers) ?? "");
  if (rejection !== null) {
    const rejectionHeaders = {
      "content-type": "application/json",
      "x-request-id": requestId,
      ...rejection.headers,
    };
    return new Response(rejection.body, { status: rejection.status, headers: rejectionHeaders });
  }
  const isCanary = simulation.forced?.fault.name === "canary-ok";
  const responseHeaders = isCanary
    ? canaryHeaders(readCredential(headers) ?? "")
    : { "x-request-id": requestId };
  // Copied, because the runtime invalidates the request's headers after the upgrade.
  if (upgrade(request, new SimulatedSocket(simulation, path, new Headers(headers)), responseHeaders))
    return undefined;
  return new Response("Not a WebSocket handshake.", { status: 400 });
}

function rejectUpgrade(simulation: Simulation, credential: string): Rejection | null {
  const fault = forcedFault(simulation, true);
  if (fault === null) return null;
  const status = fault.status ?? 426;
  const name = fault.name === "upgrade-canary" ? "canary" : String(status);
  const faultReply = earlyFault(
    { ...fault, name },
    { streams: true, nowMs: simulation.clock.nowMs(), credential },
  );
  // A status that no other fault has.
  if (faultReply === null || typeof faultReply === "string" || faultReply.status !== status) {
    return createRejection(status, { message: "WebSocket is not supported here." });
  }
  return faultReply;
}

function unauthorised(credential: string | null, path: string, simulation: Simulation): Response {
  const api = parseCloudPath(path) !== null || path === "/inference-profiles" ? "bedrock" : findApi(path);
  return rejectionResponse(REJECTIONS[api](badCredential(credential)), simulation);
}

function findApi(path: string): SimulatedApi {
  if (isMessages(path)) return "messages";
  return isGeminiPath(path) ? "gemini" : "openai";
}

function rejectionResponse({ status, body, headers }: Rejection, simulation: Simulation): Response {
  const own = { "content-type": "application/json", "x-request-id": simulation.newId(REQUEST_ID) };
  return new Response(body, { status, headers: { ...own, ...headers } });
}

interface RequestPath {
  /** The path after `/v1`, in any notation. */
  path: string;
  /** The model of an Azure deployment path. */
  deployment: string | null;
}

/** Parses OpenAI's paths and Azure's three notations of them. */
function parsePath(path: string, query: string): RequestPath | null {
  if (path.startsWith("/v1/")) return { path: path.slice(3), deployment: null };
  if (path.startsWith("/openai/v1/")) return { path: path.slice("/openai/v1".length), deployment: null };
  if (!path.startsWith("/openai/") || !/(?:^|&)api-version=[^&]/.test(query)) return null;
  const match = /^\/openai\/deployments\/([^/]+)(\/.*)$/.exec(path);
  if (match === null) return { path: path.slice("/openai".length), deployment: null };
  return { path: match[2] ?? "", deployment: decodePart(match[1] ?? "") };
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function readModel(route: RequestPath, fields: JsonFields | null): string | null {
  if (route.deployment !== null) return route.deployment;
  const modelField = fields === null ? null : stringField(fields, "model");
  return modelField ?? (route.path.startsWith("/images/") ? "sim-image" : null);
}

function countUploads(body: RequestBody): number {
  return body.form?.files.filter((file) => file.name === "image" || file.name === "image[]").length ?? 0;
}

/** Handles requests without a model in their body: lists, stored responses, unknown URLs. */
async function respondOther(
  request: Request,
  path: string,
  route: RequestPath | null,
  query: string,
  simulation: Simulation,
): Promise<Response> {
  const requestId = simulation.newId(REQUEST_ID);
  const { headers } = request;
  const entry = openEntry({ id: requestId, path, headers, model: "", body: null, socket: null }, simulation);
  simulation.ledger.open(entry);
  const delivery: Delivery = {
    request,
    api: findApi(path),
    behaviour: null,
    fault: forcedFault(simulation),
    entry,
    ledger: simulation.ledger,
    tokens: simulation.tokens,
    requestId,
    clock: simulation.clock,
  };
  return deliver(delivery, () =>
    otherReply(request.method, path, route, new URLSearchParams(query), simulation),
  );
}

function otherReply(
  method: string,
  path: string,
  route: RequestPath | null,
  query: URLSearchParams,
  simulation: Simulation,
): Reply {
  const cloudList = method === "GET" ? respondCloudList(path) : null;
  if (cloudList !== null) return cloudList;
  if (method === "GET" && path.startsWith("/v1beta/models")) return respondGeminiList(path, MODELS);
  if (route === null) return unknownUrl(method, path);
  if (route.path === "/models") return method === "GET" ? modelList() : methodNotAllowed(method, path, "GET");
  if (route.path.startsWith("/models/")) {
    if (method !== "GET") return methodNotAllowed(method, path, "GET");
    return oneModel(decodePart(route.path.slice("/models/".length)));
  }
  if (POST_ENDPOINTS[route.path] !== undefined) return methodNotAllowed(method, path, "POST");
  const stored = /^\/responses\/([^/]+)(?:\/(cancel|input_items))?$/.exec(route.path);
  if (stored === null) return unknownUrl(method, path);
  const reply = storedResponse(simulation.store, method, stored[1] ?? "", stored[2] ?? null, query);
  return reply ?? methodNotAllowed(method, path, stored[2] === "cancel" ? "POST" : "GET, DELETE");
}

function modelList(): Reply {
  return jsonReply(
    `{"object":"list","data":[${MODELS.map(modelObject).join(",")}],"has_more":false,"first_id":"${MODELS[0]}","last_id":"${MODELS.at(-1)}"}`,
    NO_USAGE,
  );
}

function oneModel(id: string): Reply {
  const isKnown = id.startsWith("sim-") || id.startsWith("fault/");
  return isKnown ? jsonReply(modelObject(id), NO_USAGE) : unknownModel(id);
}

function modelObject(id: string): string {
  return JSON.stringify({
    id,
    object: "model",
    type: "model",
    display_name: id,
    created: MODELS_CREATED_AT,
    created_at: "2026-01-01T00:00:00Z",
    owned_by: "simulator",
  });
}
