/** What an upstream says when it refuses, and who hears of it (in the words of `publicMessage`). */

import { isObject } from "../wire/json-parse.ts";

export interface UpstreamError {
  code: string | null;
  type: string | null;
  param: string | null;
  /** As the upstream wrote it: never shown to anyone before `publicMessage`. */
  message: string;
  /** When the limit that was hit frees, if the error says so in a field of its own. */
  resetsInMs?: number;
  resetsAtMs?: number;
}

/** Finds the error in a JSON body or event of any OpenAI-like upstream; null if there is none. */
export function readUpstreamError(json: unknown): UpstreamError | null {
  if (!isObject(json)) return null;
  const response = json.response;
  const error = json.error ?? (isObject(response) ? response.error : undefined) ?? flatError(json);
  if (typeof error === "string") return { code: null, type: null, param: null, message: error };
  if (!isObject(error)) return null;
  return {
    code: textOf(error.code),
    type: textOf(error.type),
    param: textOf(error.param),
    message: textOf(error.message) ?? "",
    ...resetOf(error),
  };
}

function resetOf(error: Record<string, unknown>): Pick<UpstreamError, "resetsInMs" | "resetsAtMs"> {
  const { resets_in_seconds: seconds, resets_at: at } = error;
  if (typeof seconds === "number" && seconds >= 0) return { resetsInMs: seconds * 1000 };
  return typeof at === "number" && at > 0 ? { resetsAtMs: at * 1000 } : {};
}

/** The SSE `error` event carries its fields at the top; so do the errors of vLLM, under `object`. */
function flatError(json: Record<string, unknown>): unknown {
  return (json.type === "error" || json.object === "error") && json.message !== undefined ? json : undefined;
}

/** What an upstream may know the account by. */
export interface AccountNames {
  readonly name: string;
  readonly credential: string | null;
  readonly baseUrl: string;
}

export interface Audience {
  publicModel: string;
  upstreamModel: string;
  /** Whose words these are; null before there was an account. */
  account: AccountNames | null;
  /** The client asked for embeddings in Base64. */
  wantsBase64?: boolean;
  /** True if the client's own request contains the word, so that repeating it tells nothing new. */
  mentions(word: string): boolean;
}

function textOf(value: unknown): string | null {
  return typeof value === "string" ? value : typeof value === "number" ? String(value) : null;
}
