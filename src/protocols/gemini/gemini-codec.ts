/** Gemini's API as one of the dialects that are translated into each other. */

import type { DialectCodec } from "../hub/dialect-codec.ts";
import { GeminiHubReader } from "./gemini-hub-reader.ts";
import { GeminiHubWriter } from "./gemini-hub-writer.ts";
import { readGeminiHubRequest } from "./gemini-request-reader.ts";
import { writeGeminiRequest } from "./gemini-request-writer.ts";
import { readGeminiResponse, writeGeminiResponse } from "./gemini-whole.ts";

export const GEMINI_CODEC: DialectCodec = {
  dialect: "gemini",
  responseIdPrefix: "gen_",
  requestPath: ({ stream }) =>
    stream ? "/models/{model}:streamGenerateContent" : "/models/{model}:generateContent",
  readRequest: readGeminiHubRequest,
  writeRequest: writeGeminiRequest,
  readResponse: readGeminiResponse,
  writeResponse: writeGeminiResponse,
  openStreamReader: (options) => new GeminiHubReader(options),
  openStreamWriter: (client) => new GeminiHubWriter(client),
};
