/** Annotations in the texts of Chat Completions and Responses: citations of pages. */

import { ANNOTATIONS } from "../hub/citations.ts";
import type { DroppedFields } from "../hub/dropped-fields.ts";
import type { Citation } from "../hub/hub-request.ts";
import { type Json, readNumber, readObject, readString } from "../hub/json-values.ts";
import type { ResponseBounds } from "../hub/response-bounds.ts";

/** Reads a list of annotations, of a response within its bounds. Those that are no addresses are dropped and named. */
export function readAnnotations(
  annotations: readonly Json[],
  dropped: Pick<DroppedFields, "add">,
  bounds?: ResponseBounds,
): readonly Citation[] {
  return annotations.flatMap((annotation) => {
    const citation = readUrlCitation(annotation);
    if (citation === null) dropped.add(ANNOTATIONS);
    else bounds?.addCitation(citation);
    return citation ?? [];
  });
}

/** OpenAI's `url_citation`. Chat Completions has its members in an object of that name. Null for other annotations. */
function readUrlCitation(annotation: Json): Citation | null {
  const json = readObject(annotation.url_citation) ?? annotation;
  const url = readString(json.url);
  if (annotation.type !== "url_citation" || url === null) return null;
  const start = Math.max(0, readNumber(json.start_index) ?? 0);
  const end = Math.max(start, readNumber(json.end_index) ?? 0);
  return { url, title: readString(json.title) ?? "", start, end };
}

export function writeUrlCitation({ url, title, start, end }: Citation): Record<string, unknown> {
  return { type: "url_citation", start_index: start, end_index: end, title, url };
}
