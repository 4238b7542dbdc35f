/**
 * The range of input tokens of a request: about the least, and the most. The most is a strict bound except for hosted
 * tools, which can read any number of times: for them one more context window is assumed.
 */

import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import type { InputContents } from "../../protocols/shared/input-contents.ts";
import { MEDIA_TOKENS } from "../../protocols/shared/media-members.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import { type InputEstimates, OVERHEAD_TOKENS } from "./input-estimate.ts";
import { PICTURE_TOKENS_MAX } from "./media.ts";

/** If the model's context window is not known. */
const CONTEXT_TOKENS_UNKNOWN = 128_000;
/** The usual size of a file, a stored conversation or a stored prompt that has not been counted. */
const UNCOUNTED_TOKENS_USUAL = 8_192;
/** An image generated in a conversation is not in its counts, and is read in the next turn. */
const STORED_EXTRA_TOKENS = PICTURE_TOKENS_MAX;

type InputRequest = Pick<ModelRequest, "publicModel" | "inputSize" | "inputContents" | "readsStored">;

export interface InputTerms {
  readonly output: Endpoint["output"];
  readonly contextTokens: number | null;
  /** The length of the conversation that the upstream stores; null if unknown. */
  readonly conversationTokens: number | null;
}

export function estimateInputMin(
  estimates: Pick<InputEstimates, "estimate">,
  request: InputRequest,
  { contextTokens, conversationTokens }: Omit<InputTerms, "output">,
): number {
  const contents = request.inputContents();
  const { textBytes, remotePictures, remoteFiles } = contents;
  const { media } = request.inputSize();
  const ownTokens = estimates.estimate(request.publicModel, { textBytes, media });
  const unseen = Math.min(UNCOUNTED_TOKENS_USUAL, contextTokens ?? UNCOUNTED_TOKENS_USUAL);
  // Includes results of hosted tools, which are not read again.
  const counted =
    conversationTokens === null ? unseen : Math.min(conversationTokens, contextTokens ?? conversationTokens);
  const storedTokens = readsStoredInput(request, contents) ? counted : 0;
  return ownTokens + remotePictures * MEDIA_TOKENS + remoteFiles * unseen + storedTokens;
}

export function computeInputMax(request: InputRequest, terms: InputTerms): number {
  // No tokenizer produces more than one token per byte.
  const text = request.inputContents().textBytes + OVERHEAD_TOKENS;
  return addNonText(text, request, terms);
}

/**
 * The upper estimate: everything that cannot be counted beforehand at its bound, and text as estimated. For requests
 * with more than text.
 */
export function estimateInputUpper(
  estimates: Pick<InputEstimates, "estimate">,
  request: InputRequest,
  terms: InputTerms,
): number {
  const { textBytes } = request.inputContents();
  const text = estimates.estimate(request.publicModel, { textBytes, media: 0 });
  return addNonText(text, request, terms);
}

function addNonText(
  text: number,
  request: InputRequest,
  { output, contextTokens, conversationTokens }: InputTerms,
): number {
  const contents = request.inputContents();
  const window = contextTokens ?? CONTEXT_TOKENS_UNKNOWN;
  if (output === "image") return text + (contents.pictures + contents.files) * PICTURE_TOKENS_MAX;
  // A batch: each text has its own context window.
  if (output === "vector") return text;
  const storedTokens = !readsStoredInput(request, contents)
    ? 0
    : conversationTokens === null
      ? window
      : maxStoredTokens(conversationTokens);
  const files = contents.files > 0 ? window : 0;
  const total = text + contents.pictures * PICTURE_TOKENS_MAX + files + storedTokens;
  const perPass = contextTokens === null ? total : Math.min(total, contextTokens);
  return contents.hostsTools ? perPass + window : perPass;
}

/** Another model may count the conversation differently, but hardly at twice the length. */
function maxStoredTokens(tokens: number): number {
  return tokens + Math.max(tokens, STORED_EXTRA_TOKENS);
}

/** Whether the reported input tokens are those of its text alone. */
export function isTextAlone(request: InputRequest): boolean {
  const contents = request.inputContents();
  return (
    contents.pictures + contents.files === 0 && !contents.hostsTools && !readsStoredInput(request, contents)
  );
}

function readsStoredInput({ readsStored }: InputRequest, { referencesItems }: InputContents): boolean {
  return readsStored || referencesItems;
}
