/** The sources of a message: citations of its texts, and searches, which are two blocks each: the query and the result. */

import type { Citation, SearchItem } from "../hub/hub-request.ts";
import { type Json, readObjects, readString } from "../hub/json-values.ts";
import type { ResponseBounds } from "../hub/response-bounds.ts";

/** A citation belongs to the whole text of its block. Null for a place in a document, which has no address. */
export function readCitation(citation: Json, textChars: number): Citation | null {
  const source = citation.type === "search_result_location" ? citation.source : citation.url;
  const url = readString(source);
  if (url === null || !/^https?:\/\//.test(url)) return null;
  return { url, title: readString(citation.title) ?? "", start: 0, end: textChars };
}

/** Reads the citations of a block; `bounds` are those of a response. `onDropped` is called if there are some that other dialects cannot express. */
export function readCitations(
  { citations }: Json,
  textChars: number,
  { bounds, onDropped }: { readonly bounds: ResponseBounds | null; readonly onDropped: () => void },
): readonly Citation[] {
  return readObjects(citations).flatMap((json) => {
    const citation = readCitation(json, textChars);
    if (citation === null) onDropped();
    else bounds?.addCitation(citation);
    return citation ?? [];
  });
}

export function isSearchCall({ type, name }: Json): boolean {
  return type === "server_tool_use" && name === "web_search";
}

export class Searches {
  readonly #bounds: ResponseBounds;
  /** The queries of searches without a result so far, by the ids of their blocks. */
  readonly #queries = new Map<string, string>();

  constructor(bounds: ResponseBounds) {
    this.#bounds = bounds;
  }

  addCall(id: unknown, input: Json | null): void {
    const key = readString(id) ?? "";
    const query = readString(input?.query) ?? "";
    this.#bounds.addSearch(query);
    this.#bounds.addText(key.length);
    this.#queries.set(key, query);
  }

  /** A failed search has an error in place of the list. */
  addResult({ tool_use_id, content }: Json): SearchItem {
    const id = readString(tool_use_id) ?? "";
    const query = this.#queries.get(id) ?? "";
    if (!this.#queries.delete(id)) this.#bounds.addSearch(query);
    const urls = this.#bounds.readList(content).flatMap(({ url }) => readString(url) ?? []);
    this.#bounds.addAddresses(urls);
    return { kind: "search", query, urls };
  }

  /** The searches that the response ends without a result of. */
  takeOpen(): readonly SearchItem[] {
    const open = [...this.#queries.values()].map((query) => ({ kind: "search" as const, query, urls: [] }));
    this.#queries.clear();
    return open;
  }
}
