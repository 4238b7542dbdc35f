/** Which dialect of an account serves an interface that the account does not have itself. */

import { KINDS } from "../accounts/kinds/table.ts";
import type { AccountKind } from "../records/account.ts";
import { DIALECTS, type Dialect, type Interface } from "../records/interfaces.ts";

/** The dialects that express most of a conversation come first. */
const PREFERENCE: readonly Dialect[] = DIALECTS;

/** The interfaces that the account itself has for a model. */
export function modelInterfaces(
  { kind, interfaces }: { readonly kind: AccountKind; readonly interfaces: Iterable<Interface> },
  upstreamModel: string,
): Iterable<Interface> {
  const own = KINDS[kind].modelInterface?.(upstreamModel);
  return own === undefined ? interfaces : [...interfaces].filter((name) => name === own);
}

/** Whether the account of a route serves the interface without translation. */
export function hasInterface(
  { account, upstreamModel }: { readonly account: RoutedAccount; readonly upstreamModel: string },
  iface: Interface,
): boolean {
  if (!account.interfaces.has(iface)) return false;
  const { modelInterface } = KINDS[account.kind];
  return modelInterface === null || modelInterface(upstreamModel) === iface;
}

interface RoutedAccount {
  readonly kind: AccountKind;
  readonly interfaces: ReadonlySet<Interface>;
}

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

function isDialect(name: string): name is Dialect {
  return DIALECTS.some((dialect) => dialect === name);
}
