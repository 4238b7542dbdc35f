/** Annotations of a message of Chat Completions. */

import type { Citation } from "../hub/hub-request.ts";
import { writeUrlCitation } from "../openai/openai-annotations.ts";

export function writeAnnotations(citations: readonly Citation[]): object[] {
  return citations.map((citation) => {
    const { type, ...url_citation } = writeUrlCitation(citation);
    return { type, url_citation };
  });
}
