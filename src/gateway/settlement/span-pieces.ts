/** The attributes that many requests share, written once: by endpoint, caller, model, client and route. */

import { KINDS } from "../../accounts/kinds/table.ts";
import type { AccountRoute, PublishedModel } from "../../policy/snapshot.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import { findProvider, OPERATION_BY_INTERFACE } from "../../telemetry/attribute-names.ts";
import {
  boolAttribute,
  intAttribute,
  SPAN_KIND,
  SpanHead,
  stringAttribute,
  toBytes,
} from "../../telemetry/span-text.ts";
import type { Caller } from "../admission/authenticate.ts";
import type { AttemptTrace } from "../request/trace.ts";

/** Remembers the bytes of the last values: nearly all requests of an endpoint end alike. */
export class LastPiece<Values extends readonly unknown[]> {
  readonly #write: (...values: Values) => string;
  #values: Values | null = null;
  #piece: Uint8Array = NO_BYTES;

  constructor(write: (...values: Values) => string) {
    this.#write = write;
  }

  get(...values: Values): Uint8Array {
    const last = this.#values;
    if (last === null || !isSame(values, last)) {
      this.#values = values;
      this.#piece = toBytes(this.#write(...values));
    }
    return this.#piece;
  }
}

const NO_BYTES = new Uint8Array();

function isSame(values: readonly unknown[], last: readonly unknown[]): boolean {
  for (let i = 0; i < values.length; i++) if (values[i] !== last[i]) return false;
  return true;
}

export class EndpointPieces {
  readonly head: SpanHead;
  /** The attributes of the endpoint and of the end of a request. */
  readonly ending: LastPiece<[status: number, outcome: string, attempts: number]>;

  constructor({ path }: Endpoint) {
    const route = `/v1${path}`;
    this.head = new SpanHead(`POST ${route}`, SPAN_KIND.server);
    const fixed =
      stringAttribute("httpMethod", "POST") +
      stringAttribute("httpRoute", route) +
      stringAttribute("urlPath", route);
    this.ending = new LastPiece(
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

const callers = new WeakMap<Caller["key"], LastPiece<[group: string]>>();

export function callerAttributes({ key, group }: Caller): Uint8Array {
  let piece = callers.get(key);
  if (piece === undefined) {
    const user = key.userId === null ? "" : stringAttribute("userId", key.userId);
    const fixed = stringAttribute("keyId", key.publicId) + user;
    piece = new LastPiece((name) => fixed + stringAttribute("group", name));
    callers.set(key, piece);
  }
  return piece.get(group.name);
}

const models = new WeakMap<PublishedModel, Uint8Array>();

export function modelAttribute(model: PublishedModel): Uint8Array {
  let piece = models.get(model);
  if (piece === undefined) {
    piece = toBytes(stringAttribute("publicModel", model.id));
    models.set(model, piece);
  }
  return piece;
}

const userAgents = new Map<string, Uint8Array>();
const USER_AGENTS_MAX = 256;

/** Clients control the values, so their number is bounded. */
export function userAgentAttribute(userAgent: string): Uint8Array {
  const known = userAgents.get(userAgent);
  if (known !== undefined) return known;
  const piece = toBytes(stringAttribute("userAgent", userAgent));
  if (userAgents.size >= USER_AGENTS_MAX) userAgents.clear();
  if (userAgent.length <= USER_AGENT_CHARS_MAX) userAgents.set(userAgent, piece);
  return piece;
}

const USER_AGENT_CHARS_MAX = 256;

export class RoutePieces {
  readonly head: SpanHead;
  /** The attributes of the route and of an attempt. */
  readonly attempt: LastPiece<[attempt: number, status: number | null, isStream: boolean]>;

  constructor({ interface: name }: Endpoint, attempt: AttemptTrace, route: AccountRoute | null) {
    const operation = OPERATION_BY_INTERFACE[name];
    this.head = new SpanHead(`${operation.name} ${attempt.upstreamModel}`, SPAN_KIND.client);
    const fixed =
      stringAttribute("operation", operation.name) +
      stringAttribute("requestModel", attempt.upstreamModel) +
      stringAttribute("account", attempt.accountName) +
      (operation.outputType === null ? "" : stringAttribute("outputType", operation.outputType)) +
      (route === null ? "" : addressAttributes(route));
    this.attempt = new LastPiece(
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
    stringAttribute("provider", KINDS[account.kind].provider ?? findProvider(account.kind, hostname)) +
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
