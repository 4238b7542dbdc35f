/** What a kind of accounts has unless it declares something else. */

import { forwardedMessagesHeaders, forwardedRequestHeaders } from "../headers.ts";
import type { FieldFault, FileFields, KindDefinition, PathTarget } from "./kind-definition.ts";

const MESSAGES_PATH = "/messages";

/** A key that is sent as a bearer token, and paths directly below the base URL. */
export const KIND_DEFAULTS = {
  fields: [],
  credential: "api_key",
  setup: null,
  check: checkApiKey,
  apis: ["openai"],
  modelInterface: null,
  holdsThreads: false,
  provider: null,
  path: (account, target) => pathBelowBase(account.basePath, target),
  hasStablePaths: true,
  credentialHeader: (credential) => ["authorization", `Bearer ${credential}`],
  forwardedHeaders: (_account, { path, clientHeaders }) =>
    path.startsWith(MESSAGES_PATH)
      ? forwardedMessagesHeaders(clientHeaders)
      : forwardedRequestHeaders(clientHeaders),
  hosting: null,
  framing: null,
  tokenCount: {
    body: ({ body, upstreamModel }) => body.forUpstream(upstreamModel),
    field: null,
    isRejectionFinal: true,
  },
  errors: null,
  rateLimits: null,
  modelLists: ({ baseUrl, basePath }) => ({ baseUrl, paths: [`${basePath}/models`] }),
  listHeaders: [],
  listFailures: {},
} satisfies Partial<KindDefinition>;

export const GEMINI_PATH = "/models/{model}:";
const GEMINI_VERSION = /\/v\d\w*$/;

export function pathBelowBase(basePath: string, target: PathTarget): string {
  return target.path.startsWith(GEMINI_PATH)
    ? geminiBase(basePath) + geminiPath(target)
    : basePath + target.path;
}

/** A base URL without a version gets the one that all features of Gemini need. */
export function geminiBase(basePath: string): string {
  return GEMINI_VERSION.test(basePath) ? basePath : `${basePath}/v1beta`;
}

/** Gemini has the model in the path. */
function geminiPath({ path, upstreamModel }: Pick<PathTarget, "path" | "upstreamModel">): string {
  const model = upstreamModel.split("/").map(encodeURIComponent).join("/");
  const query = path.endsWith(":streamGenerateContent") ? "?alt=sse" : "";
  return `${path.replace("{model}", model)}${query}`;
}

/** A credential is sent in a header; only a service account may have spaces and line breaks. */
export function checkApiKey({ credential }: FileFields): readonly FieldFault[] {
  if (typeof credential !== "string" || /^[\x21-\x7e]*$/.test(credential)) return [];
  const message =
    "must be a string of visible characters. Only kind vertex has the JSON of a service account.";
  return [{ field: "credential", message }];
}
