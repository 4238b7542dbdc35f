/** Accounts of kind `azure`: Azure OpenAI. */

import type { PolicyAccount } from "../account.ts";
import { OPENAI_PROFILE } from "../profiles.ts";
import { GEMINI_PATH, pathBelowBase } from "./kind-defaults.ts";
import type { KindDefinition, PathTarget } from "./kind-definition.ts";
import { openai } from "./openai.ts";

export const azure: KindDefinition = {
  ...openai,
  address: { from: "configuration", suggested: "" },
  fields: ["api_version"],
  profile: () => OPENAI_PROFILE,
  provider: "azure.ai.openai",
  path: azurePath,
  // The dated API has the deployment in the path.
  hasStablePaths: false,
  credentialHeader: (credential) => ["api-key", credential],
  modelLists: (account) => ({
    baseUrl: account.baseUrl,
    paths: [azurePath(account, { path: "/models", upstreamModel: "", wantsEvents: false })],
  }),
};

/** Azure has two APIs below one base URL: the OpenAI-compatible one under /openai/v1, and a dated one. */
function azurePath({ basePath, apiVersion }: PolicyAccount, target: PathTarget): string {
  const { path, upstreamModel } = target;
  if (path.startsWith(GEMINI_PATH)) return pathBelowBase(basePath, target);
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
