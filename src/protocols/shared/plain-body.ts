/**
 * Whether a body holds text and ordinary settings alone. Then it names nothing that could be missing at one upstream
 * and there at another, and asks for nothing that a model may lack: no id, no file, no tool, no picture.
 */

import { COLON, QUOTE, skipSpace, stringEnd } from "../../json/walk.ts";
import { decodeText } from "../../net/wire/bytes.ts";

/** A list of what is ordinary, for a list of what is not would always lack something. */
const ORDINARY: ReadonlySet<string> = new Set(
  (
    "model messages input prompt instructions role content type text stream stream_options include_usage store " +
    "n stop seed size quality temperature top_p presence_penalty frequency_penalty max_tokens " +
    "max_completion_tokens max_output_tokens encoding_format dimensions user prompt_cache_key safety_identifier"
  ).split(" "),
);
const NAME_BYTES_MAX = 24;

/** The body was scanned before, so its structure is sound. */
export function isPlainBody(body: Uint8Array): boolean {
  const { length } = body;
  for (let open = body.indexOf(QUOTE); open !== -1; ) {
    const end = stringEnd(body, open + 1, length, open);
    if (end < 0) return false;
    if (body[skipSpace(body, end, length)] === COLON) {
      const isShort = end - open - 2 <= NAME_BYTES_MAX;
      if (!isShort || !ORDINARY.has(decodeText(body, open + 1, end - 1))) return false;
    }
    open = body.indexOf(QUOTE, end);
  }
  return true;
}
