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

interface ConversationLimits {
  readonly storedConversationBytesMax: number;
  readonly storedConversationKeyBytesMax: number;
}

interface KeyConversations {
  /** In order of their use, too: a search among those of other keys would hold the event loop for seconds. */
  readonly byResponse: Map<string, StoredConversation>;
  bytes: number;
}

export class StoredConversations {
  readonly #limits: ConversationLimits;
  /** In order of their use: the oldest is dropped first. */
  readonly #byResponse = new Map<string, StoredConversation>();
  readonly #byKey = new Map<string, KeyConversations>();
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
    const own = this.#openKey(keyId);
    this.#byResponse.set(responseId, conversation);
    own.byResponse.set(responseId, conversation);
    own.bytes += memoryBytes;
    this.#bytes += memoryBytes;
    while (own.bytes > storedConversationKeyBytesMax) this.#dropOldest(own.byResponse);
    while (this.#bytes > storedConversationBytesMax) this.#dropOldest(this.#byResponse);
    return true;
  }

  /** Returns null if the response is unknown or belongs to another key. */
  find(responseId: string, keyId: string): StoredConversation | null {
    const own = this.#byKey.get(keyId)?.byResponse;
    const conversation = own?.get(responseId);
    if (own === undefined || conversation === undefined) return null;
    for (const list of [own, this.#byResponse]) {
      list.delete(responseId);
      list.set(responseId, conversation);
    }
    return conversation;
  }

  /** Returns false if the response is unknown or belongs to another key. */
  remove(responseId: string, keyId: string): boolean {
    const conversation = this.#byKey.get(keyId)?.byResponse.get(responseId);
    if (conversation === undefined) return false;
    this.#drop(conversation);
    return true;
  }

  #openKey(keyId: string): KeyConversations {
    const known = this.#byKey.get(keyId);
    if (known !== undefined) return known;
    const opened: KeyConversations = { byResponse: new Map(), bytes: 0 };
    this.#byKey.set(keyId, opened);
    return opened;
  }

  #dropOldest(conversations: ReadonlyMap<string, StoredConversation>): void {
    for (const conversation of conversations.values()) {
      this.#drop(conversation);
      return;
    }
  }

  #drop({ record: { responseId, keyId, memoryBytes } }: StoredConversation): void {
    const own = this.#byKey.get(keyId);
    if (own === undefined || !this.#byResponse.delete(responseId)) return;
    own.byResponse.delete(responseId);
    own.bytes -= memoryBytes;
    this.#bytes -= memoryBytes;
    if (own.byResponse.size === 0) this.#byKey.delete(keyId);
  }
}
