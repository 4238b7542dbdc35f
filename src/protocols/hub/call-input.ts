/** The input of a call as an object, for dialects that do not carry it as text. */

import { JSON_DEPTH_MAX } from "../../count-limits.ts";
import { parseLossless } from "../../json/lossless.ts";
import { isObject } from "../../json/parse.ts";

/** Anything but an object is wrapped. A model may have written invalid JSON: the client reports it to the model. */
export function parseCallInput(input: string): Record<string, unknown> {
  if (input.trim() === "") return {};
  if (isTooDeep(input)) return { input };
  try {
    const json = parseLossless(input);
    return isObject(json) ? json : { input: json };
  } catch {
    return { input };
  }
}

function isTooDeep(text: string): boolean {
  if (text.length <= 2 * JSON_DEPTH_MAX) return false;
  let depth = 0;
  let isInString = false;
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (isInString) {
      if (char === "\\") at++;
      else if (char === '"') isInString = false;
    } else if (char === '"') isInString = true;
    else if (char === "{" || char === "[") {
      if (++depth > JSON_DEPTH_MAX) return true;
    } else if (char === "}" || char === "]") depth--;
  }
  return false;
}
