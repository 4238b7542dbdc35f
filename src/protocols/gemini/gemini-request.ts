/**
 * Reads from a Gemini request what routing, metering and admission need, and forwards its bytes as received. The model
 * and whether to stream are in the path; the body names the model only in a few places, which are rewritten.
 */

import type { Part } from "../../base/parts.ts";
import { partBytes } from "../../base/parts.ts";
import { paramError } from "../../errors.ts";
import type { RequestedTier } from "../../money/token-counts.ts";
import { readConversationStart } from "../shared/conversation-name.ts";
import type { Endpoint } from "../shared/endpoint.ts";
import { type InputContents, measureInputContents } from "../shared/input-contents.ts";
import { estimateTokens, type InputSize, inlineMarkers, measureInputSize } from "../shared/input-size.ts";
import type { JsonRequestLimits } from "../shared/json-request.ts";
import { checkListBounds } from "../shared/list-bounds.ts";
import { GEMINI_BASE64_MEMBERS } from "../shared/media-members.ts";
import type { InputText, ModelRequest, RequestBody, ScannedBody } from "../shared/request.ts";
import { type SearchOffer, UNLIMITED_SEARCH } from "../shared/search-limit.ts";
import { readRequestedTier } from "../shared/service-tier.ts";
import { GeminiBody } from "./gemini-body.ts";
import {
  type ConfigScan,
  type GeminiScan,
  pick,
  readCandidateCount,
  readOutputLimit,
  readThinkingLevel,
  scanConfig,
  scanGeminiBody,
} from "./gemini-fields.ts";
import { type GeminiFindings, searchGeminiBody } from "./gemini-splices.ts";

const INLINE_MARKERS = inlineMarkers(GEMINI_BASE64_MEMBERS);

/** What the inspection thread found in a long body. Plain data. */
export interface GeminiInspection {
  readonly kind: "gemini";
  readonly scan: GeminiScan;
  readonly config: ConfigScan | null;
  readonly size: InputSize;
  readonly contents: InputContents;
  readonly conversationName: string | null;
  readonly findings: GeminiFindings;
}

interface GeminiRequestOptions {
  readonly onDispose?: (() => void) | null;
  readonly inspection?: GeminiInspection | null;
  /** Null: the body is scanned. */
  readonly scan?: GeminiScan | null;
}

/** The body ends at the end of its array; bytes before it are ignored. */
export function readGeminiRequest(
  body: Part,
  endpoint: Endpoint,
  limits: JsonRequestLimits,
  options: GeminiRequestOptions = {},
): ModelRequest {
  return new GeminiRequest(body, endpoint, limits, options);
}

export function inspectGeminiBody(
  body: Part,
  endpoint: Endpoint,
  limits: JsonRequestLimits,
): GeminiInspection {
  const request = new GeminiRequest(body, endpoint, limits, {});
  return {
    kind: "gemini",
    scan: request.scan,
    config: request.config,
    size: request.inputSize(),
    contents: request.inputContents(),
    conversationName: request.conversationName(),
    findings: searchGeminiBody(body, { scan: request.scan, depthMax: limits.depthMax }),
  };
}

class GeminiRequest implements ModelRequest {
  publicModel: string;
  readonly stream: boolean;
  readonly hidesUsage = false;
  readonly wantsBase64 = false;
  readonly choices: number;
  readonly previousResponseId = null;
  readonly readsStored: boolean;
  readonly storesResponse = false;
  readonly background = false;
  outputTokensMax: number | null;
  readonly imageKind = null;
  readonly inputText: InputText;
  readonly body: RequestBody;
  readonly scan: GeminiScan;
  readonly config: ConfigScan | null;
  readonly #part: Part;
  readonly #inspection: GeminiInspection | null;
  #size: InputSize | null;
  #contents: InputContents | null;

  constructor(
    part: Part,
    endpoint: Endpoint,
    limits: JsonRequestLimits,
    { onDispose = null, inspection = null, scan = null }: GeminiRequestOptions,
  ) {
    const { bytes } = part;
    this.#part = part;
    this.#inspection = inspection;
    this.#size = inspection?.size ?? null;
    this.#contents = inspection?.contents ?? null;
    this.scan = inspection?.scan ?? scan ?? scanGeminiBody(part, limits.depthMax);
    this.publicModel = requireModel(endpoint, limits.modelNameCharsMax);
    this.stream = endpoint.streaming === "always";
    endpoint.checkContent(bytes, this.scan.fields);
    if (inspection === null) checkListBounds(bytes, this.scan);
    this.config = inspection === null ? scanConfig(bytes, this.scan, limits.depthMax) : inspection.config;
    this.choices = readCandidateCount(bytes, this.config);
    this.outputTokensMax = readOutputLimit(bytes, this.config);
    const cached = pick(this.scan.fields, "cachedContent", "cached_content");
    this.readsStored = cached !== undefined && cached.kind !== "null";
    this.inputText = { kind: "json", body: part, values: this.scan.values };
    this.body = new GeminiBody(part, {
      scan: this.scan,
      config: this.config,
      depthMax: limits.depthMax,
      onDispose,
      findings: inspection?.findings ?? null,
    });
  }

  /** Google itself rejects an invalid limit, and treats none of them as unlimited. */
  checkBounds(): void {}

  lowerOutputLimit(tokens: number): void {
    this.outputTokensMax = Math.min(tokens, this.outputTokensMax ?? tokens);
  }

  scannedBody(): ScannedBody {
    return { part: this.#part, scan: this.scan };
  }

  reasoningEffort(): string | null {
    return readThinkingLevel(this.#part.bytes, this.config);
  }

  requestedTier(): RequestedTier | null {
    const tier = pick(this.scan.fields, "serviceTier", "service_tier");
    return readRequestedTier(this.#part.bytes, tier);
  }

  tokensEstimate(): number {
    return estimateTokens(this.inputSize(), this);
  }

  inputSize(): InputSize {
    this.#size ??= measureInputSize(partBytes(this.#part), INLINE_MARKERS);
    return this.#size;
  }

  inputContents(): InputContents {
    this.#contents ??= measureInputContents(partBytes(this.#part), this.inputSize());
    return this.#contents;
  }

  /** Google has no limit for searches. Cached content, the only content that a request can name, may have tools. */
  searchOffer(): SearchOffer | null {
    return this.readsStored || this.inputContents().searchesWeb ? UNLIMITED_SEARCH : null;
  }

  conversationName(): string | null {
    if (this.#inspection !== null) return this.#inspection.conversationName;
    return readConversationStart(this.#part.bytes, this.scan.fields.contents);
  }
}

function requireModel({ model = "" }: Endpoint, charsMax: number): string {
  if (model !== "" && model.length <= charsMax) return model;
  throw paramError(
    "model",
    "invalid_value",
    `The model in the path must be 1 to ${charsMax} characters long.`,
  );
}
