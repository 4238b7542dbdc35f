/**
 * The memory of conversations that clients continue by `previous_response_id` on accounts that store nothing, bounded in
 * total and for each key. A conversation that was dropped is read from the database.
 */

import type { ResponseRecord } from "./response-record.ts";

export interface StoredConversation {
  /** Its last response. */
  readonly record: ResponseRecord;
  /** Its turns in their order, each as bytes. Conversations with a common beginning share its turns. */
  readonly turns: readonly Uint8Array[];
}

export interface ConversationLimits {
  readonly storedConversationBytesMax: number;
  readonly storedConversationKeyBytesMax: number;
}

export class StoredConversations {
  readonly #limits: ConversationLimits;
  /** In order of their use: the oldest is dropped first. */
  readonly #byResponse = new Map<string, StoredConversation>();
  readonly #bytesByKey = new Map<string, number>();
  #bytes = 0;

  constructor(limits: ConversationLimits) {
    this.#limits = limits;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** A longer conversation is not stored. */
  get conversationBytesMax(): number {
    return this.#limits.storedConversationKeyBytesMax;
  }

  /** Returns false if the conversation is too long to be stored. */
  add(conversation: StoredConversation): boolean {
    const { responseId, keyId, memoryBytes } = conversation.record;
    const { storedConversationBytesMax, storedConversationKeyBytesMax } = this.#limits;
    if (memoryBytes > storedConversationKeyBytesMax) return false;
    if (this.#byResponse.has(responseId)) return true;
    this.#byResponse.set(responseId, conversation);
    this.#count(conversation, memoryBytes);
    while ((this.#bytesByKey.get(keyId) ?? 0) > storedConversationKeyBytesMax) this.#dropOldest(keyId);
    while (this.#bytes > storedConversationBytesMax) this.#dropOldest(null);
    return true;
  }

  /** Returns null if the response is unknown or belongs to another key. */
  find(responseId: string, keyId: string): StoredConversation | null {
    const conversation = this.#byResponse.get(responseId);
    if (conversation?.record.keyId !== keyId) return null;
    this.#byResponse.delete(responseId);
    this.#byResponse.set(responseId, conversation);
    return conversation;
  }

  /** Returns false if the response is unknown or belongs to another key. */
  remove(responseId: string, keyId: string): boolean {
    const conversation = this.#byResponse.get(responseId);
    if (conversation?.record.keyId !== keyId) return false;
    this.#drop(conversation);
    return true;
  }

  #drop(conversation: StoredConversation): void {
    const { responseId, memoryBytes } = conversation.record;
    if (this.#byResponse.delete(responseId)) this.#count(conversation, -memoryBytes);
  }

  #dropOldest(keyId: string | null): void {
    for (const conversation of this.#byResponse.values()) {
      if (keyId !== null && conversation.record.keyId !== keyId) continue;
      this.#drop(conversation);
      return;
    }
  }

  #count({ record: { keyId } }: StoredConversation, bytes: number): void {
    this.#bytes += bytes;
    const keyBytes = (this.#bytesByKey.get(keyId) ?? 0) + bytes;
    if (keyBytes > 0) this.#bytesByKey.set(keyId, keyBytes);
    else this.#bytesByKey.delete(keyId);
  }
}
