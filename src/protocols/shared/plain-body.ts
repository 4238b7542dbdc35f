/**
 * Whether a body contains only text and ordinary settings: no id, file, tool or image. Then it references nothing that
 * could exist at only one upstream, and uses no feature that a model may lack.
 */

import { decodeText } from "../../base/bytes.ts";
import { COLON, QUOTE, skipSpace, stringEnd } from "../../json/walk.ts";

/** An allow-list, because a list of special fields would always be incomplete. */
const ORDINARY: ReadonlySet<string> = new Set(
  (
    "model messages input prompt instructions role content type text stream stream_options include_usage store " +
    "n stop seed size quality temperature top_p presence_penalty frequency_penalty max_tokens " +
    "max_completion_tokens max_output_tokens encoding_format dimensions user prompt_cache_key safety_identifier " +
    "contents parts systemInstruction generationConfig maxOutputTokens topP topK stopSequences candidateCount " +
    "thinkingConfig includeThoughts thinkingBudget thinkingLevel requests taskType outputDimensionality"
  ).split(" "),
);
const NAME_BYTES_MAX = 24;

/** The body was scanned before, so its structure is valid. */
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
