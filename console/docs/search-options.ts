/** How the search index of the documentation is built and read. */

import type { Options } from "minisearch";
import type { Section } from "./pages.ts";

/** Shared by the build of the index and by the search. */
export const SEARCH_OPTIONS: Options<Section & { id: number }> = {
  fields: ["heading", "page", "text"],
  storeFields: ["address", "page", "heading", "text"],
  searchOptions: { boost: { heading: 4, page: 2 }, prefix: true, fuzzy: 0.15, combineWith: "AND" },
};
