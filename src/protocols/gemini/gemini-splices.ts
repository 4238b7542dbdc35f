/**
 * Finds the places of a Gemini body that change on the way to an account: names of models, ids of calls, signatures. Each
 * search passes over the whole body, so that those of a long body run in the inspection thread.
 */

import { decodeText, findBytes } from "../../base/bytes.ts";
import { type Part, partBytes } from "../../base/parts.ts";
import { requestCounts } from "../../count-limits.ts";
import { firstElements } from "../../json/array.ts";
import { type JsonField, type ObjectScan, scanObject, wantedFields } from "../../json/scan.ts";
import type { Splice } from "../../json/splice.ts";
import { COLON, QUOTE, skipSpace, stringEnd } from "../../json/walk.ts";
import { isPlainBody } from "../shared/plain-body.ts";
import { callIds } from "./call-ids.ts";
import { type GeminiScan, pick } from "./gemini-fields.ts";
import { ENCODED_ENVELOPE_START, FOREIGN_CALL_SIGNATURE } from "./thought-signature.ts";

/** Plain data. */
export interface GeminiFindings {
  readonly isPlain: boolean;
  readonly modelPlaces: readonly ModelPlace[];
  readonly callIds: readonly Splice[];
  readonly foreignSignatures: readonly Splice[];
  readonly allSignatures: readonly Splice[];
}

/** A member that names the model, or an object that has none yet. */
type ModelPlace = { readonly field: JsonField } | Pick<ObjectScan<never>, "insertAt" | "empty">;

interface ScannedBody {
  readonly scan: GeminiScan;
  readonly depthMax: number;
}

export function searchGeminiBody(part: Part, body: ScannedBody): GeminiFindings {
  return {
    isPlain: isPlainBody(partBytes(part)),
    modelPlaces: findModelPlaces(part, body),
    callIds: callIds(part, body),
    foreignSignatures: foreignSignatures(part),
    allSignatures: allSignatures(part),
  };
}

const NAMED = wantedFields(["model"]);

/** The body itself, the request that it counts, and each request of a batch. */
export function findModelPlaces({ bytes }: Part, { scan: { fields }, depthMax }: ScannedBody): ModelPlace[] {
  const places: ModelPlace[] = fields.model === undefined ? [] : [{ field: fields.model }];
  const inner = pick(fields, "generateContentRequest", "generate_content_request");
  const requests = [
    ...(inner?.kind === "object" ? [inner] : []),
    ...(fields.requests?.kind === "array"
      ? firstElements(bytes, fields.requests, requestCounts.itemsMax)
      : []),
  ];
  for (const { start, end } of requests) {
    const scan = scanObject(bytes, start, end, NAMED, { depthMax });
    if (!scan.ok) continue;
    const { insertAt, empty } = scan;
    places.push(scan.fields.model === undefined ? { insertAt, empty } : { field: scan.fields.model });
  }
  return places;
}

const ENVELOPE = Buffer.from(`"${ENCODED_ENVELOPE_START}`);
const PLACEHOLDER = Buffer.from(JSON.stringify(FOREIGN_CALL_SIGNATURE));
/** More than any conversation has. */
const SIGNATURES_MAX = 10_000;

/**
 * The conversation was begun by another vendor, whose state is in the gateway's envelopes. Google would reject them, and
 * has a placeholder for calls that another model made.
 */
export function foreignSignatures({ bytes, start, end }: Part): Splice[] {
  const splices: Splice[] = [];
  for (let at = findBytes(bytes, ENVELOPE, start, end); at !== -1; ) {
    const close = stringEnd(bytes, at + 1, end, at);
    if (close < 0 || splices.length === SIGNATURES_MAX) break;
    if (isSignatureValue(bytes, at)) splices.push({ start: at, end: close, insert: PLACEHOLDER });
    at = findBytes(bytes, ENVELOPE, close, end);
  }
  return splices;
}

const SIGNATURE_NAMES = ["thoughtSignature", "thought_signature"].map((name) => Buffer.from(`"${name}"`));

export function allSignatures({ bytes, start, end }: Part): Splice[] {
  const splices: Splice[] = [];
  for (const name of SIGNATURE_NAMES) {
    for (let at = findBytes(bytes, name, start, end); at !== -1; at = findBytes(bytes, name, at + 1, end)) {
      const colon = skipSpace(bytes, at + name.length, end);
      const value = skipSpace(bytes, colon + 1, end);
      if (bytes[colon] !== COLON || bytes[value] !== QUOTE) continue;
      const close = stringEnd(bytes, value + 1, end, value);
      if (close < 0 || splices.length === SIGNATURES_MAX) break;
      splices.push({ start: value, end: close, insert: PLACEHOLDER });
    }
  }
  return splices.sort((a, b) => a.start - b.start);
}

const NAME_BEFORE = /"thought_?[sS]ignature"\s*:\s*$/;
const NAME_BYTES_MAX = 64;

/** The same text may be part of a message. */
function isSignatureValue(bytes: Uint8Array, quote: number): boolean {
  return NAME_BEFORE.test(decodeText(bytes, Math.max(0, quote - NAME_BYTES_MAX), quote));
}
