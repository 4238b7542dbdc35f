/** Pages through a list that is small enough to be read at once, sorted by name. */

import { z } from "zod";
import { cursorText, readCursor } from "./page.ts";

interface NamedPageQuery {
  after?: string | undefined;
  limit: number;
  search?: string | undefined;
}

/** Returns whether an id belongs to the group; true for every id if no group is named. */
export function selectMembers<Group extends { readonly name: string }>(
  { groups }: { readonly groups: readonly Group[] },
  name: string | undefined,
  listIds: (group: Group) => readonly string[],
): (id: string) => boolean {
  if (name === undefined) return () => true;
  const group = groups.find((one) => one.name === name);
  const ids = new Set(group === undefined ? [] : listIds(group));
  return (id) => ids.has(id);
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
