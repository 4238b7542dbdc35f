/** The error for an unknown path. It suggests the path that was probably meant, or lists what the gateway offers. */

import { ApiError } from "../errors.ts";
import { ENDPOINTS } from "../protocols/endpoints.ts";
import { publicPath } from "../protocols/shared/endpoint.ts";

/** `withBaseUrl` adds the gateway's base URL, which only the server knows. */
export class UnknownUrl extends ApiError {
  readonly #path: string;
  readonly #suggestedPath: string | null;

  /** `meant` is an existing path that differs only in `/v1` or in slashes, or null. */
  constructor(path: string, suggestedPath: string | null, baseUrl: string | null = null) {
    super("unknown_url", messageFor(path, suggestedPath, baseUrl));
    this.#path = path;
    this.#suggestedPath = suggestedPath;
  }

  withBaseUrl(baseUrl: string): UnknownUrl {
    return new UnknownUrl(this.#path, this.#suggestedPath, baseUrl);
  }
}

const PATH_CHARS_MAX = 200;

function messageFor(path: string, suggestedPath: string | null, baseUrl: string | null): string {
  const start = `The path ${path.slice(0, PATH_CHARS_MAX)} does not exist.`;
  if (suggestedPath !== null)
    return `${start} Did you mean ${suggestedPath}? ${adviceFor(path, suggestedPath, baseUrl)}`;
  const missing = findMissing(path);
  return missing === null
    ? `${start} The API is under /v1; ${FIRST_CALL}.`
    : `${start} This gateway does not support ${missing}. It supports ${OFFERED}; ${FIRST_CALL}.`;
}

function adviceFor(path: string, suggestedPath: string, baseUrl: string | null): string {
  if (path === `${suggestedPath}/`) return "Remove the trailing slash.";
  return baseUrl === null
    ? "The path must have /v1 exactly once. For SDKs, the base URL ends in /v1; for clients that need a host, it does not."
    : `The path must have /v1 exactly once. Use ${baseUrl}/v1 as the base URL of SDKs, and ${baseUrl} for clients that need a host.`;
}

const FIRST_CALL = "GET /v1/models is a good first call";
const OFFERED = `${ENDPOINTS.map((endpoint) => `POST ${publicPath(endpoint)}`).join(", ")} and GET /v1/models`;

/** APIs of OpenAI, Anthropic, Google and others that clients may call, by the start of the path below `/v1`. */
const MISSING: readonly (readonly [start: string, name: string])[] = [
  ["/files", "the Files API"],
  ["/uploads", "the Uploads API"],
  ["/audio", "the Audio API (speech, transcriptions, translations)"],
  ["/completions", "the legacy Completions API"],
  ["/engines", "the legacy Engines API"],
  ["/edits", "the legacy Edits API"],
  ["/moderations", "the Moderations API"],
  ["/batches", "the Batch API"],
  ["/fine_tuning", "the Fine-tuning API"],
  ["/fine-tunes", "the Fine-tuning API"],
  ["/vector_stores", "the Vector stores API"],
  ["/conversations", "the Conversations API"],
  ["/assistants", "the Assistants API"],
  ["/threads", "the Assistants API"],
  ["/realtime", "the Realtime API"],
  ["/videos", "the Videos API"],
  ["/containers", "the Containers API"],
  ["/evals", "the Evals API"],
  ["/organization", "the Administration API"],
  ["/images/variations", "image variations"],
  ["/chat/completions", "stored chat completions"],
  ["/messages/batches", "the Anthropic Message Batches API"],
  ["/complete", "the Anthropic Text Completions API"],
  ["/rerank", "reranking"],
];
const GOOGLE = "this part of the Gemini API";

function findMissing(path: string): string | null {
  if (/^\/v1(?:beta|alpha)\d*(?:\/|$)/.test(path) || /^\/v1\/models\/[^/]+:\w+$/.test(path)) return GOOGLE;
  const below = path.replace(/\/{2,}/g, "/").replace(/^(?:\/v1)+(?=\/)/, "");
  return MISSING.find(([start]) => below === start || below.startsWith(`${start}/`))?.[1] ?? null;
}
