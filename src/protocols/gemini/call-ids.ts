/** Removes the ids of function calls from a Gemini request: Vertex AI rejects them. */

import { decodeText, findBytes } from "../../base/bytes.ts";
import type { Part } from "../../base/parts.ts";
import { scanObject, wantedFields } from "../../json/scan.ts";
import { editMembers, type Splice } from "../../json/splice.ts";
import { COLON, DEPTH_LIMIT, OBJECT_OPEN, skipSpace, valueEnd } from "../../json/walk.ts";
import type { GeminiScan } from "./gemini-fields.ts";

const NAME_START = Buffer.from('"function');
const CALL_NAME = /^"function(?:Call|Response|_call|_response)"/;
const NAME_BYTES_MAX = 24;
const ID = wantedFields(["id"]);
/** More than any conversation has. */
const CALLS_MAX = 10_000;

/** Only the conversation is searched, and not the arguments and results of calls: both may have members of any name. */
export function callIds(
  { bytes, end: bodyEnd }: Part,
  { scan, depthMax }: { readonly scan: GeminiScan; readonly depthMax: number },
): Splice[] {
  const { contents } = scan.fields;
  const splices: Splice[] = [];
  if (contents === undefined) return splices;
  const end = Math.min(contents.end, bodyEnd);
  let at = findBytes(bytes, NAME_START, contents.start, end);
  for (let found = 0; at !== -1 && found < CALLS_MAX; found++) {
    const callStart = findCall(bytes, at, end);
    const callEnd = callStart < 0 ? -1 : valueEnd(bytes, callStart, end, DEPTH_LIMIT);
    if (callEnd > 0) {
      const call = scanObject(bytes, callStart, callEnd, ID, { depthMax });
      if (call.ok && call.fields.id !== undefined) splices.push(...editMembers(bytes, call, { id: null }));
    }
    at = findBytes(bytes, NAME_START, callEnd > 0 ? callEnd : at + NAME_START.length, end);
  }
  return splices;
}

/** Returns the position of the object that this name belongs to; -1 if it is not the name of a call. */
function findCall(bytes: Uint8Array, at: number, end: number): number {
  const name = CALL_NAME.exec(decodeText(bytes, at, Math.min(end, at + NAME_BYTES_MAX)))?.[0];
  if (name === undefined) return -1;
  const colon = skipSpace(bytes, at + name.length, end);
  const value = skipSpace(bytes, colon + 1, end);
  return bytes[colon] === COLON && bytes[value] === OBJECT_OPEN ? value : -1;
}
