/** The parts of spans that many requests share, written once: by endpoint, caller, model, client and route. */

import type { AccountRoute, PublishedModel } from "../../policy/snapshot.ts";
import type { Endpoint } from "../../protocols/shared/request.ts";
import { findProvider, OPERATION_BY_INTERFACE } from "../../telemetry/attribute-names.ts";
import {
  boolAttribute,
  flatText,
  intAttribute,
  SPAN_KIND,
  SpanHead,
  stringAttribute,
} from "../../telemetry/span-text.ts";
import type { Caller } from "../admission/authenticate.ts";
import type { AttemptTrace } from "../request/trace.ts";

/** Remembers the text of the last values: nearly all requests of an endpoint end alike. */
export class LastText<Values extends readonly unknown[]> {
  readonly #write: (...values: Values) => string;
  #values: Values | null = null;
  #text = "";

  constructor(write: (...values: Values) => string) {
    this.#write = write;
  }

  get(...values: Values): string {
    const last = this.#values;
    if (last === null || !isSame(values, last)) {
      this.#values = values;
      this.#text = flatText(this.#write(...values));
    }
    return this.#text;
  }
}

function isSame(values: readonly unknown[], last: readonly unknown[]): boolean {
  for (let i = 0; i < values.length; i++) if (values[i] !== last[i]) return false;
  return true;
}

export class EndpointPieces {
  readonly head: SpanHead;
  /** The attributes of the endpoint and of the end of a request. */
  readonly ending: LastText<[status: number, outcome: string, attempts: number]>;

  constructor({ path }: Endpoint) {
    const route = `/v1${path}`;
    this.head = new SpanHead(`POST ${route}`, SPAN_KIND.server);
    const fixed =
      stringAttribute("httpMethod", "POST") +
      stringAttribute("httpRoute", route) +
      stringAttribute("urlPath", route);
    this.ending = new LastText(
      (status, outcome, attempts) =>
        fixed +
        intAttribute("httpStatus", status) +
        stringAttribute("outcome", outcome) +
        intAttribute("attempts", attempts),
    );
  }
}

const endpoints = new Map<string, EndpointPieces>();

export function endpointPieces(endpoint: Endpoint): EndpointPieces {
  let pieces = endpoints.get(endpoint.name);
  if (pieces === undefined) {
    pieces = new EndpointPieces(endpoint);
    endpoints.set(endpoint.name, pieces);
  }
  return pieces;
}

const callers = new WeakMap<Caller["key"], LastText<[group: string]>>();

export function callerAttributes({ key, group }: Caller): string {
  let text = callers.get(key);
  if (text === undefined) {
    const user = key.userId === null ? "" : stringAttribute("userId", key.userId);
    const fixed = stringAttribute("keyId", key.publicId) + user;
    text = new LastText((name) => fixed + stringAttribute("group", name));
    callers.set(key, text);
  }
  return text.get(group.name);
}

const models = new WeakMap<PublishedModel, string>();

export function modelAttribute(model: PublishedModel): string {
  let text = models.get(model);
  if (text === undefined) {
    text = flatText(stringAttribute("publicModel", model.id));
    models.set(model, text);
  }
  return text;
}

const userAgents = new Map<string, string>();
const USER_AGENTS_MAX = 256;

/** Clients control the values, so the number of texts is bounded. */
export function userAgentAttribute(userAgent: string): string {
  const known = userAgents.get(userAgent);
  if (known !== undefined) return known;
  const text = flatText(stringAttribute("userAgent", userAgent));
  if (userAgents.size >= USER_AGENTS_MAX) userAgents.clear();
  if (userAgent.length <= USER_AGENT_CHARS_MAX) userAgents.set(userAgent, text);
  return text;
}

const USER_AGENT_CHARS_MAX = 256;

export class RoutePieces {
  readonly head: SpanHead;
  /** The attributes of the route and of an attempt. */
  readonly attempt: LastText<[attempt: number, status: number | null, isStream: boolean]>;

  constructor({ interface: name }: Endpoint, attempt: AttemptTrace, route: AccountRoute | null) {
    const operation = OPERATION_BY_INTERFACE[name];
    this.head = new SpanHead(`${operation.name} ${attempt.upstreamModel}`, SPAN_KIND.client);
    const fixed =
      stringAttribute("operation", operation.name) +
      stringAttribute("requestModel", attempt.upstreamModel) +
      stringAttribute("account", attempt.accountName) +
      (operation.outputType === null ? "" : stringAttribute("outputType", operation.outputType)) +
      (route === null ? "" : addressAttributes(route));
    this.attempt = new LastText(
      (number, status, isStream) =>
        fixed +
        intAttribute("attempt", number) +
        (status === null ? "" : intAttribute("httpStatus", status)) +
        boolAttribute("requestStream", isStream),
    );
  }
}

function addressAttributes({ account }: AccountRoute): string {
  const { hostname, port, protocol } = new URL(account.baseUrl);
  const usualPort = protocol === "https:" ? 443 : 80;
  return (
    stringAttribute("provider", findProvider(account.kind, hostname)) +
    stringAttribute("serverAddress", hostname) +
    intAttribute("serverPort", port === "" ? usualPort : Number(port))
  );
}

/** The same routes serve nearly all requests. */
const routes = new WeakMap<AccountRoute, Map<string, RoutePieces>>();

/** `route` is null if the policy has changed since the attempt. */
export function routePieces(
  endpoint: Endpoint,
  attempt: AttemptTrace,
  route: AccountRoute | null,
): RoutePieces {
  if (route === null) return new RoutePieces(endpoint, attempt, null);
  let byInterface = routes.get(route);
  if (byInterface === undefined) {
    byInterface = new Map();
    routes.set(route, byInterface);
  }
  let pieces = byInterface.get(endpoint.interface);
  if (pieces === undefined) {
    pieces = new RoutePieces(endpoint, attempt, route);
    byInterface.set(endpoint.interface, pieces);
  }
  return pieces;
}
