/** The input of dispatch: one admitted request and everything that decides which account it is sent to. */

import type { SocketConversation } from "../../accounts/websocket/client.ts";
import type { RequestCapture } from "../../capture/request-capture.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import { readSession } from "../../protocols/shared/conversation.ts";
import type { Endpoint, KnownConversationPrefix, ModelRequest } from "../../protocols/shared/request.ts";
import type { StreamReader } from "../../protocols/shared/stream.ts";
import type { QueueSettings } from "../../records/group.ts";
import type { OutputCap } from "../charging/output-cap.ts";
import type { Trace } from "../request/trace.ts";
import type { ConversationSeals } from "../translation/sealed-conversation.ts";
import type { TranslatedAttempt, Translator } from "../translation/translated-attempt.ts";
import type { Client } from "./send-request.ts";

/** What an upstream reached by WebSocket may remember of earlier turns. */
export interface Conversation {
  readonly socketConversation: SocketConversation;
  /** The part of the request body that the upstream already has; null if all of it is new. */
  readonly knownPrefix: KnownConversationPrefix | null;
}

export interface DispatchRequest {
  requestId: string;
  keyId: string;
  groupId: string;
  queue: QueueSettings;
  endpoint: Endpoint;
  request: ModelRequest;
  /** The output cap that the gateway sets if the client's own limit is missing or too high. */
  cap: OutputCap | null;
  routes: readonly AccountRoute[];
  /** Keeps a conversation on its account. Scoped to the key, so that keys do not share conversations. */
  affinity: string | null;
  /** The opaque state that the conversation carries; null if it carries none. */
  seals: ConversationSeals | null;
  clientHeaders: HeaderReader;
  /** The conversation of a turn on a WebSocket; null for HTTP. */
  conversation: Conversation | null;
  client: Client;
  /** Opens a new reader for each attempt: events of a failed attempt do not count. Null if nothing is translated. */
  openReader(translated: TranslatedAttempt | null): StreamReader;
  /** Translates the request for accounts of another dialect. Created when the first of them is tried. */
  openTranslator(): Translator;
  /** The gateway keeps the conversation, so every account needs the request written anew. */
  continuesStored: boolean;
  /** A hold exists: billing records which account the request is sent to. */
  isCharged: boolean;
  /** Null unless the request is captured. */
  capture: RequestCapture | null;
  /** Filled during dispatch, for the usage row. */
  trace: Trace;
}

/** The affinity includes the key id, so that keys share neither conversations nor their accounts. */
export function computeAffinity(keyId: string, headers: HeaderReader, request: ModelRequest): string | null {
  const name = conversationName(headers, request);
  return name === null ? null : `${keyId} ${name}`;
}

export function conversationName(headers: HeaderReader, request: ModelRequest): string | null {
  const conversation = readSession(headers) ?? request.conversation();
  if (conversation === null) return null;
  // The pool stores names, and the client controls their length, so long names are hashed.
  return conversation.length > NAME_CHARS_MAX ? Bun.hash(conversation).toString(36) : conversation;
}

const NAME_CHARS_MAX = 64;
