/**
 * One response that the gateway stores itself, and its form at rest: compressed and sealed. A record has the input and
 * output of one turn only; a conversation is the chain of its records.
 */

import type { Keyring } from "../../secrets/keyring.ts";
import { SealError, storedResponseBinding, unsealBytes } from "../../secrets/seal.ts";
import type { NewStoredResponse, StoredResponseRow } from "../../store/responses/stored-responses.ts";

export interface ResponseRecord {
  readonly responseId: string;
  /** The stored response that it continues; null if its input is the whole conversation. */
  readonly previousId: string | null;
  readonly keyId: string;
  /** The user of the key, or the key itself. */
  readonly owner: string;
  readonly atMs: number;
  /** The tokens of the whole conversation; null if the upstream did not report them. */
  readonly tokens: number | null;
  /** Memory of the whole conversation. */
  readonly memoryBytes: number;
  /** The response, its output and its input: see `stored-turn.ts`. */
  readonly turn: Uint8Array;
}

/** Memory of a record in addition to its turn, approximately. */
const RECORD_BYTES = 1_024;

/** The memory of the record alone, without the conversation that it continues. */
export function computeRecordBytes({ turn }: Pick<ResponseRecord, "turn">): number {
  return turn.length + RECORD_BYTES;
}

/** Decrypts and unpacks. Null if the content cannot be decrypted: the database was restored beside another master key. */
export function openTurn(keyring: Keyring, { id, keyId, sealed }: SealedTurn): Uint8Array | null {
  try {
    return Bun.zstdDecompressSync(unsealBytes(keyring, storedResponseBinding(keyId, id), sealed));
  } catch (error) {
    if (error instanceof SealError) return null;
    throw error;
  }
}

export type SealedTurn = Pick<StoredResponseRow, "id" | "keyId" | "sealed">;

export function buildRecord(row: StoredResponseRow, turn: Uint8Array): ResponseRecord {
  const { id, previousId, keyId, atMs, tokens, memoryBytes } = row;
  return { responseId: id, previousId, keyId, owner: keyId, atMs, tokens, memoryBytes, turn };
}

export function buildRow(record: ResponseRecord, sealed: string): NewStoredResponse {
  const { responseId: id, previousId, keyId, owner, atMs, tokens, memoryBytes } = record;
  return { id, previousId, keyId, owner, atMs, tokens, memoryBytes, sealed };
}
