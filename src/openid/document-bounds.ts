/**
 * Bounds what the documents and tokens of a provider contain, before the OpenID Connect library parses them: it copies a
 * discovered document several times for each sign-in.
 */

import { decodeText } from "../base/bytes.ts";
import { isObject, parseJson } from "../json/parse.ts";
import { hasMoreValues } from "../json/values.ts";

interface ReceivedDocument {
  readonly body: Uint8Array;
  readonly contentType: string | null;
}

/** Of an encrypted token, which is rejected later. */
const TOKEN_PARTS_MAX = 5;

/** Returns null, or why the document is rejected. */
export function findDocumentFault({ body, contentType }: ReceivedDocument, valuesMax: number): string | null {
  if (contentType?.includes("jwt") === true)
    return findTokenFault(decodeText(body, 0, body.length), valuesMax);
  if (hasMoreValues(body, valuesMax)) return `the response has more than ${valuesMax} JSON values`;
  const json = parseJson(body);
  const token = isObject(json) ? json.id_token : null;
  return typeof token === "string" ? findTokenFault(token, valuesMax) : null;
}

function findTokenFault(token: string, valuesMax: number): string | null {
  const parts = token.split(".", TOKEN_PARTS_MAX + 1);
  if (parts.length > TOKEN_PARTS_MAX) return "the token has too many parts";
  const isLong = parts.some((part) => hasMoreValues(Buffer.from(part, "base64url"), valuesMax));
  return isLong ? `a part of the token has more than ${valuesMax} JSON values` : null;
}
