/**
 * Conversations that clients continue by `previous_response_id` on accounts that store nothing. Kept in memory only,
 * because the gateway writes no prompts to disk, and bounded in total and for each key. A conversation that was dropped
 * is unknown: its client sends it in full.
 */

import type { HubItem, TextPart } from "../../protocols/hub/hub-request.ts";
import type { LongStrings } from "./long-strings.ts";

export interface HubConversation {
  readonly keyId: string;
  /** The system messages at its beginning. */
  readonly instructions: readonly TextPart[];
  readonly items: readonly HubItem[];
  /** The strings that stand for the tokens in the items. */
  readonly longStrings: LongStrings;
  /** The tokens of the whole conversation; null if the upstream did not report them. */
  readonly tokens: number | null;
  /** Memory in use, approximately. */
  readonly bytes: number;
}

export interface ConversationLimits {
  readonly storedConversationBytesMax: number;
  readonly storedConversationKeyBytesMax: number;
}

export class StoredConversations {
  readonly #limits: ConversationLimits;
  /** In order of their use: the oldest is dropped first. */
  readonly #byResponse = new Map<string, HubConversation>();
  readonly #bytesByKey = new Map<string, number>();
  #bytes = 0;

  constructor(limits: ConversationLimits) {
    this.#limits = limits;
  }

  get bytes(): number {
    return this.#bytes;
  }

  add(responseId: string, conversation: HubConversation): void {
    const { keyId, bytes } = conversation;
    const { storedConversationBytesMax, storedConversationKeyBytesMax } = this.#limits;
    if (bytes > storedConversationKeyBytesMax || this.#byResponse.has(responseId)) return;
    this.#byResponse.set(responseId, conversation);
    this.#count(conversation, bytes);
    while ((this.#bytesByKey.get(keyId) ?? 0) > storedConversationKeyBytesMax) this.#dropOldest(keyId);
    while (this.#bytes > storedConversationBytesMax) this.#dropOldest(null);
  }

  /** Returns null if the response is unknown or belongs to another key. */
  find(responseId: string, keyId: string): HubConversation | null {
    const conversation = this.#byResponse.get(responseId);
    if (conversation?.keyId !== keyId) return null;
    this.#byResponse.delete(responseId);
    this.#byResponse.set(responseId, conversation);
    return conversation;
  }

  #dropOldest(keyId: string | null): void {
    for (const [responseId, conversation] of this.#byResponse) {
      if (keyId !== null && conversation.keyId !== keyId) continue;
      this.#byResponse.delete(responseId);
      this.#count(conversation, -conversation.bytes);
      return;
    }
  }

  #count({ keyId }: HubConversation, bytes: number): void {
    this.#bytes += bytes;
    const keyBytes = (this.#bytesByKey.get(keyId) ?? 0) + bytes;
    if (keyBytes > 0) this.#bytesByKey.set(keyId, keyBytes);
    else this.#bytesByKey.delete(keyId);
  }
}
