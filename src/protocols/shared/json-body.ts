/** The fields of a JSON body that the gateway uses, and the body as sent upstream: the received bytes with splices. */

import { NO_BYTES } from "../../base/bytes.ts";
import { type Part, partBytes } from "../../base/parts.ts";
import { type ApiError, paramError } from "../../errors.ts";
import { integerValue, type JsonField, type ObjectScan, wantedFields } from "../../json/scan.ts";
import {
  addMember,
  editMembers,
  jsonString,
  replaceValue,
  type Splice,
  spliceParts,
} from "../../json/splice.ts";
import { findStringError, mentionsWord } from "./body-search.ts";
import type { BodyFields, Endpoint } from "./endpoint.ts";
import { isPlainBody } from "./plain-body.ts";
import type { HostedForm, KnownPrefix, RequestBody } from "./request.ts";
import { limitSearches, type SearchOffer } from "./search-limit.ts";
import { TOOL_MEMBER_NAMES } from "./tool-kinds.ts";

/** Fields for routing or metering. None may occur twice: parsers differ in which one they keep. */
export const ROUTING_FIELDS = [
  "model",
  "models",
  "fallbacks",
  "stream",
  "stream_options",
  "n",
  "input",
  "messages",
  "system",
  "prompt",
  "store",
  "background",
  "conversation",
  "previous_response_id",
  "prompt_cache_key",
  "max_output_tokens",
  "max_completion_tokens",
  "max_tokens",
  "size",
  "quality",
  "encoding_format",
  "reasoning",
  "reasoning_effort",
  "response_format",
  "text",
  "tools",
  "functions",
  "tool_choice",
  "service_tier",
  "speed",
  "anthropic_version",
  "anthropic_beta",
  "thread",
  "thinking",
  "output_config",
  "parallel_tool_calls",
  "max_tool_calls",
  ...TOOL_MEMBER_NAMES,
  "thinking_budget",
  "enable_thinking",
  "chat_template_kwargs",
  "extra_body",
] as const;
export type RoutingField = (typeof ROUTING_FIELDS)[number];
export type RoutingScan = ObjectScan<RoutingField>;

/** Nor may they occur in another case: decoders that fold case would apply a field that was never checked. */
export const ROUTING = wantedFields(ROUTING_FIELDS, { rejectsCaseVariants: true });

export function isPresent(field: JsonField | undefined): field is JsonField {
  return field !== undefined && field.kind !== "null";
}

/** The larger of two limits: upstreams differ in which one they apply. */
export function outputBound(
  bytes: Uint8Array,
  { outputLimits }: Endpoint,
  fields: BodyFields,
): number | null {
  let tokensMax: number | null = null;
  for (const name of outputLimits) {
    const field = fields[name];
    if (!isPresent(field)) continue;
    const tokens = integerValue(bytes, field);
    // Not a count, and its effect upstream is unknown: some treat -1 as no limit.
    if (tokens === null || tokens < 1) return null;
    tokensMax = Math.max(tokensMax ?? 0, tokens);
  }
  return tokensMax;
}

/** Some upstreams treat this as no limit. */
const UNBOUNDED = -1;

/** Rejects an invalid limit of a paid request: the gateway's replacement might cost more than the client intended. */
export function checkBounds(bytes: Uint8Array, { outputLimits }: Endpoint, fields: BodyFields): void {
  for (const name of outputLimits) {
    const field = fields[name];
    if (!isPresent(field)) continue;
    const tokens = integerValue(bytes, field);
    if (tokens !== null && (tokens >= 1 || tokens === UNBOUNDED)) continue;
    throw paramError(
      name,
      field.kind === "number" ? "invalid_value" : "invalid_type",
      `\`${name}\` must be a whole number of tokens, 1 or more. Remove it to use the model's maximum.`,
    );
  }
}

/** Lowers each limit that is present. If there is none, adds the named one, or else the interface's own. */
function capSplices(
  bytes: Uint8Array,
  { outputLimits }: Endpoint,
  scan: RoutingScan,
  tokens: number,
  preferredName: string | undefined,
): Splice[] {
  const splices: Splice[] = [];
  const fields: BodyFields = scan.fields;
  for (const name of outputLimits) {
    const field = fields[name];
    if (!isPresent(field)) continue;
    const clientTokens = integerValue(bytes, field);
    splices.push(
      replaceValue(
        field,
        digits(clientTokens === null || clientTokens < 1 ? tokens : Math.min(clientTokens, tokens)),
      ),
    );
  }
  if (splices.length > 0) return splices;
  const name = outputLimits.find((one) => one === preferredName) ?? outputLimits[0] ?? "";
  const none = fields[name];
  return [none === undefined ? addMember(scan, name, String(tokens)) : replaceValue(none, digits(tokens))];
}

function digits(count: number): Uint8Array {
  return Buffer.from(String(count));
}

/** What the inspection thread found in a long body. */
interface BodyFindings {
  readonly isPlain: boolean;
  readonly encryptedReasoning: readonly Splice[];
  readonly sealedState: readonly Splice[];
  readonly shortCallIds: readonly Splice[];
}

interface JsonBodyOptions {
  readonly isReduced?: boolean;
  readonly onDispose?: (() => void) | null;
  readonly inspection?: BodyFindings | null;
}

const NO_OPTIONS: JsonBodyOptions = {};
const NO_SPLICES: readonly Splice[] = [];

/** The members that name the model, or that a cloud vendor expects instead. */
function hostedMembers(
  model: Uint8Array,
  form: HostedForm | null,
): { readonly [name in RoutingField]?: Uint8Array | null } {
  if (form?.api !== "messages") return { model };
  const { version, betas, keeps } = form;
  return {
    model: keeps.includes("model") ? model : null,
    ...(keeps.includes("stream") ? {} : { stream: null }),
    anthropic_version: jsonString(version),
    anthropic_beta: betas.length === 0 ? null : Buffer.from(JSON.stringify(betas)),
    // Only Anthropic itself holds conversations.
    thread: null,
  };
}

/** A class, because one object per body is cheaper than closures. */
export class JsonBody implements RequestBody {
  readonly contentType = "application/json";
  readonly #part: Part;
  readonly #scan: RoutingScan;
  readonly #endpoint: Endpoint;
  readonly #fixedSplices: readonly Splice[];
  readonly #depthMax: number;
  /** Reasoning was removed, so the part that an upstream already has can no longer be identified. */
  readonly #isReduced: boolean;
  /** Called when the body is no longer needed. Bodies derived from this one are never disposed themselves. */
  readonly #onDispose: (() => void) | null;
  readonly #inspection: BodyFindings | null;

  constructor(
    part: Part,
    scan: RoutingScan,
    endpoint: Endpoint,
    always: readonly Splice[],
    depthMax: number,
    { isReduced = false, onDispose: disposed = null, inspection = null }: JsonBodyOptions = NO_OPTIONS,
  ) {
    this.#part = part;
    this.#scan = scan;
    this.#endpoint = endpoint;
    this.#fixedSplices = always;
    this.#depthMax = depthMax;
    this.#isReduced = isReduced;
    this.#onDispose = disposed;
    this.#inspection = inspection;
  }

  forUpstream(upstreamModel: string, form: HostedForm | null = null): Part[] {
    const scan = this.#scan;
    const endpoint = this.#endpoint;
    const always = this.#fixedSplices;
    const { bytes, start, end } = this.#part;
    const { model } = scan.fields;
    const named = jsonString(upstreamModel);
    // Fast path if the body has a model, as every request does that was read.
    const edits =
      form?.api === "messages" || model === undefined
        ? editMembers(bytes, scan, hostedMembers(named, form))
        : [replaceValue(model, named)];
    if (form?.api === "chat" && endpoint.shortenCallIds !== null)
      edits.push(...(this.#inspection?.shortCallIds ?? endpoint.shortenCallIds(bytes, scan.fields.messages)));
    const sealed = this.#dropSealedState();
    if (always.length === 0 && sealed.length === 0) return spliceParts(bytes, edits, start, end);
    // Inserted fields are at the front.
    return spliceParts(bytes, [...always, ...sealed, ...edits], start, end);
  }

  /** Reasoning that was removed as a whole contains no envelopes. */
  #dropSealedState(): readonly Splice[] {
    const endpoint = this.#endpoint;
    if (this.#isReduced || endpoint.state === null) return NO_SPLICES;
    return (
      this.#inspection?.sealedState ??
      endpoint.state.dropSealed(this.#part, this.#scan.fields, this.#depthMax)
    );
  }

  forUpstreamAfter(upstreamModel: string, { responseId, inputBytes }: KnownPrefix): Part[] | null {
    const scan = this.#scan;
    const { bytes, start, end } = this.#part;
    const { input } = scan.fields;
    if (this.#isReduced || input?.kind !== "array" || scan.fields.previous_response_id !== undefined) {
      return null;
    }
    const edits = { model: jsonString(upstreamModel), previous_response_id: jsonString(responseId) };
    const knownInput: Splice = {
      start: input.start + 1,
      end: input.start + 1 + inputBytes,
      insert: NO_BYTES,
    };
    return spliceParts(
      bytes,
      [...editMembers(bytes, scan, edits), knownInput, ...this.#fixedSplices],
      start,
      end,
    );
  }

  withoutEncryptedReasoning(): RequestBody | null {
    const part = this.#part;
    const scan = this.#scan;
    const endpoint = this.#endpoint;
    const depthMax = this.#depthMax;
    const inspection = this.#inspection;
    if (this.#isReduced || endpoint.state === null) return null;
    const dropped = inspection?.encryptedReasoning ?? endpoint.state.dropAll(part, scan.fields, depthMax);
    if (dropped.length === 0) return null;
    return new JsonBody(part, scan, endpoint, [...this.#fixedSplices, ...dropped], depthMax, {
      isReduced: true,
      inspection,
    });
  }

  withOutputCap(tokens: number, name?: string): RequestBody {
    return this.#withSplices(capSplices(this.#part.bytes, this.#endpoint, this.#scan, tokens, name));
  }

  withSearchLimit(offer: SearchOffer, searchesMax: number): RequestBody {
    const splices = limitSearches(offer, searchesMax);
    return splices.length === 0 ? this : this.#withSplices(splices);
  }

  #withSplices(splices: readonly Splice[]): RequestBody {
    const all = [...this.#fixedSplices, ...splices];
    return new JsonBody(this.#part, this.#scan, this.#endpoint, all, this.#depthMax, {
      isReduced: this.#isReduced,
      inspection: this.#inspection,
    });
  }

  mentions(word: string): boolean {
    return mentionsWord(this.#part, word);
  }

  isPlain(): boolean {
    return this.#inspection?.isPlain ?? isPlainBody(partBytes(this.#part));
  }

  findJsonError(): Promise<ApiError | null> {
    return findStringError(this.#part);
  }

  async dispose(): Promise<void> {
    this.#onDispose?.();
  }
}
