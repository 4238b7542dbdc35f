/** Chooses the form of an error outside of the pipeline: that of the API whose client sent the request. */

import type { HeaderReader } from "../net/wire/http-fields.ts";
import type { Interface } from "../records/interfaces.ts";
import { isGeminiPath } from "./routes.ts";

/** Paths that several APIs have, such as `/v1/models`, are distinguished by the header that Anthropic's clients send. */
export function findErrorInterface(path: string, headers: HeaderReader): Interface {
  if (isGeminiPath(path)) return "gemini";
  return path.startsWith("/v1/messages") || headers.has("anthropic-version") ? "messages" : "responses";
}
