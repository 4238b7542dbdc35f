/** The sources of a Gemini response: its `groundingMetadata` lists searches, pages, and the parts of the text based on them. */

import type { DroppedFields } from "../hub/dropped-fields.ts";
import type { Citation, SearchItem } from "../hub/hub-request.ts";
import { type Json, readArray, readNumber, readObject, readObjects, readString } from "../hub/json-values.ts";
import { SEARCH_NAME } from "../hub/turns.ts";

export interface Grounding {
  readonly searches: readonly SearchItem[];
  readonly citations: readonly Citation[];
}

/** Google counts places in bytes of UTF-8. `text` is the text of the candidate. */
export function readGrounding(metadata: Json | null, text: string): Grounding {
  const chunks = readArray(metadata?.groundingChunks).map((chunk) => readObject(readObject(chunk)?.web));
  const urls = chunks.flatMap((web) => readString(web?.uri) ?? []);
  const queries = readArray(metadata?.webSearchQueries).flatMap((query) => readString(query) ?? []);
  const supports = readObjects(metadata?.groundingSupports);
  const bytes = supports.length === 0 ? null : Buffer.from(text);
  const toChars = (place: unknown) => bytes?.toString("utf8", 0, readNumber(place) ?? 0).length ?? 0;
  return {
    // The pages are those of all searches.
    searches: queries.map((query, at) => ({ kind: "search", query, urls: at === 0 ? urls : [] })),
    citations: supports.flatMap((support) => {
      const segment = readObject(support.segment);
      return readArray(support.groundingChunkIndices).flatMap((index) => {
        const web = chunks[readNumber(index) ?? -1];
        const url = readString(web?.uri);
        if (url === null) return [];
        const start = toChars(segment?.startIndex);
        const end = Math.max(start, toChars(segment?.endIndex));
        return [{ url, title: readString(web?.title) ?? "", start, end }];
      });
    }),
  };
}

/** Collects the sources of a response for the metadata of its candidate. */
export class GroundingWriter {
  readonly #dropped: Pick<DroppedFields, "add">;
  readonly #queries: string[] = [];
  readonly #chunks = new Map<string, { readonly index: number; title: string }>();
  readonly #supports: object[] = [];
  /** The bytes of the texts that have ended. */
  #textBytes = 0;

  constructor(dropped: Pick<DroppedFields, "add">) {
    this.#dropped = dropped;
  }

  /** Gemini lists searches by their queries: one without a query has no place. */
  addSearch({ query, urls }: SearchItem): void {
    if (query === "") this.#dropped.add(SEARCH_NAME);
    else this.#queries.push(query);
    for (const url of urls) this.#findChunk(url, "");
  }

  /** `text` is complete. */
  addText(text: string, citations: readonly Citation[] = []): void {
    for (const { url, title, start, end } of citations) {
      const startIndex = this.#textBytes + Buffer.byteLength(text.slice(0, start));
      const cited = text.slice(start, end);
      this.#supports.push({
        segment: { startIndex, endIndex: startIndex + Buffer.byteLength(cited), text: cited },
        groundingChunkIndices: [this.#findChunk(url, title)],
      });
    }
    this.#textBytes += Buffer.byteLength(text);
  }

  #findChunk(url: string, title: string): number {
    const known = this.#chunks.get(url);
    if (known !== undefined) {
      known.title ||= title;
      return known.index;
    }
    const index = this.#chunks.size;
    this.#chunks.set(url, { index, title });
    return index;
  }

  /** The member of the candidate; none if the response has no sources. */
  build(): { readonly groundingMetadata?: object } {
    if (this.#queries.length === 0 && this.#chunks.size === 0) return {};
    const groundingChunks = [...this.#chunks].map(([uri, { title }]) => ({ web: { uri, title } }));
    return {
      groundingMetadata: {
        ...(this.#queries.length === 0 ? {} : { webSearchQueries: this.#queries }),
        ...(groundingChunks.length === 0 ? {} : { groundingChunks }),
        ...(this.#supports.length === 0 ? {} : { groundingSupports: this.#supports }),
      },
    };
  }
}
