/**
 * What a request used: as its upstream says; counted from the text where it says nothing; and not believed where it
 * cannot be.
 */

import { isPaidByPiece, type Tariff } from "../../money/tariff.ts";
import { partBytes } from "../../net/wire/parts.ts";
import type { EndpointName, ModelRequest } from "../../protocols/shared/request.ts";
import { isImpossibleUsage, type TokenUsage } from "../../protocols/shared/usage.ts";
import type { UsageFlag, UsageSource, UsageTokens } from "../../store/usage/usage-row.ts";
import { countInput } from "./count-input.ts";
import { countTexts } from "./count-request.ts";
import type { CountedOutput } from "./counted-output.ts";
import { imageOutputTokens } from "./media.ts";

/** What is known at the end of a request. */
export interface UsageEvidence {
  usage: TokenUsage | null;
  images: number;
  /** Size and quality of the pictures: as asked for, or as told where that was left open. */
  imageKind: string | null;
  /** The answer came to its end; otherwise it broke off, or was let go when its client left. */
  isWhole: boolean;
  /** The text that came, counted; null for answers that are no text. */
  countOutput: (() => Promise<CountedOutput>) | null;
}

export interface MeasuredUsage {
  tokens: UsageTokens;
  source: UsageSource;
  flags: readonly UsageFlag[];
  /** The count that the upstream reported cannot be true. */
  isAbsurd: boolean;
}

export interface ModelBounds {
  contextTokens: number | null;
  outputTokensMax: number | null;
}

export interface MeteredModel extends ModelBounds {
  tariff: Tariff | null;
}

/** These alone, to be remembered: what is published holds on to the whole policy of its time. */
export function meteringTerms({ tariff, contextTokens, outputTokensMax }: MeteredModel): MeteredModel {
  return { tariff, contextTokens, outputTokensMax };
}

const NO_TOKENS: UsageTokens = {
  inputTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  imageInputTokens: 0,
  audioInputTokens: 0,
  audioOutputTokens: 0,
  images: 0,
};

const NO_FLAGS: readonly UsageFlag[] = [];

/** What the upstream reported, or nothing. */
export function asReported(usage: TokenUsage | null, images: number): MeasuredUsage {
  const source = usage === null ? "none" : "upstream";
  return { tokens: toTokens(usage, images), source, flags: NO_FLAGS, isAbsurd: false };
}

function toTokens(usage: TokenUsage | null, images: number): UsageTokens {
  if (usage === null) return { ...NO_TOKENS, images };
  return {
    inputTokens: usage.inputTokens,
    cachedTokens: usage.cachedTokens,
    cacheWriteTokens: usage.cacheWriteTokens,
    outputTokens: usage.outputTokens,
    reasoningTokens: usage.reasoningTokens,
    imageInputTokens: usage.imageInputTokens,
    audioInputTokens: usage.audioInputTokens,
    audioOutputTokens: usage.audioOutputTokens,
    images,
  };
}

/**
 * Input and output were reported, and at the end of the answer. Some servers fill in zeros where they do not count:
 * that reports nothing.
 */
export function isWholeCount({ lacks, isEarly, inputTokens, outputTokens }: TokenUsage): boolean {
  return lacks === null && !isEarly && inputTokens + outputTokens > 0;
}

/** Nothing is left to be counted. Pictures that took no output tokens were not counted by their upstream either. */
export function reportsAll(usage: TokenUsage | null, images: number): usage is TokenUsage {
  return usage !== null && isWholeCount(usage) && (images === 0 || usage.outputTokens > 0);
}

/** A promise only where something has to be counted. */
export function measure(
  evidence: UsageEvidence,
  endpoint: EndpointName,
  request: ModelRequest,
  model: MeteredModel,
): MeasuredUsage | Promise<MeasuredUsage> {
  const { usage, images } = evidence;
  if (usage !== null && !isCredible(usage, endpoint, request, model)) return implausibleUsage(images);
  if (reportsAll(usage, images)) return asReported(usage, images);
  return counted(evidence, endpoint, request, model.tariff);
}

/** Nothing of a false count is written down: sums, charts and windows would repeat it. */
export function implausibleUsage(images: number): MeasuredUsage {
  return { tokens: toTokens(null, images), source: "upstream", flags: ["clamped"], isAbsurd: true };
}

/** Where nothing could be counted: the input as it was estimated before the answer began. */
export function estimatedInput(
  inputTokens: number,
  images: number,
  how: "estimated" | "partial" = "estimated",
): MeasuredUsage {
  return { tokens: { ...NO_TOKENS, inputTokens, images }, source: how, flags: [how], isAbsurd: false };
}

/** Whether an upstream's count can be true. */
export function isCredible(
  usage: TokenUsage,
  endpoint: EndpointName,
  request: ModelRequest,
  bounds: ModelBounds,
): boolean {
  return !isImpossibleUsage(usage, boundsFor(endpoint, request, bounds), request.choices);
}

async function counted(
  evidence: UsageEvidence,
  endpoint: EndpointName,
  request: ModelRequest,
  tariff: Tariff | null,
): Promise<MeasuredUsage> {
  const { usage, images, isWhole } = evidence;
  const isNought = usage !== null && usage.inputTokens + usage.outputTokens === 0;
  const isInputTold =
    usage !== null && !isNought && usage.lacks !== "input" && !(usage.isEarly && usage.inputTokens === 0);
  const told = usage !== null && usage.lacks !== "output" ? usage : null;
  const [inputTokens, output] = await Promise.all([
    isInputTold ? usage.inputTokens : countInputTokens(request, endpoint),
    // A report that came too early holds only if nothing more was said after it, and one of 0 only if nothing came.
    told === null || told.isEarly || told.outputTokens === 0 ? atLeast(told, evidence, tariff) : told,
  ]);
  // Of an embedding no word is heard, and it had an input.
  const isNoughtTrue = isNought && images === 0 && endpoint !== "embeddings";
  if ((isInputTold || isNoughtTrue) && output === told) return asReported(usage, images);
  const { outputTokens, reasoningTokens } = output;
  const how = isWhole ? "estimated" : "partial";
  return {
    tokens: { ...toTokens(usage, images), inputTokens, outputTokens, reasoningTokens },
    source: how,
    flags: [how],
    isAbsurd: false,
  };
}

async function atLeast(
  told: TokenUsage | null,
  evidence: UsageEvidence,
  tariff: Tariff | null,
): Promise<CountedOutput> {
  const came = (await evidence.countOutput?.()) ?? drawn(evidence, tariff, (told?.outputTokens ?? 0) > 0);
  return told !== null && told.outputTokens >= came.outputTokens ? told : came;
}

/** An upstream bills every picture it has begun: by the piece where pictures have such a price, else by tokens. */
function drawn(
  { images, imageKind }: UsageEvidence,
  tariff: Tariff | null,
  isByTokens: boolean,
): CountedOutput {
  const isByPiece = !isByTokens && (tariff === null || isPaidByPiece(tariff, imageKind));
  return { outputTokens: isByPiece ? 0 : images * imageOutputTokens(imageKind), reasoningTokens: 0 };
}

/** What a request gives the model to read, as its body says it. */
export function countInputTokens({ inputText }: ModelRequest, endpoint: EndpointName): Promise<number> {
  return inputText.kind === "json"
    ? countInput(partBytes(inputText.body), endpoint)
    : countTexts(inputText.texts);
}

/** A batch of embeddings, and a response whose tools were called upstream, read more than one window's worth. */
function boundsFor(endpoint: EndpointName, request: ModelRequest, bounds: ModelBounds): ModelBounds {
  const readsOnce = endpoint === "chat.completions" && request.previousResponseId === null;
  return readsOnce ? bounds : { ...bounds, contextTokens: null };
}
