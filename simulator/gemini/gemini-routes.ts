/** The paths of the Gemini API. */

import type { Call } from "../endpoint.ts";
import type { Rejection } from "../errors.ts";
import { jsonReply, NO_USAGE, type Reply } from "../reply.ts";
import { countTokens, generateContent } from "./gemini.ts";
import { batchEmbedContents, embedContent } from "./gemini-embeddings.ts";
import { googleRejection, invalidArgument, unknownGeminiModel } from "./google-rejection.ts";

export interface GeminiPath {
  readonly model: string;
  readonly method: string;
}

const CALL_PATH = /^\/v1(?:beta|alpha)?\/models\/(.+):(\w+)$/;

/** Null for a path that is not a call of a model. */
export function parseGeminiPath(path: string): GeminiPath | null {
  const match = CALL_PATH.exec(path);
  if (match === null) return null;
  return { model: decodeURIComponent(match[1] ?? ""), method: match[2] ?? "" };
}

export function isGeminiPath(path: string): boolean {
  return path.startsWith("/v1beta/") || parseGeminiPath(path) !== null;
}

export function streams({ method }: GeminiPath): boolean {
  return method === "streamGenerateContent";
}

export function respondGemini(call: Call, { model, method }: GeminiPath, query: string): Reply {
  switch (method) {
    case "generateContent":
      return generateContent(call, false);
    case "streamGenerateContent":
      // Without it the real API streams a JSON array, which the gateway never requests.
      if (!/(?:^|&)alt=sse(?:&|$)/.test(query))
        return invalidArgument("The simulator streams with alt=sse only.");
      return generateContent(call, true);
    case "countTokens":
      return countTokens(call);
    case "embedContent":
      return embedContent(call);
    case "batchEmbedContents":
      return batchEmbedContents(call, model);
    default:
      return googleRejection(404, `Method ${method} not found.`);
  }
}

export function respondGeminiList(path: string, models: readonly string[]): Reply | Rejection {
  if (path === "/v1beta/models") return jsonReply(JSON.stringify({ models: models.map(describe) }), NO_USAGE);
  const id = path.slice("/v1beta/models/".length);
  return models.includes(id) ? jsonReply(JSON.stringify(describe(id)), NO_USAGE) : unknownGeminiModel(id);
}

function describe(id: string): object {
  const methods = id.includes("embed") ? ["embedContent"] : ["generateContent", "countTokens"];
  return {
    name: `models/${id}`,
    version: "001",
    displayName: id,
    inputTokenLimit: 1_048_576,
    outputTokenLimit: 65_536,
    supportedGenerationMethods: methods,
  };
}
