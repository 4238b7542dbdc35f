/** The URL path and credential header of each kind of account. No value here comes from a client. */

import type { PolicyAccount } from "../policy/snapshot.ts";

/** Returns the path below the account's origin, query included, for an OpenAI path such as `/chat/completions`. */
export function upstreamPath(account: PolicyAccount, path: string, upstreamModel: string): string {
  return account.kind === "azure" ? azurePath(account, path, upstreamModel) : account.basePath + path;
}

/** Azure has two APIs below one base URL: the OpenAI-compatible one under /openai/v1, and a dated one. */
function azurePath({ basePath, apiVersion }: PolicyAccount, path: string, upstreamModel: string): string {
  // Portals and tutorials show the base URL with either of these suffixes, or without one.
  const resource = basePath.replace(/\/openai(?:\/v1)?$/, "");
  if (apiVersion === null) return `${resource}/openai/v1${path}`;
  const scope = isDated(apiVersion) ? deploymentPath(path, upstreamModel) : "/v1";
  const [bare, query] = path.split("?", 2);
  const version = `api-version=${encodeURIComponent(apiVersion)}`;
  return `${resource}/openai${scope}${bare}?${version}${query ? `&${query}` : ""}`;
}

/** `preview` and `latest` are versions of the v1 API. */
function isDated(apiVersion: string): boolean {
  return /^\d/.test(apiVersion);
}

/** The dated API has the deployment in the path, except for responses and models. */
function deploymentPath(path: string, upstreamModel: string): string {
  if (/^\/(?:responses|models)\b/.test(path)) return "";
  return `/deployments/${encodeURIComponent(upstreamModel)}`;
}

export function credentialHeader(account: PolicyAccount): readonly [name: string, value: string] | null {
  if (account.credential === null) return null;
  return account.kind === "azure"
    ? ["api-key", account.credential]
    : ["authorization", `Bearer ${account.credential}`];
}
