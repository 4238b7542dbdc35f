/**
 * Reads from a JSON body what routing, metering and admission need, without parsing it: the scanner finds the few
 * relevant fields, and the bytes are forwarded as received, with splices.
 */

import { type Part, partBytes } from "../../base/parts.ts";
import { ApiError, paramError } from "../../errors.ts";
import { isValidUtf8, scanObject, wantedFields } from "../../json/scan.ts";
import { describeScanError } from "../../json/scan-error.ts";
import { editMembers, type Splice } from "../../json/splice.ts";
import type { RequestedTier } from "../../money/token-counts.ts";
import { invalidJsonError } from "./body-search.ts";
import { caseVariantError } from "./case-variant-error.ts";
import { readConversationStart } from "./conversation-name.ts";
import type { BodyFields, Endpoint } from "./endpoint.ts";
import { readImageKind } from "./image-kind.ts";
import { type InputContents, measureInputContents } from "./input-contents.ts";
import { estimateTokens, type InputSize, measureInputSize } from "./input-size.ts";
import { checkBounds, JsonBody, outputBound, ROUTING, type RoutingScan } from "./json-body.ts";
import {
  continuesConversation,
  readBackground,
  readCount,
  readModel,
  readPreviousResponse,
  readStream,
  readThread,
  rejectModelChoice,
  wrongTypeError,
} from "./json-fields.ts";
import { checkEmbeddingInputs, checkListBounds } from "./list-bounds.ts";
import { readText } from "./read-text.ts";
import type { InputText, ModelRequest, RequestBody, ScannedBody } from "./request.ts";
import { readSearchOffer, type SearchOffer } from "./search-limit.ts";
import { readRequestedTier } from "./service-tier.ts";

const STREAM_OPTIONS = wantedFields(["include_usage"], { rejectsCaseVariants: true });
const REASONING = wantedFields(["effort"]);
const REASONING_DEPTH_MAX = 16;
const TRUE = new TextEncoder().encode("true");
const INCLUDE_USAGE = new TextEncoder().encode('{"include_usage":true}');

export interface JsonRequestLimits {
  readonly depthMax: number;
  readonly modelNameCharsMax: number;
}

/**
 * The body ends at the end of its array; bytes before it are ignored. `disposed` is called when the body is no longer
 * needed, possibly more than once.
 */
export function readJsonRequest(
  body: Part,
  endpoint: Endpoint,
  limits: JsonRequestLimits,
  onDispose: (() => void) | null = null,
): ModelRequest {
  return new JsonRequest(body, scanRouting(body, limits.depthMax), endpoint, limits, onDispose, null);
}

export function openScannedRequest(
  { part, scan }: ScannedBody,
  endpoint: Endpoint,
  limits: JsonRequestLimits,
  onDispose: (() => void) | null,
): ModelRequest {
  return new JsonRequest(part, scan, endpoint, limits, onDispose, null);
}

/** What the inspection thread found in a long body: everything that requires walking all of it. Plain data. */
export interface BodyInspection {
  readonly scan: RoutingScan;
  readonly usage: readonly Splice[] | null;
  readonly size: InputSize;
  readonly contents: InputContents;
  readonly searchOffer: SearchOffer | null;
  readonly conversationName: string | null;
  readonly isPlain: boolean;
  readonly encryptedReasoning: readonly Splice[];
  readonly sealedState: readonly Splice[];
  readonly shortCallIds: readonly Splice[];
}

/** Throws the error of a body that cannot be served, like `readJsonRequest`. */
export function inspectJsonBody(body: Part, endpoint: Endpoint, limits: JsonRequestLimits): BodyInspection {
  const scan = scanRouting(body, limits.depthMax);
  const { state } = endpoint;
  const request = new JsonRequest(body, scan, endpoint, limits, null, null);
  return {
    scan,
    usage: request.usage,
    size: request.inputSize(),
    contents: request.inputContents(),
    searchOffer: request.searchOffer(),
    conversationName: request.conversationName(),
    isPlain: request.body.isPlain(),
    encryptedReasoning: boundSplices(state?.dropAll(body, scan.fields, limits.depthMax)),
    sealedState: boundSplices(state?.dropSealed(body, scan.fields, limits.depthMax)),
    shortCallIds: endpoint.shortenCallIds?.(body.bytes, scan.fields.messages) ?? [],
  };
}

/** Builds the same request as `readJsonRequest`, without walking through the body again. */
export function openInspectedRequest(
  body: Part,
  inspection: BodyInspection,
  endpoint: Endpoint,
  limits: JsonRequestLimits,
  onDispose: (() => void) | null,
): ModelRequest {
  return new JsonRequest(body, inspection.scan, endpoint, limits, onDispose, inspection);
}

/**
 * More items than any conversation has: such a body is not repaired, and the client gets the upstream's rejection. All
 * splices are sent to the main thread.
 */
const SPLICES_MAX = 10_000;

function boundSplices(splices: readonly Splice[] = []): readonly Splice[] {
  return splices.length > SPLICES_MAX ? [] : splices;
}

/** A class, because a few objects per request are cheaper than closures. */
class JsonRequest implements ModelRequest {
  publicModel: string;
  readonly stream: boolean;
  readonly hidesUsage: boolean;
  readonly wantsBase64: boolean;
  readonly choices: number;
  readonly previousResponseId: string | null;
  readonly readsStored: boolean;
  readonly storesResponse: boolean;
  readonly background: boolean;
  outputTokensMax: number | null;
  readonly imageKind: string | null;
  readonly inputText: InputText;
  readonly body: RequestBody;
  /** Splices that make a chat upstream report usage; null if the client requests it or the request does not stream. */
  readonly usage: readonly Splice[] | null;
  readonly #inspection: BodyInspection | null;
  readonly #part: Part;
  readonly #endpoint: Endpoint;
  readonly #scan: RoutingScan;
  #size: InputSize | null;
  #contents: InputContents | null;
  /** Undefined until it is read. */
  #searchOffer: SearchOffer | null | undefined;
  #ownBytes: Uint8Array | null = null;

  constructor(
    part: Part,
    scan: RoutingScan,
    endpoint: Endpoint,
    limits: JsonRequestLimits,
    onDispose: (() => void) | null,
    inspection: BodyInspection | null,
  ) {
    const { bytes } = part;
    const { fields } = scan;
    this.#part = part;
    this.#inspection = inspection;
    this.#size = inspection?.size ?? null;
    this.#contents = inspection?.contents ?? null;
    this.#searchOffer = inspection?.searchOffer;
    this.#endpoint = endpoint;
    this.#scan = scan;
    this.publicModel = readModel(bytes, fields.model, limits.modelNameCharsMax);
    this.stream = readStream(fields.stream, endpoint);
    if (inspection !== null) this.usage = inspection.usage;
    else {
      rejectModelChoice(fields);
      endpoint.checkContent(bytes, fields);
      if (endpoint.output === "vector") checkEmbeddingInputs(bytes, fields.input);
      else checkListBounds(bytes, scan);
      this.usage =
        endpoint.reportsUsageOnRequest && this.stream ? forceUsage(bytes, scan, limits.depthMax) : null;
    }
    this.hidesUsage = this.usage !== null;
    this.wantsBase64 = endpoint.output === "vector" && readText(bytes, fields.encoding_format) === "base64";
    const storesByDefault = endpoint.stores === "by_default";
    this.background = storesByDefault && readBackground(fields);
    this.outputTokensMax = outputBound(bytes, endpoint, fields);
    this.choices = fields.n ? readCount(bytes, fields.n) : 1;
    const thread = endpoint.stores === "in_threads" ? readThread(bytes, fields.thread) : null;
    this.previousResponseId =
      thread === null ? readPreviousResponse(bytes, fields.previous_response_id) : thread.previousMessageId;
    this.readsStored =
      thread === null
        ? endpoint.continuesResponses && continuesConversation(fields)
        : thread.previousMessageId !== null;
    this.storesResponse = thread !== null || (storesByDefault && fields.store?.kind !== "false");
    this.imageKind =
      endpoint.output === "image"
        ? readImageKind(readText(bytes, fields.size), readText(bytes, fields.quality))
        : null;
    this.inputText = { kind: "json", body: part, values: scan.values };
    this.body = new JsonBody(part, scan, endpoint, this.usage ?? [], limits.depthMax, {
      onDispose,
      inspection,
    });
  }

  checkBounds(): void {
    checkBounds(this.#part.bytes, this.#endpoint, this.#scan.fields);
  }

  lowerOutputLimit(tokens: number): void {
    this.outputTokensMax = Math.min(tokens, this.outputTokensMax ?? tokens);
  }

  scannedBody(): ScannedBody {
    return { part: this.#part, scan: this.#scan };
  }

  reasoningEffort(): string | null {
    const { reasoning, reasoning_effort } = this.#scan.fields;
    const { bytes } = this.#part;
    if (reasoning_effort !== undefined) return readText(bytes, reasoning_effort);
    if (reasoning?.kind !== "object") return null;
    const inner = scanObject(bytes, reasoning.start, reasoning.end, REASONING, {
      depthMax: REASONING_DEPTH_MAX,
    });
    return inner.ok ? readText(bytes, inner.fields.effort) : null;
  }

  requestedTier(): RequestedTier | null {
    const fields: BodyFields = this.#scan.fields;
    for (const name of this.#endpoint.tierFields) {
      const tier = readRequestedTier(this.#part.bytes, fields[name]);
      if (tier !== null) return tier;
    }
    return null;
  }

  tokensEstimate(): number {
    return estimateTokens(this.inputSize(), this);
  }

  /** Searches the whole body, so it is called only if tokens are limited or charged. */
  inputSize(): InputSize {
    this.#size ??= measureInputSize(this.#bodyBytes());
    return this.#size;
  }

  inputContents(): InputContents {
    this.#contents ??= measureInputContents(this.#bodyBytes(), this.inputSize());
    return this.#contents;
  }

  /** A stored prompt may have tools of its own. */
  searchOffer(): SearchOffer | null {
    if (this.#searchOffer !== undefined) return this.#searchOffer;
    const hasPrompt = this.#endpoint.continuesResponses && this.#scan.fields.prompt?.kind === "object";
    this.#searchOffer =
      this.inputContents().searchesWeb || hasPrompt
        ? readSearchOffer(this.#part.bytes, this.#scan, this.#endpoint.searchLimit)
        : null;
    return this.#searchOffer;
  }

  /** Functions that search the whole body need it as a separate array. */
  #bodyBytes(): Uint8Array {
    this.#ownBytes ??= partBytes(this.#part);
    return this.#ownBytes;
  }

  conversationName(): string | null {
    const { fields } = this.#scan;
    const inspection = this.#inspection;
    if (inspection !== null) return inspection.conversationName;
    const { bytes } = this.#part;
    return (
      readText(bytes, fields.prompt_cache_key) ??
      readConversationStart(bytes, fields.messages ?? fields.input)
    );
  }
}

function scanRouting({ bytes, start, end }: Part, depthMax: number): RoutingScan {
  if (!isValidUtf8(bytes, start)) {
    throw new ApiError("invalid_json", "The request body is not valid UTF-8. Send JSON encoded as UTF-8.");
  }
  const scan = scanObject(bytes, start, end, ROUTING, { depthMax });
  if (scan.ok) return scan;
  if (scan.reason === "duplicate_field") {
    const field = scan.field ?? "";
    throw paramError(
      field,
      "duplicate_parameter",
      `The field \`${field}\` appears more than once (${describeScanError(bytes, scan, start)}). Send it once.`,
    );
  }
  if (scan.reason === "case_variant") {
    throw caseVariantError(scan.field ?? "", describeScanError(bytes, scan, start));
  }
  throw invalidJsonError(bytes, scan, start);
}

/** Splices that make a chat upstream report usage; null if the client requests it itself. */
function forceUsage(bytes: Uint8Array, scan: RoutingScan, depthMax: number): Splice[] | null {
  const field = scan.fields.stream_options;
  if (!field || field.kind === "null") return editMembers(bytes, scan, { stream_options: INCLUDE_USAGE });
  if (field.kind !== "object") throw wrongTypeError("stream_options", "an object", field.kind);
  const options = scanObject(bytes, field.start, field.end, STREAM_OPTIONS, { depthMax });
  if (!options.ok) {
    if (options.reason === "case_variant") {
      throw caseVariantError("stream_options.include_usage", describeScanError(bytes, options));
    }
    throw paramError(
      "stream_options",
      "duplicate_parameter",
      "`stream_options.include_usage` appears more than once.",
    );
  }
  if (options.fields.include_usage?.kind === "true") return null;
  return editMembers(bytes, options, { include_usage: TRUE });
}
