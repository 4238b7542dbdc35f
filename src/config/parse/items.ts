/** Reads the raw tree of a configuration file item by item. What has the wrong type is left out. */

import type { Path } from "../state/problem.ts";

export interface Item {
  path: Path;
  value: Readonly<Record<string, unknown>>;
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The entries of a list that are maps. */
export function readItems(tree: unknown, section: string): Item[] {
  const list = isRecord(tree) ? tree[section] : undefined;
  if (!Array.isArray(list)) return [];
  return list.flatMap((value: unknown, i) => (isRecord(value) ? [{ path: [section, i], value }] : []));
}

/** The items of a field: its entries, or the field itself if it is a map. */
export function itemsAt({ path, value }: Item, field: string): Item[] {
  const inner = value[field];
  if (isRecord(inner)) return [{ path: [...path, field], value: inner }];
  return readItems(value, field).map((item) => ({ ...item, path: [...path, ...item.path] }));
}

export function readText(item: Item, field: string): string | undefined {
  const value = item.value[field];
  return typeof value === "string" ? value : undefined;
}
