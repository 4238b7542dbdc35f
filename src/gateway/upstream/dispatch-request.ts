/** The input of dispatch: one admitted request and everything that decides which account it is sent to. */

import type { UpstreamLane } from "../../accounts/websocket/client.ts";
import type { RequestCapture } from "../../capture/request-capture.ts";
import type { LimitLease } from "../../limits/limiter-types.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import { readSession } from "../../protocols/shared/conversation-name.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import type { KnownPrefix, ModelRequest } from "../../protocols/shared/request.ts";
import type { StreamReader } from "../../protocols/shared/stream.ts";
import type { QueueSettings } from "../../records/group.ts";
import type { OutputCap } from "../charging/output-cap.ts";
import type { SearchCap } from "../charging/search-cap.ts";
import type { Trace } from "../request/trace.ts";
import type { ConversationSeals } from "../translation/sealed-conversation.ts";
import type { TranslatedAttempt, Translator } from "../translation/translated-attempt.ts";
import type { Retries } from "./retry-budget.ts";
import type { Client } from "./send-request.ts";

/** A turn on a client's WebSocket, with what an upstream WebSocket may remember of earlier ones. */
export interface SocketTurn {
  readonly upstreamLane: UpstreamLane;
  /** The part of the request body that the upstream already has; null if all of it is new. */
  readonly knownPrefix: KnownPrefix | null;
}

export interface DispatchStep {
  readonly number: number;
  /** The name of its group. */
  readonly group: string;
  readonly attemptsMax: number;
  /** Shared by all steps, and closed after the last one. */
  readonly retries: Retries;
}

export interface DispatchRequest {
  requestId: string;
  keyId: string;
  /** Throws if the key is no longer valid: the request may have waited for long. */
  requireKey(): void;
  groupId: string;
  queue: QueueSettings;
  endpoint: Endpoint;
  request: ModelRequest;
  /** The reservation of the caller's limits. */
  lease: LimitLease;
  /** The output cap that the gateway sets if the client's own limit is missing or too high. */
  cap: OutputCap | null;
  /** The limit of web searches that the gateway sets if the client's own limit is missing or too high. */
  searchCap: SearchCap | null;
  routes: readonly AccountRoute[];
  /** Keeps a conversation on its account. Scoped to the key, so that keys do not share conversations. */
  affinity: string | null;
  /** The opaque state that the conversation carries; null if it carries none. */
  seals: ConversationSeals | null;
  clientHeaders: HeaderReader;
  /** The turn on a WebSocket; null for HTTP. */
  socketTurn: SocketTurn | null;
  client: Client;
  /** Opens a new reader for each attempt: events of a failed attempt do not count. Null if nothing is translated. */
  openReader(translated: TranslatedAttempt | null): StreamReader;
  /** Translates the request for accounts of another dialect. Created when the first of them is tried. */
  openTranslator(): Translator;
  /** The gateway keeps the conversation, so every account needs the request written anew. */
  continuesStored: boolean;
  /** A hold exists: billing records which account the request is sent to. */
  isCharged: boolean;
  /** What the steps of a request with fallback share; null without fallback. */
  step: DispatchStep | null;
  /** Null unless the request is captured. */
  capture: RequestCapture | null;
  /** Filled during dispatch, for the usage row. */
  trace: Trace;
}

/** The affinity includes the key id, so that keys share neither conversations nor their accounts. */
export function computeAffinity(keyId: string, headers: HeaderReader, request: ModelRequest): string | null {
  const name = nameConversation(headers, request);
  return name === null ? null : `${keyId} ${name}`;
}

export function nameConversation(headers: HeaderReader, request: ModelRequest): string | null {
  const name = readSession(headers) ?? request.conversationName();
  if (name === null) return null;
  // The pool stores names, and the client controls their length, so long names are hashed.
  return name.length > NAME_CHARS_MAX ? Bun.hash(name).toString(36) : name;
}

const NAME_CHARS_MAX = 64;
