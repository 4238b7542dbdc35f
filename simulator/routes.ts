import { chatCompletion } from "./chat.ts";
import { answerControl } from "./control.ts";
import { credentialOf, type Delivery, deliver } from "./delivery.ts";
import { embeddings } from "./embeddings.ts";
import type { Call } from "./endpoint.ts";
import { forcedFault, openEntry, REQUEST_ID } from "./entry.ts";
import {
  badCredential,
  methodNotAllowed,
  missing,
  notJson,
  type Refusal,
  refusal,
  unknownModel,
  unknownUrl,
} from "./errors.ts";
import { canaryHeaders, earlyFault } from "./faults.ts";
import { images } from "./images.ts";
import { type JsonFields, stringField, topLevelFields } from "./json-fields.ts";
import { behaviourOf } from "./model-name.ts";
import { jsonReply, NO_USAGE, type Reply } from "./reply.ts";
import { type RequestBody, readBody } from "./request-body.ts";
import { compact, countInputTokens, createResponse, storedResponse } from "./responses.ts";
import type { Simulation } from "./simulation.ts";
import { SimulatedSocket } from "./socket.ts";

type PostEndpoint = (call: Call, simulation: Simulation, uploads: number) => Reply;

const POST_ENDPOINTS: Readonly<Record<string, PostEndpoint>> = {
  "/chat/completions": (call) => chatCompletion(call),
  "/responses": (call, simulation) => createResponse(call, simulation.store),
  "/responses/input_tokens": (call) => countInputTokens(call),
  "/responses/compact": (call, simulation) => compact(call, simulation.store),
  "/embeddings": (call) => embeddings(call),
  "/images/generations": (call) => images(call, "image_generation", 0),
  "/images/edits": (call, _simulation, uploads) => images(call, "image_edit", uploads),
};

const MODELS = ["sim-fast", "sim-reason", "sim-tools", "sim-embed", "sim-image"] as const;
const MODELS_CREATED_AT = 1_767_225_600;

/** Makes a WebSocket of a request; false when it cannot be one. */
export type Upgrade = (request: Request, socket: SimulatedSocket, headers: Record<string, string>) => boolean;

/** Undefined when the request has become a WebSocket. */
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

  if (simulation.credential !== null) {
    const credential = credentialOf(request.headers);
    if (credential !== simulation.credential) return unauthorised(credential, simulation);
  }
  if (path.startsWith("/__")) return answerControl(request, path, simulation);

  const place = placeOf(path, query);
  if (upgrade !== null && place?.path === "/responses" && request.headers.has("sec-websocket-key")) {
    return shakeHands(request, path, simulation, upgrade);
  }
  const endpoint = request.method === "POST" && place !== null ? POST_ENDPOINTS[place.path] : undefined;
  if (endpoint === undefined || place === null) return answerOther(request, path, place, query, simulation);

  if (simulation.tokens.ready !== null) await simulation.tokens.ready;
  const body = await readBody(request, simulation.ledger.full);
  const fields = topLevelFields(body.text);
  const model = modelOf(place, fields);
  const behaviour = behaviourOf(model ?? "");
  const fault = forcedFault(simulation) ?? behaviour.fault;
  const requestId = simulation.newId(REQUEST_ID);
  const { headers } = request;
  const entry = openEntry(
    { id: requestId, path, headers, model: model ?? "", body, socket: null },
    simulation,
  );
  entry.stream = fields?.get("stream") === "true";
  simulation.ledger.open(entry);
  const nowMs = entry.at;
  const { ledger, tokens } = simulation;
  const delivery = { request, behaviour, fault, entry, ledger, tokens, requestId, nowMs };
  return deliver(delivery, () => {
    if (fields === null) return notJson();
    if (model === null) return missing("model");
    const call: Call = {
      fields,
      behaviour,
      fault,
      seed: simulation.seed,
      createdAt: Math.floor(nowMs / 1_000),
      newId: simulation.newId,
      promptCache: simulation.promptCache,
      tokens: simulation.tokens,
    };
    return endpoint(call, simulation, body.form === null ? 0 : uploadsIn(body));
  });
}

function shakeHands(
  request: Request,
  path: string,
  simulation: Simulation,
  upgrade: Upgrade,
): Response | undefined {
  const { headers } = request;
  const requestId = simulation.newId(REQUEST_ID);
  const refused = refusedUpgrade(simulation, credentialOf(headers) ?? "");
  if (refused !== null) {
    const told = { "content-type": "application/json", "x-request-id": requestId, ...refused.headers };
    return new Response(refused.body, { status: refused.status, headers: told });
  }
  const isCanary = simulation.forced?.fault.name === "canary-ok";
  const given = isCanary ? canaryHeaders(credentialOf(headers) ?? "") : { "x-request-id": requestId };
  // Copied: the runtime takes the request's own back when it has become a WebSocket.
  if (upgrade(request, new SimulatedSocket(simulation, path, new Headers(headers)), given)) return undefined;
  return new Response("Not a WebSocket handshake.", { status: 400 });
}

function refusedUpgrade(simulation: Simulation, credential: string): Refusal | null {
  const fault = forcedFault(simulation, true);
  if (fault === null) return null;
  const status = fault.status ?? 426;
  const name = fault.name === "upgrade-canary" ? "canary" : String(status);
  const named = earlyFault(
    { ...fault, name },
    { streams: true, nowMs: simulation.clock.nowMs(), credential },
  );
  // Statuses that no other fault has.
  if (named === null || typeof named === "string" || named.status !== status) {
    return refusal(status, { message: "WebSocket is not spoken here." });
  }
  return named;
}

function unauthorised(credential: string | null, simulation: Simulation): Response {
  const { status, body } = badCredential(credential);
  const headers = { "content-type": "application/json", "x-request-id": simulation.newId(REQUEST_ID) };
  return new Response(body, { status, headers });
}

interface Place {
  /** After `/v1`, whichever way it was written. */
  path: string;
  /** The model of an Azure deployment path. */
  deployment: string | null;
}

/** OpenAI's paths and Azure's three ways to write them. */
function placeOf(path: string, query: string): Place | null {
  if (path.startsWith("/v1/")) return { path: path.slice(3), deployment: null };
  if (path.startsWith("/openai/v1/")) return { path: path.slice("/openai/v1".length), deployment: null };
  if (!path.startsWith("/openai/") || !/(?:^|&)api-version=[^&]/.test(query)) return null;
  const match = /^\/openai\/deployments\/([^/]+)(\/.*)$/.exec(path);
  if (match === null) return { path: path.slice("/openai".length), deployment: null };
  return { path: match[2] ?? "", deployment: decoded(match[1] ?? "") };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function modelOf(place: Place, fields: JsonFields | null): string | null {
  if (place.deployment !== null) return place.deployment;
  const named = fields === null ? null : stringField(fields, "model");
  return named ?? (place.path.startsWith("/images/") ? "sim-image" : null);
}

function uploadsIn(body: RequestBody): number {
  return body.form?.files.filter((file) => file.name === "image" || file.name === "image[]").length ?? 0;
}

/** Everything that names no model in its body: lists, stored responses, wrong addresses. */
async function answerOther(
  request: Request,
  path: string,
  place: Place | null,
  query: string,
  simulation: Simulation,
): Promise<Response> {
  const requestId = simulation.newId(REQUEST_ID);
  const { headers } = request;
  const entry = openEntry({ id: requestId, path, headers, model: "", body: null, socket: null }, simulation);
  simulation.ledger.open(entry);
  const delivery: Delivery = {
    request,
    behaviour: null,
    fault: forcedFault(simulation),
    entry,
    ledger: simulation.ledger,
    tokens: simulation.tokens,
    requestId,
    nowMs: entry.at,
  };
  return deliver(delivery, () =>
    otherReply(request.method, path, place, new URLSearchParams(query), simulation),
  );
}

function otherReply(
  method: string,
  path: string,
  place: Place | null,
  query: URLSearchParams,
  simulation: Simulation,
): Reply {
  if (place === null) return unknownUrl(method, path);
  if (place.path === "/models") return method === "GET" ? modelList() : methodNotAllowed(method, path, "GET");
  if (place.path.startsWith("/models/")) {
    if (method !== "GET") return methodNotAllowed(method, path, "GET");
    return oneModel(decoded(place.path.slice("/models/".length)));
  }
  if (POST_ENDPOINTS[place.path] !== undefined) return methodNotAllowed(method, path, "POST");
  const stored = /^\/responses\/([^/]+)(?:\/(cancel|input_items))?$/.exec(place.path);
  if (stored === null) return unknownUrl(method, path);
  const reply = storedResponse(simulation.store, method, stored[1] ?? "", stored[2] ?? null, query);
  return reply ?? methodNotAllowed(method, path, stored[2] === "cancel" ? "POST" : "GET, DELETE");
}

function modelList(): Reply {
  return jsonReply(`{"object":"list","data":[${MODELS.map(modelObject).join(",")}]}`, NO_USAGE);
}

function oneModel(id: string): Reply {
  const isKnown = id.startsWith("sim-") || id.startsWith("fault/");
  return isKnown ? jsonReply(modelObject(id), NO_USAGE) : unknownModel(id);
}

function modelObject(id: string): string {
  return JSON.stringify({ id, object: "model", created: MODELS_CREATED_AT, owned_by: "simulator" });
}
