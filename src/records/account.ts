/** An account at an upstream as it is stored. */

import type { RecordOf } from "./fields.ts";
import * as field from "./fields.ts";

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
  id: field.internal(field.text),
  name: field.identity,
  kind: field.choice(ACCOUNT_KINDS),
  /** The vendor of an OpenAI-compatible API. */
  vendor: field.optionalText,
  /** What differs from the capability profile of the kind or vendor, with the names of the configuration file. */
  profile: field.profile,
  /** Without a trailing slash. Empty for the built-in simulator, whose port is known only at run time. */
  baseUrl: field.address,
  /** AES-256-GCM, bound to this row; null if the upstream needs no credential. */
  sealedCredential: field.internal(field.optionalText),
  interfaces: field.interfaceList,
  websocket: field.flag(
    false,
    "whether the upstream's `/responses` accepts WebSocket. Turns that arrive over a WebSocket are then sent over one, longer ones than 16 MiB by HTTP. If the upstream rejects it, HTTP is used for ten minutes and `websocket_unsupported` is logged; `doctor` checks it in advance",
    "requires `responses` in `interfaces`",
  ),
  /** Azure only: the dated API version; null uses the undated v1 API. */
  apiVersion: field.optionalText,
  /** Amazon Bedrock and Google Vertex AI only: where the models run. */
  region: field.optionalText,
  /** Google Vertex AI only; null uses the project of the service account. */
  project: field.optionalText,
  propagateTrace: field.flag(
    false,
    "whether the upstream receives the W3C trace context (`traceparent`, `tracestate`) of requests, see [Traces](observability.md#traces). Only while `telemetry` exports spans; `baggage` is never sent",
  ),
  privateNetwork: field.flag(
    false,
    "allows loopback and private addresses; can be set only in this file",
    "not for `simulator`",
  ),
  priority: field.integer,
  weight: field.integer,
  /** The limits that the upstream grants this credential. */
  limits: field.rateLimits,
  /** Public model → upstream model; a `*` at the end of both matches the rest. */
  models: field.textMap,
  enabled: field.flag(true, "whether the account is used"),
  createdAtMs: field.internal(field.integer),
};

export interface AccountRecord extends RecordOf<typeof ACCOUNT_FIELDS> {}
