/** The URL path and credential header of each kind of account. No value here comes from a client. */

import type { PolicyAccount } from "./account.ts";

/** Returns the path below the account's origin, query included, for an API path such as `/chat/completions`. */
export function upstreamPath(account: PolicyAccount, path: string, upstreamModel: string): string {
  if (path.startsWith(GEMINI_PATH)) return geminiPath(account, path, upstreamModel);
  switch (account.kind) {
    case "azure":
      return azurePath(account, path, upstreamModel);
    case "anthropic":
      return anthropicPath(account, path);
    default:
      return account.basePath + path;
  }
}

/** Anthropic's own SDKs take a base URL without `/v1`, other clients one with it. */
function anthropicPath({ basePath }: PolicyAccount, path: string): string {
  return `${basePath.replace(/\/v1$/, "")}/v1${path}`;
}

const GEMINI_PATH = "/models/{model}:";
const GEMINI_VERSION = /\/v\d\w*$/;

/** Gemini has the model in the path. A base URL without a version gets the one that all features need. */
function geminiPath({ kind, basePath }: PolicyAccount, path: string, upstreamModel: string): string {
  // The simulator has Gemini's API beside OpenAI's.
  const base = kind === "simulator" ? basePath.replace(/\/v1$/, "") : basePath;
  const version = GEMINI_VERSION.test(base) ? "" : "/v1beta";
  const model = upstreamModel.split("/").map(encodeURIComponent).join("/");
  const query = path.endsWith(":streamGenerateContent") ? "?alt=sse" : "";
  return `${base}${version}${path.replace("{model}", model)}${query}`;
}

/** The path of the list of models. */
export function modelListPath(account: PolicyAccount): string {
  // Without a limit the list of Anthropic has only 20 entries.
  if (account.kind === "anthropic") return upstreamPath(account, "/models?limit=1000", "");
  if (account.kind !== "gemini") return upstreamPath(account, "/models", "");
  const version = GEMINI_VERSION.test(account.basePath) ? "" : "/v1beta";
  return `${account.basePath}${version}/models?pageSize=1000`;
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

/** Null if the account sends no credential, or an access token in its place. */
export function credentialHeader(account: PolicyAccount): readonly [name: string, value: string] | null {
  if (account.credential === null) return null;
  switch (account.kind) {
    case "azure":
      return ["api-key", account.credential];
    case "anthropic":
      return ["x-api-key", account.credential];
    case "gemini":
      return ["x-goog-api-key", account.credential];
    case "vertex":
      // The key of a service account is never sent, only the access token that it signs for.
      return null;
    default:
      return ["authorization", `Bearer ${account.credential}`];
  }
}
