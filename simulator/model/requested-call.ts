/** A tool call that the prompt contains: `call Read {"file_path":"/tmp/notes.txt"}`. */

import { isRecord, parseJson } from "../json-fields.ts";

export interface RequestedCall {
  name: string;
  /** JSON text. */
  input: string;
}

/** All calls of the prompt, in order; empty if it contains none. */
export function readRequestedCalls(question: string): RequestedCall[] {
  return [...question.matchAll(/\bcall ([\w-]{1,128}) (\{[^{}]*\})/g)].flatMap(([, name = "", input = ""]) =>
    isRecord(parseJson(input)) ? { name, input } : [],
  );
}
