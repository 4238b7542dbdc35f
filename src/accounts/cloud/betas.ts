/**
 * Selects the beta flags of Messages that Amazon Bedrock and Google Vertex AI accept. Both reject a request with an
 * unknown flag, and clients send new flags with every release, so flags that are not listed are left out.
 */

import type { PolicyAccount } from "../account.ts";

/** Flags that both vendors have under another name. */
const RENAMED: ReadonlyMap<string, string> = new Map([
  ["advanced-tool-use-2025-11-20", "tool-search-tool-2025-10-19"],
]);

interface BetaFlags {
  readonly accepted: readonly string[];
  /** Whether a flag of the client was left out. */
  readonly areDropped: boolean;
}

const NO_FLAGS: BetaFlags = { accepted: [], areDropped: false };

/** `known` are the flags that the kind of the account accepts, `header` is the client's `anthropic-beta`. */
export function selectBetas(
  { profile }: PolicyAccount,
  known: readonly string[],
  header: string | null,
): BetaFlags {
  if (header === null) return NO_FLAGS;
  const configured = profile?.betas;
  // The configuration replaces the list.
  const allowed = typeof configured === "string" ? configured.split(",").map((flag) => flag.trim()) : known;
  const sent = header
    .split(",")
    .map((flag) => flag.trim())
    .filter((flag) => flag !== "");
  const accepted = new Set<string>();
  let areDropped = false;
  for (const flag of sent) {
    const name = allowed.includes(flag) ? flag : (RENAMED.get(flag) ?? flag);
    if (allowed.includes(name)) accepted.add(name);
    else areDropped = true;
  }
  return { accepted: [...accepted], areDropped };
}
