/**
 * One response that the gateway stores itself, and its form at rest: compressed and sealed. A record has the input and
 * output of one turn only; a conversation is the chain of its records.
 */

import { isObject, parseJson } from "../../json/parse.ts";
import { decodeText } from "../../net/wire/bytes.ts";
import { joinPartsInTurns } from "../../net/wire/next-turn.ts";
import { wholeBytesPart } from "../../net/wire/parts.ts";
import type { OutputItem } from "../../protocols/hub/hub-response.ts";
import type { Keyring } from "../../secrets/keyring.ts";
import { SealError, seal, storedResponseBinding, unsealBytes } from "../../secrets/seal.ts";
import type { NewStoredResponse, StoredResponseRow } from "../../store/responses/stored-responses.ts";
import { type LongStrings, parseLongBody, putLongStrings } from "./long-strings.ts";

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
  /** Memory of the whole conversation, approximately. */
  readonly memoryBytes: number;
  /** The response object as the client received it: JSON. */
  readonly response: string;
  readonly output: readonly OutputItem[];
  /** The `input` of the request, with tokens in place of its long strings. */
  readonly input: unknown;
  readonly longStrings: LongStrings;
}

const NEWLINE = 0x0a;

/** Compresses outside the main thread. */
export async function sealRecord(keyring: Keyring, record: ResponseRecord): Promise<NewStoredResponse> {
  const { responseId: id, previousId, keyId, owner, atMs, tokens, memoryBytes } = record;
  // JSON text has no line breaks outside of strings, and none within them.
  const head = Buffer.from(`${record.response}\n${JSON.stringify(record.output)}\n`);
  const input = putLongStrings(JSON.stringify(record.input ?? null), record.longStrings);
  const content = await joinPartsInTurns([wholeBytesPart(head), ...input]);
  const sealed = seal(keyring, storedResponseBinding(keyId, id), await Bun.zstdCompress(content));
  return { id, previousId, keyId, owner, atMs, tokens, memoryBytes, sealed };
}

/** Returns null if the content cannot be decrypted: the database was restored beside another master key. */
export async function openRecord(
  keyring: Keyring,
  row: StoredResponseRow,
  randomBytes: (count: number) => Uint8Array,
): Promise<ResponseRecord | null> {
  const { id, previousId, keyId, atMs, tokens, memoryBytes } = row;
  const content = await unsealContent(keyring, row);
  if (content === null) return null;
  const responseEnd = content.indexOf(NEWLINE);
  const outputEnd = content.indexOf(NEWLINE, responseEnd + 1);
  const output = parseJson(content, responseEnd + 1, outputEnd);
  const inputPart = { bytes: content, start: outputEnd + 1, end: content.length };
  const { json: input, strings } = await parseLongBody(inputPart, randomBytes);
  return {
    responseId: id,
    previousId,
    keyId,
    owner: keyId,
    atMs,
    tokens,
    memoryBytes,
    response: decodeText(content, 0, responseEnd),
    output: Array.isArray(output) ? output.filter(isOutputItem) : [],
    input,
    longStrings: strings,
  };
}

async function unsealContent(
  keyring: Keyring,
  { id, keyId, sealed }: StoredResponseRow,
): Promise<Buffer | null> {
  try {
    return await Bun.zstdDecompress(unsealBytes(keyring, storedResponseBinding(keyId, id), sealed));
  } catch (error) {
    if (error instanceof SealError) return null;
    throw error;
  }
}

/** The content was sealed by the gateway, so its items have the type that they were written with. */
function isOutputItem(item: unknown): item is OutputItem {
  return isObject(item) && typeof item.kind === "string";
}
