/** Pages through a list that is small enough to be read at once, sorted by name. */

import { z } from "zod";
import { cursorText, readCursor } from "./page.ts";

interface Wanted {
  after?: string | undefined;
  limit: number;
  search?: string | undefined;
}

export function namedPage<Item>(
  items: readonly Item[],
  nameOf: (item: Item) => string,
  { after, limit, search = "" }: Wanted,
): { page: Item[]; next: string | null } {
  const cursor = readCursor(after, z.tuple([z.string()]));
  const word = search.toLowerCase();
  const left = items
    .filter((item) => nameOf(item).toLowerCase().includes(word))
    .filter((item) => cursor === null || nameOf(item) > cursor[0])
    .sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
  const page = left.slice(0, limit);
  const last = page.at(-1);
  return { page, next: left.length > limit && last !== undefined ? cursorText([nameOf(last)]) : null };
}
