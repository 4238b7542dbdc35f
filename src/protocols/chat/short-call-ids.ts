/**
 * Ids of calls for Mistral, which accepts exactly nine letters and digits. Its own ids stay; those of other vendors are
 * replaced by a digest, so that a conversation that began elsewhere has the same ids in each turn.
 */

import { findBytes, startsWithAt } from "../../base/bytes.ts";
import { firstElements } from "../../json/array.ts";
import { type JsonField, scanObject, stringValue, wantedFields } from "../../json/scan.ts";
import { jsonString, replaceValue, type Splice } from "../../json/splice.ts";
import { ARRAY_OPEN, COLON, DEPTH_LIMIT, QUOTE, skipSpace, valueEnd } from "../../json/walk.ts";

const SHORT_ID = /^[A-Za-z0-9]{9}$/;
const ID_CHARS = 9;

/** Assigns ids in the order of the conversation: a longer conversation does not change those of its beginning. */
export class ShortCallIds {
  readonly #shortIds = new Map<string, string>();
  readonly #taken = new Set<string>();

  assign(callId: string): string {
    const known = this.#shortIds.get(callId);
    if (known !== undefined) return known;
    let shortId = SHORT_ID.test(callId) ? callId : digest(callId);
    for (let count = 1; this.#taken.has(shortId); count++) shortId = digest(`${callId}\n${count}`);
    this.#shortIds.set(callId, shortId);
    this.#taken.add(shortId);
    return shortId;
  }
}

function digest(text: string): string {
  const hash = new Bun.CryptoHasher("sha256").update(text).digest("hex");
  return BigInt(`0x${hash}`).toString(36).slice(-ID_CHARS);
}

const NAME_START = Buffer.from('"tool_call');
const OUTPUT_NAME = Buffer.from('"tool_call_id"');
const CALLS_NAME = Buffer.from('"tool_calls"');
const CALL = wantedFields(["id"]);
/** More than any conversation has. */
const IDS_MAX = 10_000;

/** The splices that shorten the ids in the messages of a body that passes through. Only the found members are read. */
export function shortenCallIds(bytes: Uint8Array, messages: JsonField | undefined): Splice[] {
  if (messages?.kind !== "array") return [];
  const ids = new ShortCallIds();
  const splices: Splice[] = [];
  const { end } = messages;
  let at = findBytes(bytes, NAME_START, messages.start, end);
  while (at !== -1 && splices.length < IDS_MAX) {
    const member = readMember(bytes, at, end);
    for (const id of member?.ids ?? []) {
      const callId = stringValue(bytes, id);
      const shortId = callId === null ? null : ids.assign(callId);
      if (shortId !== null && shortId !== callId) splices.push(replaceValue(id, jsonString(shortId)));
    }
    // Calls within a call are none: reading each level again would multiply the work by the depth.
    at = findBytes(bytes, NAME_START, member?.end ?? at + NAME_START.length, end);
  }
  return splices;
}

/** In JSON a quote inside a string is escaped, so a name in quotes with a colon is the name of a member. */
function readMember(bytes: Uint8Array, at: number, end: number): IdMember | null {
  const name = [OUTPUT_NAME, CALLS_NAME].find((one) => startsWithAt(bytes, at, one));
  if (name === undefined) return null;
  const colon = skipSpace(bytes, at + name.length, end);
  if (bytes[colon] !== COLON) return null;
  const start = skipSpace(bytes, colon + 1, end);
  const valueStop = valueEnd(bytes, start, end, DEPTH_LIMIT);
  if (valueStop < 0) return null;
  if (name === OUTPUT_NAME) {
    const id: JsonField = { kind: "string", keyStart: at, start, end: valueStop, values: 0 };
    return { ids: bytes[start] === QUOTE ? [id] : [], end: valueStop };
  }
  if (bytes[start] !== ARRAY_OPEN) return null;
  const ids = firstElements(bytes, { start, end: valueStop }, IDS_MAX).flatMap((element) => {
    const call = scanObject(bytes, element.start, element.end, CALL, { depthMax: DEPTH_LIMIT });
    return call.ok && call.fields.id?.kind === "string" ? [call.fields.id] : [];
  });
  return { ids, end: valueStop };
}

interface IdMember {
  readonly ids: readonly JsonField[];
  /** The end of its value. */
  readonly end: number;
}
