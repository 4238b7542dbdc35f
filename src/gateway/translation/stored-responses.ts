/**
 * The responses that the gateway stores for accounts that store nothing under the client's id: recent ones in memory, all
 * of them in the database. Only the key that created a response can read, continue or delete it.
 */

import type { MaybePromise } from "../../net/wire/maybe-promise.ts";
import { lookUpCodec } from "../../protocols/codecs.ts";
import type { HubItem, TextPart } from "../../protocols/hub/hub-request.ts";
import { NO_LONG_STRINGS } from "./long-strings.ts";
import type { ResponseArchive } from "./response-archive.ts";
import type { ResponseRecord } from "./response-record.ts";
import type { HubConversation, StoredConversations } from "./stored-conversations.ts";

export class StoredResponses {
  readonly #memory: StoredConversations;
  readonly #archive: ResponseArchive;

  constructor(memory: StoredConversations, archive: ResponseArchive) {
    this.#memory = memory;
    this.#archive = archive;
  }

  /** The next turn on this node can continue from the response as soon as this call returns. */
  add(conversation: HubConversation): void {
    if (this.#memory.add(conversation)) this.#archive.add(conversation.record);
  }

  /** Returns null if the response is unknown or belongs to another key. */
  findConversation(responseId: string, keyId: string): MaybePromise<HubConversation | null> {
    const recent = this.#memory.find(responseId, keyId);
    if (recent === null) return this.#load(responseId, keyId);
    return this.#archive.mayBeDeletedElsewhere(recent.record) ? this.#check(recent) : recent;
  }

  async findRecord(responseId: string, keyId: string): Promise<ResponseRecord | null> {
    const recent = this.#memory.find(responseId, keyId);
    if (recent === null) return this.#archive.findRecord(responseId, keyId);
    if (!this.#archive.mayBeDeletedElsewhere(recent.record)) return recent.record;
    return (await this.#check(recent))?.record ?? null;
  }

  /** Returns false if the response is unknown or belongs to another key. */
  async remove(responseId: string, keyId: string): Promise<boolean> {
    const wasStored = await this.#archive.remove(responseId, keyId);
    return this.#memory.remove(responseId, keyId) || wasStored;
  }

  close(): Promise<void> {
    return this.#archive.close();
  }

  /** The client may have deleted the response at another node. */
  async #check(recent: HubConversation): Promise<HubConversation | null> {
    const { responseId, keyId } = recent.record;
    // While the database fails, a conversation that is in memory continues.
    if (await this.#archive.has(responseId, keyId).catch(() => true)) return recent;
    this.#memory.remove(responseId, keyId);
    return null;
  }

  async #load(responseId: string, keyId: string): Promise<HubConversation | null> {
    const records = await this.#archive.findChain(responseId, keyId);
    if (records === null) return null;
    const conversation = joinRecords(records);
    if (conversation !== null) this.#memory.add(conversation);
    return conversation;
  }
}

/** The records of a chain, the first one first. */
export function joinRecords(records: readonly ResponseRecord[]): HubConversation | null {
  const record = records.at(-1);
  if (record === undefined) return null;
  const instructions: TextPart[] = [];
  const items: HubItem[] = [];
  let longStrings = NO_LONG_STRINGS;
  for (const { input, output, longStrings: strings } of records) {
    const turn = lookUpCodec("responses").readRequest({ input }, { publicModel: "", stream: false });
    instructions.push(...turn.instructions);
    items.push(...turn.items, ...output);
    if (strings.size > 0) longStrings = new Map([...longStrings, ...strings]);
  }
  return { record, instructions, items, longStrings };
}
