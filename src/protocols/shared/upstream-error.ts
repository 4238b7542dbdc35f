/** Reads the errors of upstreams. `publicMessage` rewrites them for clients. */

import type { Part } from "../../base/parts.ts";
import { isObject } from "../../json/parse.ts";
import { type BoundFault, parseWithin } from "./event-bounds.ts";
import { isGoogleError, readGoogleError } from "./google-error.ts";

export interface UpstreamError {
  code: string | null;
  type: string | null;
  param: string | null;
  /** As the upstream wrote it: never shown to a client before `publicMessage`. */
  message: string;
  /** Groq: the client's own output, which it may see. */
  failedGeneration?: string;
  /** When the exceeded limit resets, if the error has a field for it. */
  resetsInMs?: number;
  resetsAtMs?: number;
  /** The gateway's own error: the response exceeds a bound of `count-limits.ts`. The message may be shown. */
  isOutOfBounds?: boolean;
}

/** The error of an upstream that reports a failure and nothing else. */
export const UNKNOWN_ERROR: UpstreamError = { code: null, type: null, param: null, message: "" };

export function outOfBoundsError({ max, what }: BoundFault): UpstreamError {
  const message = `The response has more than ${max.toLocaleString("en-US")} ${what}.`;
  return { ...UNKNOWN_ERROR, message, isOutOfBounds: true };
}

export function readFailure(part: Part): UpstreamError {
  return readUpstreamError(parseWithin(part)) ?? UNKNOWN_ERROR;
}

/** Finds the error in a JSON body or event of any OpenAI-compatible upstream; null if there is none. */
export function readUpstreamError(json: unknown): UpstreamError | null {
  if (!isObject(json)) return null;
  const response = json.response;
  const error = json.error ?? (isObject(response) ? response.error : undefined) ?? flatError(json);
  if (typeof error === "string") return { code: null, type: null, param: null, message: toText(error) ?? "" };
  if (!isObject(error)) return null;
  if (isGoogleError(error)) return withShortTexts(readGoogleError(error));
  return {
    code: toText(error.code) ?? (isObject(error.details) ? toText(error.details.error_code) : null),
    type: toText(error.type),
    param: toText(error.param),
    message: toText(error.message) ?? "",
    ...readGeneration(error.failed_generation),
    ...readReset(error),
  };
}

/**
 * The same for servers that only resemble OpenAI's: FastAPI uses `detail`, Google wraps the error in a list, and some
 * send only a `message`.
 */
export function readRejection(json: unknown): UpstreamError | null {
  const body = Array.isArray(json) ? json[0] : json;
  if (!isObject(body)) return null;
  const { detail, message } = body;
  return (
    readUpstreamError(body) ??
    readDetail(detail) ??
    (typeof message === "string" ? readUpstreamError({ error: body }) : null)
  );
}

/**
 * Amazon names the exception in the header `x-amzn-errortype`, with an address after a colon, and writes `message` in
 * either case. Returns null without such a header.
 */
export function readExceptionError(errorType: string | null, json: unknown): UpstreamError | null {
  const type = errorType === null ? undefined : /^[A-Za-z]{1,64}/.exec(errorType)?.[0];
  if (type === undefined) return null;
  const body = isObject(json) ? json : {};
  return { code: null, type, param: null, message: toText(body.message ?? body.Message) ?? "" };
}

/** One sentence, or a list of invalid fields, of which the first is used. */
function readDetail(detail: unknown): UpstreamError | null {
  if (typeof detail === "string") return readUpstreamError({ error: detail });
  const first: unknown = Array.isArray(detail) ? detail[0] : null;
  if (!isObject(first) || typeof first.msg !== "string") return null;
  const path = formatPath(first.loc);
  return {
    code: null,
    type: null,
    param: path,
    message: path === null ? first.msg : `${path}: ${first.msg}`,
  };
}

/** `["body", "messages", 0, "content"]` is `messages[0].content` in OpenAI's notation. */
function formatPath(loc: unknown): string | null {
  if (!Array.isArray(loc) || loc[0] !== "body" || loc.length === 1) return null;
  return loc
    .slice(1)
    .map((step, at) => (typeof step === "number" ? `[${step}]` : at === 0 ? String(step) : `.${step}`))
    .join("");
}

/** No longer than that of a response that is read whole as an error. */
const GENERATION_CHARS_MAX = 64 * 1024;

function readGeneration(text: unknown): Pick<UpstreamError, "failedGeneration"> {
  return typeof text === "string" && text.length <= GENERATION_CHARS_MAX ? { failedGeneration: text } : {};
}

function readReset(error: Record<string, unknown>): Pick<UpstreamError, "resetsInMs" | "resetsAtMs"> {
  const { resets_in_seconds: seconds, resets_at: at } = error;
  if (typeof seconds === "number" && seconds >= 0) return { resetsInMs: seconds * 1000 };
  return typeof at === "number" && at > 0 ? { resetsAtMs: at * 1000 } : {};
}

/** The SSE `error` event has its fields at the top level; so do errors of vLLM, with `object`. */
function flatError(json: Record<string, unknown>): unknown {
  return (json.type === "error" || json.object === "error") && json.message !== undefined ? json : undefined;
}

export interface AccountNames {
  readonly name: string;
  readonly credential: string | null;
  readonly baseUrl: string;
  readonly project?: string | null;
  /** Public model → upstream model. */
  readonly models?: Readonly<Record<string, string>>;
}

export interface Audience {
  publicModel: string;
  upstreamModel: string;
  /** The account whose message this is; null before an account was selected. */
  account: AccountNames | null;
  wantsBase64?: boolean;
  /** True if the client's own request contains the word, so that repeating it reveals nothing. */
  mentions(word: string): boolean;
}

/** A longer text is cut: a message is searched by several expressions, and crosses to the event loop from a thread. */
const TEXT_CHARS_MAX = 16 * 1024;

function withShortTexts(error: UpstreamError): UpstreamError {
  const { code, type, param, message } = error;
  return {
    ...error,
    code: toText(code),
    type: toText(type),
    param: toText(param),
    message: toText(message) ?? "",
  };
}

function toText(value: unknown): string | null {
  if (typeof value === "string") return value.slice(0, TEXT_CHARS_MAX);
  return typeof value === "number" ? String(value) : null;
}
