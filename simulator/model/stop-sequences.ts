/** `stop` of Chat Completions: texts before which a response ends. */

import { invalid, type Rejection } from "../errors.ts";
import { echoed, type JsonFields, parseJson } from "../json-fields.ts";

const STOP_MAX = 4;

export function readStopSequences(fields: JsonFields): readonly string[] | Rejection {
  const slice = echoed(fields, "stop", "");
  if (slice === "") return [];
  const value = parseJson(slice);
  const list: unknown[] = Array.isArray(value) ? value : [value];
  const texts = list.filter((one): one is string => typeof one === "string" && one !== "");
  if (texts.length === list.length && texts.length <= STOP_MAX) return texts;
  return invalid(
    "stop",
    `Invalid 'stop': expected a string, or up to ${STOP_MAX} strings, none of them empty.`,
  );
}

/** Returns the text before the first stop sequence. */
export function cutAtStop(text: string, stops: readonly string[]): string {
  let end = text.length;
  for (const stop of stops) {
    const at = text.indexOf(stop);
    if (at !== -1 && at < end) end = at;
  }
  return text.slice(0, end);
}
