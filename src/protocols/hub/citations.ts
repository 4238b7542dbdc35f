/** Citations of pages in the texts of the assistant. Each dialect has them in another form, and some have none. */

import { DIALECT_TRAITS } from "./dialect-traits.ts";
import type { DroppedFields } from "./dropped-fields.ts";
import type { Citation, HubRequest } from "./hub-request.ts";
import { type Json, readNumber, readObject, readString } from "./json-values.ts";
import type { ResponseBounds } from "./response-bounds.ts";

/** The member of a part or an event; none if there are no citations. */
export function withCitations(citations: readonly Citation[] | undefined): {
  readonly citations?: readonly Citation[];
} {
  return citations === undefined || citations.length === 0 ? {} : { citations };
}

/** OpenAI's `url_citation`. Chat Completions has its members in an object of that name. Null for other annotations. */
export function readUrlCitation(annotation: Json): Citation | null {
  const json = readObject(annotation.url_citation) ?? annotation;
  const url = readString(json.url);
  if (annotation.type !== "url_citation" || url === null) return null;
  const start = Math.max(0, readNumber(json.start_index) ?? 0);
  const end = Math.max(start, readNumber(json.end_index) ?? 0);
  return { url, title: readString(json.title) ?? "", start, end };
}

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

export const ANNOTATIONS = "annotations";

export function writeUrlCitation({ url, title, start, end }: Citation): Record<string, unknown> {
  return { type: "url_citation", start_index: start, end_index: end, title, url };
}

/** The same citations in a text that begins so many characters earlier. */
export function moveCitations(citations: readonly Citation[], chars: number): readonly Citation[] {
  if (chars === 0) return citations;
  return citations.map((one) => ({
    ...one,
    start: Math.max(0, one.start + chars),
    end: Math.max(0, one.end + chars),
  }));
}

/** For upstreams whose requests have no place for them. */
export function dropCitations({ items, dialect }: HubRequest, dropped: DroppedFields): void {
  const hasCitations = items.some(
    (item) => item.kind === "message" && item.parts.some((part) => part.kind === "text" && part.citations),
  );
  if (hasCitations) dropped.add(DIALECT_TRAITS[dialect].citations);
}
