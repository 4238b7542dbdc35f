/** An account at an upstream as it is stored. */

import { INTERFACES, type Interface } from "./interfaces.ts";
import type { RateLimits } from "./limits.ts";

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

/** The interfaces of an account whose configuration names none. */
export const DEFAULT_INTERFACES: Readonly<Record<AccountKind, readonly Interface[]>> = {
  openai: ["chat", "responses", "embeddings", "images"],
  azure: ["chat", "responses", "embeddings", "images"],
  anthropic: ["messages"],
  bedrock: ["messages"],
  gemini: ["gemini", "embeddings"],
  vertex: ["messages", "gemini"],
  simulator: INTERFACES,
};

/** An account: a credential at an upstream, and how to reach it. */
export interface AccountRecord {
  id: string;
  name: string;
  kind: AccountKind;
  /** The vendor of an OpenAI-compatible API; null or absent if none is named. */
  vendor?: string | null;
  /** What differs from the capability profile of the kind or vendor, with the names of the configuration file. */
  profile?: Readonly<Record<string, string | boolean>> | null;
  /** Without a trailing slash. Empty for the built-in simulator, whose port is known only at run time. */
  baseUrl: string;
  /** AES-256-GCM, bound to this row; null if the upstream needs no credential. */
  sealedCredential: string | null;
  interfaces: Interface[];
  /** Whether its `/responses` accepts WebSocket. */
  websocket: boolean;
  /** Azure only: the dated API version; null uses the undated v1 API. */
  apiVersion: string | null;
  /** Amazon Bedrock and Google Vertex AI only: where the models run. */
  region?: string | null;
  /** Google Vertex AI only; null or absent uses the project of the service account. */
  project?: string | null;
  /** Whether its upstream receives the W3C trace context of requests. */
  propagateTrace: boolean;
  /** Whether loopback and private addresses may be dialled. Only the configuration file can allow it. */
  privateNetwork: boolean;
  priority: number;
  weight: number;
  /** Public model → upstream model; a `*` at the end of both matches the rest. */
  models: Record<string, string>;
  /** The limits that the upstream grants this credential. */
  limits: RateLimits;
  enabled: boolean;
  createdAtMs: number;
}
