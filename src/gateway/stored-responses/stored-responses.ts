/**
 * The responses that the gateway stores for accounts that store nothing under the client's id: recent ones in memory, all
 * of them in the database. Only the key that created a response can read, continue or delete it.
 */

import type { MaybePromise } from "../../base/maybe-promise.ts";
import type { ResponseArchive } from "./response-archive.ts";
import { computeRecordBytes, type ResponseRecord } from "./response-record.ts";
import type { StoredConversation, StoredConversations } from "./stored-conversations.ts";

type NewResponse = Omit<ResponseRecord, "memoryBytes">;

export class StoredResponses {
  readonly #memory: StoredConversations;
  readonly #archive: ResponseArchive;

  constructor(memory: StoredConversations, archive: ResponseArchive) {
    this.#memory = memory;
    this.#archive = archive;
  }

  /** The next turn on this node can continue from the response as soon as this call returns. */
  add(previous: StoredConversation | null, response: NewResponse): void {
    const memoryBytes = computeRecordBytes(response) + (previous?.record.memoryBytes ?? 0);
    const record = { ...response, memoryBytes };
    const turns = [...(previous?.turns ?? []), response.turn];
    if (this.#memory.add({ record, turns })) this.#archive.add(record);
  }

  /** A longer turn is not stored. */
  get turnBytesMax(): number {
    return this.#memory.conversationBytesMax;
  }

  /** Returns null if the response is unknown or belongs to another key. */
  findConversation(responseId: string, keyId: string): MaybePromise<StoredConversation | null> {
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
  async #check(recent: StoredConversation): Promise<StoredConversation | null> {
    const { responseId, keyId } = recent.record;
    // While the database fails, a conversation that is in memory continues.
    if (await this.#archive.has(responseId, keyId).catch(() => true)) return recent;
    this.#memory.remove(responseId, keyId);
    return null;
  }

  async #load(responseId: string, keyId: string): Promise<StoredConversation | null> {
    const records = await this.#archive.findChain(responseId, keyId);
    if (records === null) return null;
    const conversation = joinRecords(records);
    if (conversation !== null) this.#memory.add(conversation);
    return conversation;
  }
}

/** The records of a chain, the first one first. */
export function joinRecords(records: readonly ResponseRecord[]): StoredConversation | null {
  const record = records.at(-1);
  return record === undefined ? null : { record, turns: records.map(({ turn }) => turn) };
}
