/** Where each kind of account listens, and how it wants its credential. Nothing here comes from a client. */

import type { Account } from "../policy/snapshot.ts";

/** The path below the account's origin, query included, for an OpenAI path such as `/chat/completions`. */
export function upstreamPath(account: Account, path: string, upstreamModel: string): string {
  const base = account.basePath;
  if (account.kind !== "azure") return base + path;
  if (account.apiVersion === null) {
    return (base.endsWith("/openai/v1") ? base : `${base}/openai/v1`) + path;
  }
  // Azure's dated API names the deployment in the path, for everything but Responses.
  const version = `?api-version=${encodeURIComponent(account.apiVersion)}`;
  const scope = path.startsWith("/responses") ? "" : `/deployments/${encodeURIComponent(upstreamModel)}`;
  const [bare, query] = path.split("?", 2);
  return `${base}/openai${scope}${bare}${version}${query ? `&${query}` : ""}`;
}

export function credentialHeader(account: Account): readonly [name: string, value: string] | null {
  if (account.credential === null) return null;
  return account.kind === "azure"
    ? ["api-key", account.credential]
    : ["authorization", `Bearer ${account.credential}`];
}
