/**
 * What an upstream says when it refuses, made fit for a client: the reason stays, whatever could name an
 * account, an organisation or a credential goes.
 */

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

/** The SSE `error` event carries its fields at the top. */
function flatError(json: Record<string, unknown>): unknown {
  return json.type === "error" && json.message !== undefined ? json : undefined;
}

export interface Audience {
  publicModel: string;
  upstreamModel: string;
  /** It asked for embeddings in Base64. */
  wantsBase64?: boolean;
  /** True if the client's own request contains the word, so that repeating it tells nothing new. */
  mentions(word: string): boolean;
}

/** Names of the API that a message may need in order to help, beyond plain words. */
const API_WORDS = new Set(
  (
    "max_tokens max_completion_tokens max_output_tokens tool_choice tool_calls tool_call_id call_id " +
    "parallel_tool_calls response_format json_schema json_object reasoning_effort stream_options include_usage " +
    "previous_response_id prompt_cache_key service_tier top_p top_k top_logprobs logit_bias presence_penalty " +
    "frequency_penalty input_text output_text input_image image_url input_file file_data function_call " +
    "function_call_output custom_tool_call encrypted_content context_length_exceeded invalid_request_error " +
    "content_filter response_id item_reference output_format input_fidelity partial_images encoding_format " +
    "tool_call_ids additionalProperties patternProperties base64 base64-encoded UTF-8 e.g i.e"
  ).split(" "),
);

/** What a parameter's path is made of, so that `messages[0].content` passes and `host.example.com` does not. */
const PARAM_NAMES = new Set(
  (
    "messages input tools functions text reasoning metadata prompt image images mask audio content role name url " +
    "function parameters type format schema arguments id output strict description detail file_id filename data " +
    "summary effort properties items status refusal"
  ).split(" "),
);
/** The last bracket may have been taken for punctuation. */
const PARAM_PATH = /^[A-Za-z_]\w*(?:\[\d{1,6}(?:\]|$)|\.[A-Za-z_]\w*)+$/;

const MESSAGE_CHARS_MAX = 1000;
const PLAIN_WORD = /^[A-Za-z]?[a-z']{0,19}$/;
/** Never with two dots: that is an address. */
const NUMBER = /^(?:\d{1,9}(?:,\d{3})*(?:\.\d{1,9})?%?|\d{2,5}x\d{2,5})$/;
const EDGES = /^([("'`[{<]*)(.*?)([)"'`\]}>.,;:!?]*)$/s;

/**
 * A word is kept if it is a plain word, a number, a name of the API, or something the client itself sent.
 * Everything else (ids, organisations, hosts, addresses, keys, whatever an upstream invents) is left out:
 * a list of bad shapes would always lack one.
 */
export function publicMessage(message: string, audience: Audience): string {
  const words = beginningOf(message)
    .replaceAll(audience.upstreamModel, () => audience.publicModel)
    .split(/\s+/)
    .filter((word) => word !== "")
    .map((word) => {
      const [, before = "", core = "", after = ""] = EDGES.exec(word) ?? [];
      return isSafeWord(core, audience) ? word : `${before}[redacted]${after}`;
    });
  return words.join(" ").replace(/\[redacted\](?: \[redacted\])+/g, "[redacted]");
}

/** Cut between words: half a secret can look like a plain word. */
function beginningOf(message: string): string {
  if (message.length <= MESSAGE_CHARS_MAX) return message;
  return message.slice(0, MESSAGE_CHARS_MAX).replace(/\S+$/, "");
}

/** Words that a hyphen or slash joins in ordinary prose. Any two words would let names such as `acme-prod` through. */
const JOINED_WORDS =
  /^(?:non|pre|re|multi|sub|self|well|read|write|one|two|long|short|real|built|rate|zero|null|time|up|in|out|top|full|end|and|base64|mid|per|input|output)[-/][a-z]{1,14}$/i;

function isSafeWord(word: string, audience: Audience): boolean {
  if (PLAIN_WORD.test(word) || NUMBER.test(word) || API_WORDS.has(word)) return true;
  if (word === audience.publicModel) return true;
  if (/^[A-Za-z]{1,12}$/.test(word) || JOINED_WORDS.test(word)) return true;
  if (PARAM_PATH.test(word) && isSafePath(word, audience)) return true;
  return word.length >= 2 && audience.mentions(word);
}

function isSafePath(path: string, audience: Audience): boolean {
  return path
    .split(/[.[\]]+/)
    .filter((name) => name !== "" && !/^\d+$/.test(name))
    .every((name) => PARAM_NAMES.has(name) || API_WORDS.has(name) || audience.mentions(`"${name}"`));
}

function textOf(value: unknown): string | null {
  return typeof value === "string" ? value : typeof value === "number" ? String(value) : null;
}
