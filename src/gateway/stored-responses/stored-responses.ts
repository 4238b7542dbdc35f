/**
 * The responses that the gateway stores for accounts that store nothing under the client's id: recent ones in memory, all
 * of them in the database. Only the key that created a response can read, continue or delete it.
 */

import type { MaybePromise } from "../../base/maybe-promise.ts";
import { copyInTurns } from "../../base/next-turn.ts";
import { type Part, wholeBytesPart } from "../../base/parts.ts";
import type { BodyOwner } from "../bodies/body-budget.ts";
import type { ResponseArchive } from "./response-archive.ts";
import { computeRecordBytes, type ResponseRecord } from "./response-record.ts";
import type { StoredConversation, StoredConversations } from "./stored-conversations.ts";
import { turnInput, turnResponse } from "./stored-turn.ts";

type NewResponse = Omit<ResponseRecord, "memoryBytes">;

export class StoredResponses {
  readonly #memory: StoredConversations;
  readonly #archive: ResponseArchive;
  readonly #conversationLoads = new SharedLoads<StoredConversation>();
  readonly #responseLoads = new SharedLoads<Part>();

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

  /** Returns null if the response is unknown or belongs to another key. Concurrent loads are one. */
  findConversation(responseId: string, owner: BodyOwner): MaybePromise<StoredConversation | null> {
    const recent = this.#memory.find(responseId, owner.id);
    if (recent === null)
      return this.#conversationLoads.share(owner.id, responseId, () => this.#load(responseId, owner));
    return this.#archive.mayBeDeletedElsewhere(recent.record) ? this.#check(recent) : recent;
  }

  /** The response object as JSON. Returns null if it is unknown or belongs to another key. Concurrent loads are one. */
  async findResponse(responseId: string, owner: BodyOwner): Promise<Part | null> {
    const recent = await this.#findRecent(responseId, owner.id);
    if (recent !== "unknown") return recent && turnResponse(recent.record.turn);
    return this.#responseLoads.share(owner.id, responseId, () =>
      this.#archive.useRecord(responseId, owner, ({ turn }) => copyResponse(turn)),
    );
  }

  /** Resolves with the result of `use`, which receives the input of the response as JSON; null as above. */
  async useInput<Result>(
    responseId: string,
    owner: BodyOwner,
    use: (input: Part) => Result | Promise<Result>,
  ): Promise<Result | null> {
    const recent = await this.#findRecent(responseId, owner.id);
    if (recent !== "unknown") return recent && use(turnInput(recent.record.turn));
    return this.#archive.useRecord(responseId, owner, ({ turn }) => use(turnInput(turn)));
  }

  /** Returns false if the response is unknown or belongs to another key. */
  async isStored(responseId: string, keyId: string): Promise<boolean> {
    const recent = await this.#findRecent(responseId, keyId);
    return recent === "unknown" ? this.#archive.isStored(responseId, keyId) : recent !== null;
  }

  /** Returns false if the response is unknown or belongs to another key. */
  async remove(responseId: string, keyId: string): Promise<boolean> {
    const wasStored = await this.#archive.remove(responseId, keyId);
    return this.#memory.remove(responseId, keyId) || wasStored;
  }

  close(): Promise<void> {
    return this.#archive.close();
  }

  /** `unknown`: memory does not have it. Null: it was deleted at another node. */
  async #findRecent(responseId: string, keyId: string): Promise<StoredConversation | null | "unknown"> {
    const recent = this.#memory.find(responseId, keyId);
    if (recent === null) return "unknown";
    return this.#archive.mayBeDeletedElsewhere(recent.record) ? this.#check(recent) : recent;
  }

  /** The client may have deleted the response at another node. */
  async #check(recent: StoredConversation): Promise<StoredConversation | null> {
    const { responseId, keyId } = recent.record;
    // While the database fails, a conversation that is in memory continues.
    if (await this.#archive.has(responseId, keyId).catch(() => true)) return recent;
    this.#memory.remove(responseId, keyId);
    return null;
  }

  async #load(responseId: string, owner: BodyOwner): Promise<StoredConversation | null> {
    const records = await this.#archive.findChain(responseId, owner);
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

/** Without its input, which may be a thousand times as long. */
async function copyResponse(turn: Uint8Array): Promise<Part> {
  const { bytes, start, end } = turnResponse(turn);
  const copy = new Uint8Array(end - start);
  await copyInTurns(copy, 0, bytes.subarray(start, end));
  return wholeBytesPart(copy);
}

/** Loads in progress, by the key that requested them and their response. */
class SharedLoads<Value> {
  readonly #loads = new Map<string, Promise<Value | null>>();

  share(keyId: string, responseId: string, load: () => Promise<Value | null>): Promise<Value | null> {
    const id = `${keyId} ${responseId}`;
    const running = this.#loads.get(id);
    if (running !== undefined) return running;
    const started = load().finally(() => this.#loads.delete(id));
    this.#loads.set(id, started);
    return started;
  }
}
