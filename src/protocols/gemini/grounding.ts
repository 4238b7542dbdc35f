/** The sources of a Gemini response: its `groundingMetadata` lists searches, pages, and the parts of the text based on them. */

import type { DroppedFields } from "../hub/dropped-fields.ts";
import type { Citation, SearchItem } from "../hub/hub-request.ts";
import { type Json, readArray, readNumber, readObject, readString } from "../hub/json-values.ts";
import type { ResponseBounds } from "../hub/response-bounds.ts";
import type { TextPieces } from "../hub/text-pieces.ts";
import { SEARCH_NAME } from "../hub/turns.ts";

/** How often the text of a response is quoted in its sources, and how many characters at least. */
const QUOTES_MAX = 4;
const QUOTED_CHARS_MIN = 16 * 1024;

interface Grounding {
  readonly searches: readonly SearchItem[];
  readonly citations: readonly Citation[];
}

/** Google counts places in bytes of UTF-8. `text` is the text of the candidate. */
export function readGrounding(metadata: Json | null, text: TextPieces, bounds: ResponseBounds): Grounding {
  const chunks = readArray(metadata?.groundingChunks).map((chunk) => readObject(readObject(chunk)?.web));
  const urls = chunks.flatMap((web) => readString(web?.uri) ?? []);
  const queries = readArray(metadata?.webSearchQueries).flatMap((query) => readString(query) ?? []);
  for (const query of queries) bounds.addSearch(query);
  bounds.addAddresses(urls);
  return {
    // The pages are those of all searches.
    searches: queries.map((query, at) => ({ kind: "search", query, urls: at === 0 ? urls : [] })),
    citations: toChars(readSupports(metadata, chunks, bounds), text),
  };
}

/** The citations with their places in bytes. */
function readSupports(
  metadata: Json | null,
  chunks: readonly (Json | null)[],
  bounds: ResponseBounds,
): readonly Citation[] {
  const citations: Citation[] = [];
  for (const support of bounds.readList(metadata?.groundingSupports)) {
    const segment = readObject(support.segment);
    const start = Math.max(0, readNumber(segment?.startIndex) ?? 0);
    const end = Math.max(start, readNumber(segment?.endIndex) ?? 0);
    for (const index of readArray(support.groundingChunkIndices)) {
      const web = chunks[readNumber(index) ?? -1];
      const url = readString(web?.uri);
      if (url === null) continue;
      const citation = { url, title: readString(web?.title) ?? "", start, end };
      bounds.addCitation(citation);
      citations.push(citation);
    }
  }
  return citations;
}

function toChars(citations: readonly Citation[], text: TextPieces): readonly Citation[] {
  if (citations.length === 0) return citations;
  const bytes = Buffer.from(text.toString());
  const chars = convertPlaces(citations, bytes.length, (from, to) => bytes.toString("utf8", from, to).length);
  return citations.map((one) => ({ ...one, start: chars(one.start), end: chars(one.end) }));
}

/**
 * Converts the places of citations between characters and bytes in one pass over the text. `measure` is the length of a
 * section in the other unit.
 */
function convertPlaces(
  citations: readonly Citation[],
  length: number,
  measure: (from: number, to: number) => number,
): (place: number) => number {
  const clamp = (place: number) => Math.min(length, Math.max(0, Math.floor(place)));
  const places = new Set(citations.flatMap(({ start, end }) => [clamp(start), clamp(end)]));
  const converted = new Map<number, number>();
  let before = 0;
  let total = 0;
  for (const place of [...places].sort((one, other) => one - other)) {
    total += measure(before, place);
    converted.set(place, total);
    before = place;
  }
  return (place) => converted.get(clamp(place)) ?? 0;
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
    const bytes = convertPlaces(citations, text.length, (from, to) =>
      Buffer.byteLength(text.slice(from, to)),
    );
    // Citations may overlap. Their texts are repeated as often as this allows; their places are always there.
    let quotable = Math.max(QUOTED_CHARS_MIN, QUOTES_MAX * text.length);
    for (const { url, title, start, end } of citations) {
      const cited = text.slice(start, end);
      quotable -= cited.length;
      this.#supports.push({
        segment: {
          startIndex: this.#textBytes + bytes(start),
          endIndex: this.#textBytes + bytes(Math.max(start, end)),
          ...(quotable < 0 ? {} : { text: cited }),
        },
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
