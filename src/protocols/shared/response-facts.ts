/** What a response reports about itself, for traces: id, model and why it ended. Read only if spans are exported. */

import type { Part } from "../../base/parts.ts";
import { responseBounds } from "../../count-limits.ts";
import { isObject } from "../../json/parse.ts";
import { type JsonField, scanObject, stringValue, wantedFields } from "../../json/scan.ts";
import { parseMember } from "./event-bounds.ts";

export interface ResponseFacts {
  readonly id: string | null;
  /** As the upstream names it. */
  readonly model: string | null;
  /** One for each choice. */
  readonly finishReasons: readonly string[];
}

export const NO_FACTS: ResponseFacts = { id: null, model: null, finishReasons: [] };

/** What a stream keeps of each choice until its end is short, whatever the upstream sends: a number and a word. */
export function choiceIndex(index: unknown): number {
  return typeof index === "number" ? index : 0;
}

const REASON_CHARS_MAX = 64;

export function shortReason(reason: string): string {
  // Copied: a slice would keep the whole string in memory.
  return reason.length <= REASON_CHARS_MAX
    ? reason
    : Buffer.from(reason.slice(0, REASON_CHARS_MAX)).toString();
}

/** A longer response is not read a second time. */
const FACTS_BYTES_MAX = 1024 * 1024;

const FACT_FIELDS = wantedFields([
  "id",
  "responseId",
  "model",
  "modelVersion",
  "choices",
  "candidates",
  "stop_reason",
  "status",
]);

/** Reads a whole response of any dialect. */
export function readResponseFacts({ bytes, start, end }: Part, depthMax: number): ResponseFacts {
  if (end - start > FACTS_BYTES_MAX) return NO_FACTS;
  const scan = scanObject(bytes, start, end, FACT_FIELDS, { depthMax });
  if (!scan.ok) return NO_FACTS;
  const { id, responseId, model, modelVersion, choices, candidates, stop_reason: stop, status } = scan.fields;
  const text = (field: JsonField | undefined) => (field === undefined ? null : stringValue(bytes, field));
  const ending = text(stop) ?? text(status);
  return {
    id: text(id) ?? text(responseId),
    model: text(model) ?? text(modelVersion),
    finishReasons: [
      ...listReasons(bytes, choices, "finish_reason"),
      ...listReasons(bytes, candidates, "finishReason"),
      ...(ending === null ? [] : [ending]),
    ],
  };
}

function listReasons(bytes: Uint8Array, list: JsonField | undefined, member: string): string[] {
  if (list?.kind !== "array") return [];
  const choices: unknown = parseMember(bytes, list);
  return (Array.isArray(choices) ? choices.slice(0, responseBounds.choicesMax) : []).flatMap((choice) => {
    const reason = isObject(choice) ? choice[member] : null;
    return typeof reason === "string" ? [reason] : [];
  });
}
