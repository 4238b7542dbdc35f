/** What an upstream says when it refuses, and who hears of it (in the words of `publicMessage`). */

import { isObject } from "../../json/parse.ts";

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

/**
 * The same of servers that only resemble OpenAI's: FastAPI has `detail`, Google puts the error into a list, and some have
 * no more than a `message`.
 */
export function readRefusal(json: unknown): UpstreamError | null {
  const body = Array.isArray(json) ? json[0] : json;
  if (!isObject(body)) return null;
  const { detail, message } = body;
  return (
    readUpstreamError(body) ??
    detailOf(detail) ??
    (typeof message === "string" ? readUpstreamError({ error: body }) : null)
  );
}

/** One sentence, or a list of the fields that are wrong: the first is told. */
function detailOf(detail: unknown): UpstreamError | null {
  if (typeof detail === "string") return readUpstreamError({ error: detail });
  const first: unknown = Array.isArray(detail) ? detail[0] : null;
  if (!isObject(first) || typeof first.msg !== "string") return null;
  const path = pathOf(first.loc);
  return {
    code: null,
    type: null,
    param: path,
    message: path === null ? first.msg : `${path}: ${first.msg}`,
  };
}

/** `["body", "messages", 0, "content"]` is what OpenAI calls `messages[0].content`. */
function pathOf(loc: unknown): string | null {
  if (!Array.isArray(loc) || loc[0] !== "body" || loc.length === 1) return null;
  return loc
    .slice(1)
    .map((step, at) => (typeof step === "number" ? `[${step}]` : at === 0 ? String(step) : `.${step}`))
    .join("");
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
