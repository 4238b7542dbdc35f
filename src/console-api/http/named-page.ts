/** Pages through a list that is small enough to be read at once, sorted by name. */

import { z } from "zod";
import { cursorText, readCursor } from "./page.ts";

interface NamedPageQuery {
  after?: string | undefined;
  limit: number;
  search?: string | undefined;
}

export function namedPage<Item>(
  items: readonly Item[],
  getName: (item: Item) => string,
  { after, limit, search = "" }: NamedPageQuery,
): { page: Item[]; next: string | null } {
  const cursor = readCursor(after, z.tuple([z.string()]));
  const searchText = search.toLowerCase();
  const matching = items
    .filter((item) => getName(item).toLowerCase().includes(searchText))
    .filter((item) => cursor === null || getName(item) > cursor[0])
    .sort((a, b) => (getName(a) < getName(b) ? -1 : 1));
  const page = matching.slice(0, limit);
  const last = page.at(-1);
  return { page, next: matching.length > limit && last !== undefined ? cursorText([getName(last)]) : null };
}
