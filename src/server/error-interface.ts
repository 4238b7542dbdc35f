/** Chooses the form of an error outside of the pipeline: that of the API whose client sent the request. */

import type { HeaderReader } from "../net/wire/http-fields.ts";
import { GOOGLE_API } from "../protocols/gemini/google-api.ts";
import { ANTHROPIC_API } from "../protocols/messages/anthropic-api.ts";
import { OPENAI_API } from "../protocols/openai/openai-api.ts";
import type { VendorApi } from "../protocols/shared/endpoint.ts";
import { isGeminiPath } from "./routes.ts";

/** Paths that several APIs have, such as `/v1/models`, are distinguished by the header that Anthropic's clients send. */
export function findErrorApi(path: string, headers: HeaderReader): VendorApi {
  if (isGeminiPath(path)) return GOOGLE_API;
  return path.startsWith("/v1/messages") || headers.has("anthropic-version") ? ANTHROPIC_API : OPENAI_API;
}
