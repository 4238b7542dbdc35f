/** Which dialect of an account serves an interface that the account does not have itself. */

import { DIALECTS, type Dialect, type Interface } from "../records.ts";

/** The dialects that express most of a conversation come first. */
const PREFERENCE: readonly Dialect[] = DIALECTS;

/**
 * Returns null if the account has the interface itself, the dialect to translate into, or `none` if the account cannot
 * serve the interface.
 */
export function findTranslation(interfaces: Iterable<Interface>, iface: Interface): Dialect | null | "none" {
  const spoken = new Set<string>(interfaces);
  if (spoken.has(iface)) return null;
  if (!isDialect(iface)) return "none";
  return PREFERENCE.find((dialect) => spoken.has(dialect)) ?? "none";
}

/** Whether an account with these interfaces serves the interface, itself or by translation. */
export function canServe(interfaces: Iterable<Interface>, iface: Interface): boolean {
  return findTranslation(interfaces, iface) !== "none";
}

export function isDialect(name: string): name is Dialect {
  return DIALECTS.some((dialect) => dialect === name);
}
