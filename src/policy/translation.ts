/** Which dialect of an account serves an interface that the account does not have itself. */

import type { AccountKind } from "../records/account.ts";
import { DIALECTS, type Dialect, type Interface } from "../records/interfaces.ts";

/** The dialects that express most of a conversation come first. */
const PREFERENCE: readonly Dialect[] = DIALECTS;

const CLAUDE = /^claude/i;

/** Whether Vertex AI serves this model by Anthropic's API. Its other models have Google's. */
export function isClaudeModel(upstreamModel: string): boolean {
  return CLAUDE.test(upstreamModel);
}

/** The interfaces that the account itself has for a model. Vertex AI serves each model by the API of its vendor. */
export function modelInterfaces(
  { kind, interfaces }: { readonly kind: AccountKind; readonly interfaces: Iterable<Interface> },
  upstreamModel: string,
): Iterable<Interface> {
  if (kind !== "vertex") return interfaces;
  const own: Interface = isClaudeModel(upstreamModel) ? "messages" : "gemini";
  return [...interfaces].filter((name) => name === own);
}

/** Whether the account of a route serves the interface without translation. */
export function hasInterface(
  { account, upstreamModel }: { readonly account: RoutedAccount; readonly upstreamModel: string },
  iface: Interface,
): boolean {
  if (!account.interfaces.has(iface)) return false;
  return account.kind !== "vertex" || [...modelInterfaces(account, upstreamModel)].includes(iface);
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

export function isDialect(name: string): name is Dialect {
  return DIALECTS.some((dialect) => dialect === name);
}
