/** A Gemini request body as sent upstream: the received bytes with the upstream's model name where the body has one. */

import { requestCounts } from "../../count-limits.ts";
import type { ApiError } from "../../errors.ts";
import { firstElements } from "../../json/array.ts";
import { integerValue, type JsonField, scanObject, wantedFields } from "../../json/scan.ts";
import { addMember, jsonString, replaceValue, type Splice, spliceParts } from "../../json/splice.ts";
import { StringFaultSearch } from "../../json/strings.ts";
import { QUOTE, skipSpace, stringEnd } from "../../json/walk.ts";
import { decodeText, findBytes } from "../../net/wire/bytes.ts";
import { nextTurn } from "../../net/wire/next-turn.ts";
import { type Part, partBytes } from "../../net/wire/parts.ts";
import { invalidJsonError } from "../shared/json-body.ts";
import { isPlainBody } from "../shared/plain-body.ts";
import type { HostedForm, RequestBody } from "../shared/request.ts";
import { callIds } from "./call-ids.ts";
import { type ConfigScan, type GeminiScan, pick } from "./gemini-fields.ts";
import { ENCODED_ENVELOPE_START, FOREIGN_CALL_SIGNATURE } from "./thought-signature.ts";

/** In a longer body only both ends are searched: the search must not block other requests. */
const SEARCH_BYTES_MAX = 128 * 1024;
const ERROR_SEARCH_BYTES_PER_TURN = 256 * 1024;
const NAMED = wantedFields(["model"]);

interface GeminiBodyOptions {
  readonly scan: GeminiScan;
  readonly config: ConfigScan | null;
  readonly depthMax: number;
  readonly onDispose: (() => void) | null;
  /** As the inspection thread found; null if it must be computed. */
  readonly isPlain: boolean | null;
  /** All signatures are replaced, regardless of their issuer. */
  readonly isReduced?: boolean;
}

export class GeminiBody implements RequestBody {
  readonly contentType = "application/json";
  readonly #part: Part;
  readonly #options: GeminiBodyOptions;
  readonly #cap: readonly Splice[];

  constructor(part: Part, options: GeminiBodyOptions, cap: readonly Splice[] = []) {
    this.#part = part;
    this.#options = options;
    this.#cap = cap;
  }

  forUpstream(upstreamModel: string, form: HostedForm | null = null): Part[] {
    const { bytes, start, end } = this.#part;
    const splices = [
      ...(form?.api === "gemini" ? callIds(this.#part, this.#options) : []),
      ...this.#modelSplices(jsonString(`models/${upstreamModel}`)),
      ...(this.#options.isReduced === true ? allSignatures(this.#part) : foreignSignatures(this.#part)),
      ...this.#cap,
    ];
    return spliceParts(bytes, splices, start, end);
  }

  /** The model in the body must be the one in the path: in a batch each request has it. */
  #modelSplices(name: Uint8Array): Splice[] {
    const { bytes } = this.#part;
    const { fields } = this.#options.scan;
    const splices: Splice[] = [];
    if (fields.model !== undefined) splices.push(replaceValue(fields.model, name));
    const inner = pick(fields, "generateContentRequest", "generate_content_request");
    if (inner?.kind === "object") this.#nameModel(inner, name, splices);
    if (fields.requests?.kind === "array") {
      for (const element of firstElements(bytes, fields.requests, requestCounts.itemsMax))
        this.#nameModel(element, name, splices);
    }
    return splices;
  }

  #nameModel({ start, end }: Pick<JsonField, "start" | "end">, name: Uint8Array, splices: Splice[]): void {
    const scan = scanObject(this.#part.bytes, start, end, NAMED, { depthMax: this.#options.depthMax });
    if (!scan.ok) return;
    const { model } = scan.fields;
    splices.push(
      model === undefined
        ? addMember(scan, "model", new TextDecoder().decode(name))
        : replaceValue(model, name),
    );
  }

  /** Upstreams of this interface store no conversations. */
  forUpstreamAfter(): null {
    return null;
  }

  /** A signature that the account rejects is replaced by Google's placeholder. */
  withoutEncryptedReasoning(): RequestBody | null {
    if (this.#options.isReduced === true || allSignatures(this.#part).length === 0) return null;
    return new GeminiBody(this.#part, { ...this.#options, isReduced: true }, this.#cap);
  }

  withOutputCap(tokens: number): RequestBody {
    const { bytes } = this.#part;
    const { scan, config } = this.#options;
    return new GeminiBody(this.#part, this.#options, [capSplice(bytes, scan, config, tokens)]);
  }

  mentions(word: string): boolean {
    const { bytes, start, end } = this.#part;
    const needle = Buffer.from(word);
    if (end - start <= SEARCH_BYTES_MAX) return findBytes(bytes, needle, start) !== -1;
    const half = SEARCH_BYTES_MAX / 2;
    return (
      findBytes(bytes.subarray(start, start + half), needle, 0) !== -1 ||
      findBytes(bytes, needle, end - half) !== -1
    );
  }

  isPlain(): boolean {
    return this.#options.isPlain ?? isPlainBody(partBytes(this.#part));
  }

  async findJsonError(): Promise<ApiError | null> {
    const bytes = partBytes(this.#part);
    const search = new StringFaultSearch(bytes);
    while (!search.run(ERROR_SEARCH_BYTES_PER_TURN)) await nextTurn();
    const { fault } = search;
    return fault && invalidJsonError(bytes, fault, 0);
  }

  async dispose(): Promise<void> {
    this.#options.onDispose?.();
  }
}

const ENVELOPE = Buffer.from(`"${ENCODED_ENVELOPE_START}`);
const PLACEHOLDER = Buffer.from(JSON.stringify(FOREIGN_CALL_SIGNATURE));
/** More than any conversation has. */
const SIGNATURES_MAX = 10_000;

/**
 * The conversation was begun by another vendor, whose state is in the gateway's envelopes. Google would reject them, and
 * has a placeholder for calls that another model made.
 */
function foreignSignatures({ bytes, start, end }: Part): Splice[] {
  const splices: Splice[] = [];
  for (let at = findBytes(bytes, ENVELOPE, start); at !== -1 && at < end; ) {
    const close = stringEnd(bytes, at + 1, end, at);
    if (close < 0 || splices.length === SIGNATURES_MAX) break;
    if (isSignatureValue(bytes, at)) splices.push({ start: at, end: close, insert: PLACEHOLDER });
    at = findBytes(bytes, ENVELOPE, close);
  }
  return splices;
}

const SIGNATURE_NAMES = ["thoughtSignature", "thought_signature"].map((name) => Buffer.from(`"${name}"`));
const COLON = 0x3a;

function allSignatures({ bytes, start, end }: Part): Splice[] {
  const splices: Splice[] = [];
  for (const name of SIGNATURE_NAMES) {
    for (let at = findBytes(bytes, name, start); at !== -1 && at < end; at = findBytes(bytes, name, at + 1)) {
      const colon = skipSpace(bytes, at + name.length, end);
      const value = skipSpace(bytes, colon + 1, end);
      if (bytes[colon] !== COLON || bytes[value] !== QUOTE) continue;
      const close = stringEnd(bytes, value + 1, end, value);
      if (close < 0 || splices.length === SIGNATURES_MAX) break;
      splices.push({ start: value, end: close, insert: PLACEHOLDER });
    }
  }
  return splices.sort((a, b) => a.start - b.start);
}

const NAME_BEFORE = /"thought_?[sS]ignature"\s*:\s*$/;
const NAME_BYTES_MAX = 64;

/** The same text may be part of a message. */
function isSignatureValue(bytes: Uint8Array, quote: number): boolean {
  return NAME_BEFORE.test(decodeText(bytes, Math.max(0, quote - NAME_BYTES_MAX), quote));
}

/** Lowers the client's limit, or adds one to `generationConfig`. */
function capSplice(bytes: Uint8Array, scan: GeminiScan, config: ConfigScan | null, tokens: number): Splice {
  if (config === null) {
    const none = pick(scan.fields, "generationConfig", "generation_config");
    const value = `{"maxOutputTokens":${tokens}}`;
    return none === undefined
      ? addMember(scan, "generationConfig", value)
      : replaceValue(none, Buffer.from(value));
  }
  const limit = pick(config.fields, "maxOutputTokens", "max_output_tokens");
  if (limit === undefined) return addMember(config, "maxOutputTokens", String(tokens));
  const clientTokens = integerValue(bytes, limit);
  const lower = clientTokens === null || clientTokens < 1 ? tokens : Math.min(clientTokens, tokens);
  return replaceValue(limit, Buffer.from(String(lower)));
}
