/** The sources of a message: citations of its texts, and searches, which are two blocks each: the query and the result. */

import type { Citation, SearchItem } from "../hub/hub-request.ts";
import { type Json, readObjects, readString } from "../hub/json-values.ts";

/** A citation belongs to the whole text of its block. Null for a place in a document, which has no address. */
export function readCitation(citation: Json, textChars: number): Citation | null {
  const source = citation.type === "search_result_location" ? citation.source : citation.url;
  const url = readString(source);
  if (url === null || !/^https?:\/\//.test(url)) return null;
  return { url, title: readString(citation.title) ?? "", start: 0, end: textChars };
}

/** Reads the citations of a block. `onDropped` is called if there are some that other dialects cannot express. */
export function readCitations(
  citations: unknown,
  textChars: number,
  onDropped: () => void,
): readonly Citation[] {
  return readObjects(citations).flatMap((json) => {
    const citation = readCitation(json, textChars);
    if (citation === null) onDropped();
    return citation ?? [];
  });
}

export function isSearchCall({ type, name }: Json): boolean {
  return type === "server_tool_use" && name === "web_search";
}

export class Searches {
  /** The queries of searches without a result so far, by the ids of their blocks. */
  readonly #queries = new Map<string, string>();

  addCall(id: unknown, input: Json | null): void {
    this.#queries.set(readString(id) ?? "", readString(input?.query) ?? "");
  }

  /** A failed search has an error in place of the list. */
  addResult({ tool_use_id, content }: Json): SearchItem {
    const id = readString(tool_use_id) ?? "";
    const query = this.#queries.get(id) ?? "";
    this.#queries.delete(id);
    return { kind: "search", query, urls: readObjects(content).flatMap(({ url }) => readString(url) ?? []) };
  }

  /** The searches that the response ends without a result of. */
  takeOpen(): readonly SearchItem[] {
    const open = [...this.#queries.values()].map((query) => ({ kind: "search" as const, query, urls: [] }));
    this.#queries.clear();
    return open;
  }
}
