/** Citations of pages in the texts of the assistant. Each dialect has them in another form, and some have none. */

import { DIALECT_TRAITS } from "./dialect-traits.ts";
import type { DroppedFields } from "./dropped-fields.ts";
import type { Citation, HubRequest } from "./hub-request.ts";

/** The member of a part or an event; none if there are no citations. */
export function withCitations(citations: readonly Citation[] | undefined): {
  readonly citations?: readonly Citation[];
} {
  return citations === undefined || citations.length === 0 ? {} : { citations };
}

/** The name of citations in a response that are dropped. */
export const ANNOTATIONS = "annotations";

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
