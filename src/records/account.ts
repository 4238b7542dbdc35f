/** An account at an upstream as it is stored. */

import {
  address,
  choice,
  flag,
  identity,
  integer,
  interfaceList,
  internal,
  optionalText,
  profile,
  type RecordOf,
  rateLimits,
  text,
  textMap,
} from "./fields.ts";

export const ACCOUNT_KINDS = [
  "openai",
  "azure",
  "anthropic",
  "bedrock",
  "gemini",
  "vertex",
  "simulator",
] as const;
export type AccountKind = (typeof ACCOUNT_KINDS)[number];

/** An account: a credential at an upstream, and how to reach it. In the order of the file. */
export const ACCOUNT_FIELDS = {
  id: internal(text),
  name: identity,
  kind: choice(ACCOUNT_KINDS),
  /** The vendor of an OpenAI-compatible API. */
  vendor: optionalText,
  /** What differs from the capability profile of the kind or vendor, with the names of the configuration file. */
  profile,
  /** Without a trailing slash. Empty for the built-in simulator, whose port is known only at run time. */
  baseUrl: address,
  /** AES-256-GCM, bound to this row; null if the upstream needs no credential. */
  sealedCredential: internal(optionalText),
  interfaces: interfaceList,
  websocket: flag(
    false,
    "whether the upstream's `/responses` accepts WebSocket. Turns that arrive over a WebSocket are then sent over one. If the upstream rejects it, HTTP is used for ten minutes and `websocket_unsupported` is logged; `doctor` checks it in advance",
    "requires `responses` in `interfaces`",
  ),
  /** Azure only: the dated API version; null uses the undated v1 API. */
  apiVersion: optionalText,
  /** Amazon Bedrock and Google Vertex AI only: where the models run. */
  region: optionalText,
  /** Google Vertex AI only; null uses the project of the service account. */
  project: optionalText,
  propagateTrace: flag(
    false,
    "whether the upstream receives the W3C trace context (`traceparent`, `tracestate`) of requests, see [Traces](observability.md#traces). Only while `telemetry` exports spans; `baggage` is never sent",
  ),
  privateNetwork: flag(
    false,
    "allows loopback and private addresses; can be set only in this file",
    "not for `simulator`",
  ),
  priority: integer,
  weight: integer,
  /** The limits that the upstream grants this credential. */
  limits: rateLimits,
  /** Public model → upstream model; a `*` at the end of both matches the rest. */
  models: textMap,
  enabled: flag(true, "whether the account is used"),
  createdAtMs: internal(integer),
};

export interface AccountRecord extends RecordOf<typeof ACCOUNT_FIELDS> {}
