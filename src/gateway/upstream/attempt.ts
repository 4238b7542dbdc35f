/** What dispatch is asked to do: one admitted request, and everything that may decide where it goes. */

import type { SocketConversation } from "../../accounts/websocket/client.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import { readSession } from "../../protocols/shared/conversation.ts";
import type { Endpoint, ModelRequest, UpstreamRejection } from "../../protocols/shared/request.ts";
import type { StreamReader } from "../../protocols/shared/stream.ts";
import type { QueueSettings } from "../../records.ts";
import type { OutputCap } from "../charging/output-cap.ts";
import type { Trace } from "../request/trace.ts";
import type { Client } from "./send-request.ts";

/** What an upstream that is spoken to by socket may remember of the turns before. */
export interface Conversation {
  readonly thread: SocketConversation;
  /** The part of the request's body that was said before; null when all of it is new. */
  readonly heard: UpstreamRejection | null;
}

export interface UpstreamAttempt {
  requestId: string;
  keyId: string;
  groupId: string;
  queue: QueueSettings;
  endpoint: Endpoint;
  request: ModelRequest;
  /** The bound that we put on its answer, where the client's own does not suffice. */
  cap: OutputCap | null;
  routes: readonly AccountRoute[];
  /** Keeps a conversation on its account; scoped to the key, so that nobody shares another's. */
  affinity: string | null;
  clientHeaders: HeaderReader;
  /** The conversation of a turn on a socket; null for HTTP. */
  conversation: Conversation | null;
  client: Client;
  /** A fresh reader for each attempt: what a failed one read counts for nothing. */
  openReader(): StreamReader;
  /** Money is held for it: the till is told where it goes. */
  isCharged: boolean;
  /** Filled as it goes, for the record. */
  trace: Trace;
}

/** Always within one key: nobody shares another's conversation, nor its account by it. */
export function computeAffinity(keyId: string, headers: HeaderReader, request: ModelRequest): string | null {
  const name = conversationName(headers, request);
  return name === null ? null : `${keyId} ${name}`;
}

export function conversationName(headers: HeaderReader, request: ModelRequest): string | null {
  const conversation = readSession(headers) ?? request.conversation();
  if (conversation === null) return null;
  // The pool remembers names, and how long they are is up to the client.
  return conversation.length > NAME_CHARS_MAX ? Bun.hash(conversation).toString(36) : conversation;
}

const NAME_CHARS_MAX = 64;
