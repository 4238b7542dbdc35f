/** The parts of a turn of the assistant. Only Gemini's models produce images, and only Gemini accepts them back. */

import type { DroppedFields } from "./dropped-fields.ts";
import type { HubPart, RefusalPart, TextPart } from "./hub-request.ts";

/** Images, files and audio are dropped and named. */
export function keepTexts(
  parts: readonly HubPart[],
  dropped: DroppedFields,
): readonly (TextPart | RefusalPart)[] {
  return parts.filter((part): part is TextPart | RefusalPart => {
    const isText = part.kind === "text" || part.kind === "refusal";
    if (!isText) dropped.add(`assistant.${part.kind}`);
    return isText;
  });
}
