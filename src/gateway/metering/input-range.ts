/**
 * How much a request may have the model read: at least about, and at most. The most is a bound where there is one; an
 * upstream's own tools read as often as they like, and for them another window's worth has to do.
 */

import type { InputReach } from "../../protocols/shared/input-reach.ts";
import type { Endpoint, ModelRequest } from "../../protocols/shared/request.ts";
import { type InputEstimates, OVERHEAD_TOKENS } from "./input-estimate.ts";
import { MEDIA_TOKENS, PICTURE_TOKENS_MAX } from "./media.ts";

/** Where a model's own is not known. */
const CONTEXT_TOKENS_UNKNOWN = 128_000;
/** What a file, a kept conversation or a stored prompt usually comes to, when nobody has counted it. */
const UNSEEN_TOKENS_USUAL = 8_192;
/** A picture that was drawn in a conversation is in none of its counts, and is read in the next turn. */
const KEPT_MORE_TOKENS = PICTURE_TOKENS_MAX;

type Asked = Pick<ModelRequest, "publicModel" | "inputSize" | "inputReach" | "readsKept">;

/** `keptTokens`: as long as the conversation was that the upstream keeps; null where that is not known. */
export function inputLeast(
  estimates: Pick<InputEstimates, "estimate">,
  request: Asked,
  contextTokens: number | null,
  keptTokens: number | null,
): number {
  const reach = request.inputReach();
  const { textBytes, remotePictures, remoteFiles } = reach;
  const { media } = request.inputSize();
  const own = estimates.estimate(request.publicModel, { textBytes, media });
  const unseen = Math.min(UNSEEN_TOKENS_USUAL, contextTokens ?? UNSEEN_TOKENS_USUAL);
  // What tools found for it was counted too, and is not read again.
  const counted = keptTokens === null ? unseen : Math.min(keptTokens, contextTokens ?? keptTokens);
  const kept = isKept(request, reach) ? counted : 0;
  return own + remotePictures * MEDIA_TOKENS + remoteFiles * unseen + kept;
}

export function inputMost(
  request: Asked,
  family: Endpoint["interface"],
  contextTokens: number | null,
  keptTokens: number | null,
): number {
  // No tokenizer makes more than one token of a byte.
  const text = request.inputReach().textBytes + OVERHEAD_TOKENS;
  return besideText(text, request, family, contextTokens, keptTokens);
}

/**
 * The upper estimate: everything that cannot be counted beforehand at its bound, and text, which can, as estimated.
 * For requests that are not text alone.
 */
export function inputFirm(
  estimates: Pick<InputEstimates, "estimate">,
  request: Asked,
  family: Endpoint["interface"],
  contextTokens: number | null,
  keptTokens: number | null,
): number {
  const { textBytes } = request.inputReach();
  const text = estimates.estimate(request.publicModel, { textBytes, media: 0 });
  return besideText(text, request, family, contextTokens, keptTokens);
}

function besideText(
  text: number,
  request: Asked,
  family: Endpoint["interface"],
  contextTokens: number | null,
  keptTokens: number | null,
): number {
  const reach = request.inputReach();
  const window = contextTokens ?? CONTEXT_TOKENS_UNKNOWN;
  if (family === "images") return text + (reach.pictures + reach.files) * PICTURE_TOKENS_MAX;
  // A batch: each of its texts has a window of its own.
  if (family === "embeddings") return text;
  const kept = !isKept(request, reach) ? 0 : keptTokens === null ? window : keptAtMost(keptTokens);
  const files = reach.files > 0 ? window : 0;
  const all = text + reach.pictures * PICTURE_TOKENS_MAX + files + kept;
  const once = contextTokens === null ? all : Math.min(all, contextTokens);
  return reach.hostsTools ? once + window : once;
}

/** Another model may count it otherwise than the one that had it so far, but hardly twice as long. */
function keptAtMost(tokens: number): number {
  return tokens + Math.max(tokens, KEPT_MORE_TOKENS);
}

/** Whether what its upstream counts says how long its text is. */
export function isTextAlone(request: Asked): boolean {
  const reach = request.inputReach();
  return reach.pictures + reach.files === 0 && !reach.hostsTools && !isKept(request, reach);
}

function isKept({ readsKept }: Asked, { namesKept }: InputReach): boolean {
  return readsKept || namesKept;
}
