/** A Gemini request body as sent upstream: the received bytes with the upstream's model name where the body has one. */

import { type Part, partBytes } from "../../base/parts.ts";
import type { ApiError } from "../../errors.ts";
import { integerValue } from "../../json/scan.ts";
import { addMember, jsonString, replaceValue, type Splice, spliceParts } from "../../json/splice.ts";
import { findStringError, mentionsWord } from "../shared/body-search.ts";
import { isPlainBody } from "../shared/plain-body.ts";
import type { HostedForm, RequestBody } from "../shared/request.ts";
import { callIds } from "./call-ids.ts";
import { type ConfigScan, type GeminiScan, pick } from "./gemini-fields.ts";
import { allSignatures, findModelPlaces, foreignSignatures, type GeminiFindings } from "./gemini-splices.ts";

interface GeminiBodyOptions {
  readonly scan: GeminiScan;
  readonly config: ConfigScan | null;
  readonly depthMax: number;
  readonly onDispose: (() => void) | null;
  /** What the inspection thread found in a long body; null if it must be searched. */
  readonly findings: GeminiFindings | null;
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
    const { findings, isReduced } = this.#options;
    const splices = [
      ...(form?.api === "gemini" ? (findings?.callIds ?? callIds(this.#part, this.#options)) : []),
      ...this.#nameModel(`models/${upstreamModel}`),
      ...(isReduced === true
        ? this.#findSignatures()
        : (findings?.foreignSignatures ?? foreignSignatures(this.#part))),
      ...this.#cap,
    ];
    return spliceParts(bytes, splices, start, end);
  }

  /** The model in the body must be the one in the path: in a batch each request has it. */
  #nameModel(name: string): Splice[] {
    const { findings } = this.#options;
    const places = findings?.modelPlaces ?? findModelPlaces(this.#part, this.#options);
    return places.map((place) =>
      "field" in place
        ? replaceValue(place.field, jsonString(name))
        : addMember(place, "model", JSON.stringify(name)),
    );
  }

  #findSignatures(): readonly Splice[] {
    return this.#options.findings?.allSignatures ?? allSignatures(this.#part);
  }

  /** Upstreams of this interface store no conversations. */
  forUpstreamAfter(): null {
    return null;
  }

  /** A signature that the account rejects is replaced by Google's placeholder. */
  withoutEncryptedReasoning(): RequestBody | null {
    if (this.#options.isReduced === true || this.#findSignatures().length === 0) return null;
    return new GeminiBody(this.#part, { ...this.#options, isReduced: true }, this.#cap);
  }

  withOutputCap(tokens: number): RequestBody {
    const { bytes } = this.#part;
    const { scan, config } = this.#options;
    return new GeminiBody(this.#part, this.#options, [capSplice(bytes, scan, config, tokens)]);
  }

  withSearchLimit(): RequestBody {
    return this;
  }

  mentions(word: string): boolean {
    return mentionsWord(this.#part, word);
  }

  isPlain(): boolean {
    return this.#options.findings?.isPlain ?? isPlainBody(partBytes(this.#part));
  }

  findJsonError(): Promise<ApiError | null> {
    return findStringError(this.#part);
  }

  async dispose(): Promise<void> {
    this.#options.onDispose?.();
  }
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
