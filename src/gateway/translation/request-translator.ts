/**
 * Translates one request for the accounts that it is tried on. The body is parsed once; each attempt writes it in the
 * dialect and for the profile of its account.
 */

import { toHostedBody } from "../../accounts/cloud/hosting.ts";
import { accountProfile } from "../../accounts/profile.ts";
import { ApiError } from "../../errors.ts";
import { tryParseLossless } from "../../json/lossless.ts";
import { isObject } from "../../json/parse.ts";
import { decodeText } from "../../net/wire/bytes.ts";
import { joinParts, type Part, wholePart } from "../../net/wire/parts.ts";
import type { TranslationCounts } from "../../observe/translation-counts.ts";
import type { AccountRoute, PublishedModel } from "../../policy/snapshot.ts";
import { lookUpCodec } from "../../protocols/codecs.ts";
import type { ClientTarget, DialectCodec } from "../../protocols/hub/dialect-codec.ts";
import { DroppedFields } from "../../protocols/hub/dropped-fields.ts";
import type { HubItem, HubRequest, OpaqueState } from "../../protocols/hub/hub-request.ts";
import type { HubResponse, OutputItem } from "../../protocols/hub/hub-response.ts";
import type { StateSealer, VendorState } from "../../protocols/hub/sealed-state.ts";
import { checkParsedValues } from "../../protocols/shared/list-bounds.ts";
import type { Endpoint, KnownConversationPrefix, ModelRequest } from "../../protocols/shared/request.ts";
import { readUpstreamError } from "../../protocols/shared/upstream-error.ts";
import type { TokenUsage } from "../../protocols/shared/usage.ts";
import type { WholeResponseResult } from "../../protocols/shared/whole-response.ts";
import type { Dialect } from "../../records.ts";
import { noteDropped, type Trace } from "../request/trace.ts";
import { isTooDeep } from "./json-depth.ts";
import {
  copyLongStrings,
  type LongStrings,
  NO_LONG_STRINGS,
  parseLongBody,
  putLongStrings,
} from "./long-strings.ts";
import type { StateSeals } from "./state-seals.ts";
import type { HubConversation } from "./stored-conversations.ts";
import type { StoredResponses } from "./stored-responses.ts";
import type { TokenFactors } from "./token-factors.ts";
import { DROPPED_STATE, type TranslatedAttempt, type Translator } from "./translated-attempt.ts";
import { type CompleteResponse, isEmptyStop, TranslatedReader } from "./translated-reader.ts";

/** The services that translation uses. */
export interface TranslationServices {
  readonly seals: StateSeals;
  readonly storedResponses: StoredResponses;
  readonly counts: TranslationCounts;
  readonly factors: TokenFactors;
  newId(prefix: string): string;
  randomBytes(count: number): Uint8Array;
}

/** What translation needs of a request. */
export interface TranslationSource {
  readonly endpoint: Endpoint;
  readonly request: ModelRequest;
  /** On a WebSocket the conversation may be in the body already. */
  readonly call: {
    readonly conversation: { readonly knownPrefix: KnownConversationPrefix | null } | null;
  };
  readonly caller: { readonly key: { readonly id: string; readonly userId: string | null } };
  readonly model: Pick<PublishedModel, "outputTokensMax">;
  /** The conversation that the request continues, if the gateway itself keeps it. */
  readonly conversation: HubConversation | null;
  readonly trace: Trace;
}

export class RequestTranslator implements Translator {
  readonly #services: TranslationServices;
  readonly #context: TranslationSource;
  readonly #nowMs: () => number;
  readonly #client: DialectCodec;
  #request: HubRequest | null = null;
  #isStateDropped = false;
  #longStrings: LongStrings;

  constructor(services: TranslationServices, context: TranslationSource, nowMs: () => number) {
    const { dialect } = context.endpoint;
    if (dialect === null) throw new Error(`${context.endpoint.name} cannot be translated`);
    this.#services = services;
    this.#context = context;
    this.#nowMs = nowMs;
    this.#client = lookUpCodec(dialect);
    this.#longStrings = context.conversation?.longStrings ?? NO_LONG_STRINGS;
  }

  async translate(route: AccountRoute, outputTokensMax: number | null): Promise<TranslatedAttempt> {
    this.#request ??= await this.#readRequest();
    const request = this.#request;
    const upstream = lookUpCodec(route.translation ?? this.#client.dialect);
    const sealer = new WatchedSealer(this.#openSealer(route, upstream.dialect));
    const written = upstream.writeRequest(request, {
      upstreamModel: route.upstreamModel,
      profile: accountProfile(route.account, upstream.dialect),
      sealer,
      outputTokensMax,
      modelOutputTokensMax: this.#context.model.outputTokensMax,
    });
    const isStateDropped = this.#isStateDropped || sealer.hasDroppedState(request.items);
    const dropped = isStateDropped ? [...written.dropped, DROPPED_STATE] : written.dropped;
    this.#services.counts.add(this.#client.dialect, upstream.dialect, dropped);
    const lost = this.#openLost();
    const client = this.#buildClient(request, lost);
    const reading = { toolNames: written.toolNames, sealer, dropped: lost };
    return {
      dialect: upstream.dialect,
      path: upstream.requestPath({ upstreamModel: route.upstreamModel, stream: request.stream }),
      body: putLongStrings(
        JSON.stringify(toHostedBody(route.account, written.body, upstream.dialect)),
        this.#longStrings,
      ),
      headers: new Headers(written.headers),
      dropped,
      isStateDropped,
      sendBatches: null,
      openReader: (sink) =>
        new TranslatedReader({
          upstream: upstream.openStreamReader(reading),
          writer: this.#client.openStreamWriter(client),
          sink,
          reportsIncomplete: this.#client.dialect === "responses",
          onComplete: this.#openStore(client),
          hasLosses: () => client.dropped.list().length > 0,
          onUsage: (usage) => this.#learnTokens(usage),
        }),
      readWhole: (body) => this.#readWhole(body, (json) => upstream.readResponse(json, reading), client),
    };
  }

  dropState(): boolean {
    if (this.#isStateDropped) return false;
    this.#isStateDropped = true;
    return true;
  }

  get #owner(): string {
    const { key } = this.#context.caller;
    return key.userId ?? key.id;
  }

  async #readRequest(): Promise<HubRequest> {
    const { request } = this.#context;
    if (request.inputText.kind !== "json") throw new Error("a form cannot be translated");
    checkParsedValues(request.inputText);
    const { json, strings } = await parseLongBody(request.inputText.body, this.#services.randomBytes);
    if (strings.size > 0) this.#longStrings = new Map([...this.#longStrings, ...strings]);
    if (!isObject(json)) throw await this.#invalidJson();
    const { publicModel, stream } = request;
    return continueConversation(
      this.#client.readRequest(json, { publicModel, stream }),
      this.#context.conversation,
    );
  }

  async #invalidJson(): Promise<ApiError> {
    const error = await this.#context.request.body.findJsonError();
    return error ?? new ApiError("invalid_json", "The request body is not valid JSON. Send valid JSON.");
  }

  #openSealer(route: AccountRoute, dialect: Dialect): StateSealer {
    const sealer = this.#services.seals.open({ route, dialect, owner: this.#owner });
    return this.#isStateDropped ? { seal: (state) => sealer.seal(state), open: () => null } : sealer;
  }

  /** The response is read after the headers of a stream are sent, so its losses are noted in the trace. */
  #openLost(): DroppedFields {
    return new DroppedFields([], (name) => {
      noteDropped(this.#context.trace, [name]);
      this.#services.counts.addDropped(name);
    });
  }

  #buildClient(request: HubRequest, dropped: DroppedFields): ClientTarget {
    const { endpoint, request: received, call } = this.#context;
    const { newId } = this.#services;
    return {
      publicModel: request.publicModel,
      request: this.#restoreSettings(request),
      responseId: newId(this.#client.responseIdPrefix),
      previousResponseId: received.previousResponseId ?? call.conversation?.knownPrefix?.responseId ?? null,
      get inputTokensEstimate() {
        return Math.ceil(received.inputSize().textBytes / 4);
      },
      nowMs: this.#nowMs(),
      newId,
      wantsUsageChunk: endpoint.dialect === "chat" && !received.hidesUsage,
      dropped,
    };
  }

  /** The response repeats settings of the request, which may contain long strings. */
  #restoreSettings(request: HubRequest): HubRequest {
    if (this.#longStrings.size === 0) return request;
    const { input: _, ...settings } = request.original;
    const bytes = joinParts(putLongStrings(JSON.stringify(settings), this.#longStrings));
    const restored = tryParseLossless(decodeText(bytes, 0, bytes.length));
    return isObject(restored) ? { ...request, original: restored } : request;
  }

  #readWhole(
    whole: Part,
    read: (json: Record<string, unknown>) => HubResponse | null,
    client: ClientTarget,
  ): WholeResponseResult {
    const { bytes, start, end } = whole;
    const isRefused = end - start > WHOLE_BYTES_MAX || isTooDeep(whole);
    const json = isRefused ? null : tryParseLossless(decodeText(bytes, start, end));
    if (!isObject(json)) return { kind: "malformed" };
    const error = json.error == null && json.type !== "error" ? null : readUpstreamError(json);
    if (error !== null) return { kind: "error", error };
    const response = read(json);
    if (response === null) return { kind: "malformed" };
    const written = this.#client.writeResponse(response, client);
    const text = JSON.stringify(written);
    this.#openStore(client)?.({ output: response.items, usage: response.usage, response: text });
    this.#learnTokens(response.usage);
    return {
      kind: "answer",
      body: wholePart(Buffer.from(text)),
      usage: response.usage,
      images: 0,
      imageKind: null,
      responseId: null,
      status: typeof written.status === "string" ? written.status : null,
      hasExpectedContent: true,
      mayBeEmpty: isEmptyStop(response.stop) || client.dropped.list().length > 0,
    };
  }

  /** The input of a stored conversation is not in the body. */
  #learnTokens(usage: TokenUsage | null): void {
    const { request, endpoint, conversation } = this.#context;
    if (usage === null || usage.missing === "input" || conversation !== null) return;
    // A count that fails teaches nothing.
    this.#services.factors.learn(request, endpoint.name, usage.inputTokens).catch(() => {});
  }

  /** Stores the response and its conversation; null if the client does not want that. */
  #openStore(client: ClientTarget): ((complete: CompleteResponse) => void) | null {
    const { caller, request: received, conversation } = this.#context;
    const request = this.#request;
    if (this.#client.dialect !== "responses" || !received.storesResponse || request === null) return null;
    const { storedResponses } = this.#services;
    return ({ output, usage, response }) => {
      const longStrings = copyLongStrings(this.#longStrings);
      const ownBytes = measureBytes(measureBody(received), output) + response.length;
      storedResponses.add({
        instructions: systemMessages(request),
        items: [...request.items, ...output],
        longStrings,
        record: {
          responseId: client.responseId,
          previousId: conversation === null ? null : received.previousResponseId,
          keyId: caller.key.id,
          owner: this.#owner,
          atMs: this.#nowMs(),
          tokens: usage === null ? null : usage.inputTokens + usage.outputTokens,
          memoryBytes: ownBytes + (conversation?.record.memoryBytes ?? 0),
          response,
          output,
          input: request.original.input,
          longStrings,
        },
      });
    };
  }
}

/** Notes whether a state of the conversation could not be restored. */
class WatchedSealer implements StateSealer {
  readonly #sealer: StateSealer;
  #restored = 0;
  #dropped = 0;

  constructor(sealer: StateSealer) {
    this.#sealer = sealer;
  }

  seal(state: VendorState): OpaqueState {
    return this.#sealer.seal(state);
  }

  open(state: OpaqueState): VendorState | null {
    const opened = this.#sealer.open(state);
    if (opened === null) this.#dropped++;
    else this.#restored++;
    return opened;
  }

  /** Some dialects have no place for state, so that none is opened. */
  hasDroppedState(items: readonly HubItem[]): boolean {
    return this.#dropped > 0 || (this.#restored === 0 && items.some(hasState));
  }
}

function hasState(item: HubItem): boolean {
  return (item.kind === "reasoning" || item.kind === "call") && item.opaque !== null;
}

/** Parsing more would hold the event loop. No model produces as much text in one response. */
const WHOLE_BYTES_MAX = 32 * 1024 * 1024;

/** Approximate memory of an item in addition to its text. */
const ITEM_BYTES = 256;

function measureBody({ inputText }: ModelRequest): number {
  return inputText.kind === "json" ? inputText.body.end - inputText.body.start : 0;
}

function measureBytes(inputBytes: number, output: readonly OutputItem[]): number {
  let bytes = inputBytes;
  for (const item of output) {
    bytes += ITEM_BYTES;
    if (item.kind === "call") bytes += item.input.length;
    else if (item.kind === "reasoning") bytes += item.text.length;
    else if (item.kind === "message")
      for (const part of item.parts) bytes += "text" in part ? part.text.length : ITEM_BYTES;
  }
  return bytes;
}

/** The system messages at the beginning. The `instructions` of a request do not apply to those that continue it. */
function systemMessages({ instructions, original }: HubRequest): HubRequest["instructions"] {
  return hasOwnInstructions(original) ? instructions.slice(1) : instructions;
}

function hasOwnInstructions({ instructions }: HubRequest["original"]): boolean {
  return typeof instructions === "string" && instructions !== "";
}

function continueConversation(request: HubRequest, stored: HubConversation | null): HubRequest {
  if (stored === null) return request;
  const own = hasOwnInstructions(request.original) ? request.instructions.slice(0, 1) : [];
  return {
    ...request,
    instructions: [...own, ...stored.instructions, ...systemMessages(request)],
    items: [...stored.items, ...request.items],
  };
}
