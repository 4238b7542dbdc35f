/**
 * Translates one request for the accounts that it is tried on: each attempt writes the body in the dialect and for the
 * profile of its account. Long bodies and responses are translated in threads.
 */

import { KINDS } from "../../accounts/kinds/table.ts";
import { accountProfile } from "../../accounts/profile.ts";
import { lowest } from "../../base/lowest.ts";
import type { MaybePromise } from "../../base/maybe-promise.ts";
import { type Part, wholePart } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import type { TranslationCounts } from "../../observe/translation-counts.ts";
import type { AccountRoute, PublishedModel } from "../../policy/snapshot.ts";
import { lookUpCodec } from "../../protocols/codecs.ts";
import type { ClientTarget, DialectCodec, RepeatedRequest } from "../../protocols/hub/dialect-codec.ts";
import { DroppedFields } from "../../protocols/hub/dropped-fields.ts";
import type { StateSealer } from "../../protocols/hub/sealed-state.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import { checkParsedValues } from "../../protocols/shared/list-bounds.ts";
import type { KnownPrefix, ModelRequest } from "../../protocols/shared/request.ts";
import type { TokenUsage } from "../../protocols/shared/usage.ts";
import type { WholeResponseResult } from "../../protocols/whole-response.ts";
import type { Dialect } from "../../records/interfaces.ts";
import type { InputCounter } from "../metering/count-input.ts";
import type { Trace } from "../request/trace.ts";
import type { StoredConversation } from "../stored-responses/stored-conversations.ts";
import type { StoredResponses } from "../stored-responses/stored-responses.ts";
import { buildTurn, writeTurnHead } from "../stored-responses/stored-turn.ts";
import type { SealTarget, StateSeals } from "./state-seals.ts";
import type { TokenFactors } from "./token-factors.ts";
import { type RequestTerms, type RequestTranslation, translateRequest } from "./translate-request.ts";
import { type ResponseTranslation, translateResponse } from "./translate-response.ts";
import type { AttemptLimits, TranslatedAttempt, Translator } from "./translated-attempt.ts";
import { TranslatedReader } from "./translated-reader.ts";
import { requestLength, type TranslationThreads } from "./translation-threads.ts";

export interface TranslationServices {
  readonly seals: StateSeals;
  readonly threads: TranslationThreads;
  readonly storedResponses: StoredResponses;
  readonly counts: TranslationCounts;
  readonly inputCounter: InputCounter;
  readonly factors: TokenFactors;
  newId(prefix: string): string;
}

interface TranslationSource {
  readonly endpoint: Endpoint;
  readonly request: ModelRequest;
  /** On a WebSocket the conversation may be in the body already. */
  readonly call: {
    readonly socketTurn: { readonly knownPrefix: KnownPrefix | null } | null;
  };
  readonly caller: { readonly key: { readonly id: string; readonly userId: string | null } };
  readonly model: Pick<PublishedModel, "outputTokensMax">;
  /** The conversation that the request continues, if the gateway itself keeps it. */
  readonly storedConversation: StoredConversation | null;
  readonly trace: Trace;
}

/** One attempt: where it goes, and how its response is read. */
interface AttemptTerms {
  readonly upstream: DialectCodec;
  readonly seals: SealTarget;
  readonly sealer: StateSealer;
  readonly translation: RequestTranslation;
  readonly client: ClientTarget;
}

/** What is stored of a response. */
interface CompleteTurn {
  readonly head: Uint8Array;
  readonly usage: TokenUsage | null;
}

export class RequestTranslator implements Translator {
  readonly #services: TranslationServices;
  readonly #context: TranslationSource;
  readonly #nowMs: () => number;
  readonly #client: DialectCodec;
  #isStateDropped = false;

  constructor(services: TranslationServices, context: TranslationSource, nowMs: () => number) {
    const { dialect } = context.endpoint;
    if (dialect === null) throw new Error(`${context.endpoint.name} cannot be translated`);
    this.#services = services;
    this.#context = context;
    this.#nowMs = nowMs;
    this.#client = lookUpCodec(dialect);
  }

  async translate(route: AccountRoute, limits: AttemptLimits): Promise<TranslatedAttempt> {
    const upstream = lookUpCodec(route.translation ?? this.#client.dialect);
    const seals: SealTarget = { route, dialect: upstream.dialect, owner: this.#owner };
    const sealer = this.#services.seals.open(seals);
    const terms = this.#buildTerms(route, upstream.dialect, limits);
    const translation = await this.#translateRequest(terms, seals, sealer);
    this.#services.counts.add(this.#client.dialect, upstream.dialect, translation.dropped);
    const client = this.#buildClient(translation.repeated);
    const attempt: AttemptTerms = { upstream, seals, sealer, translation, client };
    return {
      dialect: upstream.dialect,
      path: upstream.requestPath({ upstreamModel: route.upstreamModel, stream: terms.stream }),
      body: wholePart(translation.body),
      headers: new Headers(translation.headers),
      dropped: translation.dropped,
      isStateDropped: translation.isStateDropped,
      sendBatches: null,
      openReader: (sink) => {
        const store = this.#openStore(attempt);
        return new TranslatedReader({
          upstream: upstream.openStreamReader(this.#openReading(attempt)),
          writer: this.#client.openStreamWriter(client),
          sink,
          reportsIncomplete: this.#context.endpoint.hasStatus,
          onComplete:
            store &&
            (({ output, usage, response }) => store({ head: writeTurnHead(response, output), usage })),
          hasLosses: () => client.dropped.list().length > 0,
          onUsage: (usage) => this.#learnTokens(usage),
        });
      },
      readWhole: (body) => this.#readWhole(body, attempt),
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

  get #turns(): readonly Uint8Array[] {
    return this.#context.storedConversation?.turns ?? [];
  }

  #buildTerms(route: AccountRoute, dialect: Dialect, limits: AttemptLimits): RequestTerms {
    const { request, model } = this.#context;
    const { account, upstreamModel } = route;
    return {
      client: this.#client.dialect,
      publicModel: request.publicModel,
      stream: request.stream,
      target: {
        dialect,
        upstreamModel,
        profile: accountProfile(account, dialect),
        form: KINDS[account.kind].hosting?.form(dialect, []) ?? null,
        outputTokensMax: lowest(limits.outputTokensMax, findModelLimit(request, model)),
        modelOutputTokensMax: model.outputTokensMax,
        webSearchesMax: limits.webSearchesMax,
      },
      isStateDropped: this.#isStateDropped,
      storedInputBytesMax: this.#isStored ? this.#services.storedResponses.turnBytesMax : 0,
    };
  }

  get #isStored(): boolean {
    const { endpoint, request } = this.#context;
    return endpoint.stores === "by_default" && request.storesResponse;
  }

  async #translateRequest(
    terms: RequestTerms,
    seals: SealTarget,
    sealer: StateSealer,
  ): Promise<RequestTranslation> {
    const { inputText } = this.#context.request;
    if (inputText.kind !== "json") throw new Error("a form cannot be translated");
    checkParsedValues(inputText);
    const { threads } = this.#services;
    const source = { body: inputText.body, turns: this.#turns, terms };
    const isLong = requestLength(source) > threads.limits.requestBytesMin;
    try {
      return isLong
        ? await threads.translateRequest({ ...source, seals })
        : translateRequest({ ...source, sealer });
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== "invalid_json") throw error;
      // The position of the error is searched only for the client's message.
      throw (await this.#context.request.body.findJsonError()) ?? error;
    }
  }

  #openReading({ translation, sealer, client }: AttemptTerms) {
    return { toolNames: translation.toolNames, sealer, dropped: client.dropped };
  }

  /** The response is read after the headers of a stream are sent, so its losses are noted in the trace. */
  #noteLost(name: string): void {
    this.#context.trace.lastAttempt?.addDropped([name]);
    this.#services.counts.addDropped(name);
  }

  #buildClient(request: RepeatedRequest): ClientTarget {
    const { endpoint, request: received, call } = this.#context;
    const { newId } = this.#services;
    return {
      publicModel: received.publicModel,
      request,
      responseId: newId(this.#client.responseIdPrefix),
      previousResponseId: received.previousResponseId ?? call.socketTurn?.knownPrefix?.responseId ?? null,
      get inputTokensEstimate() {
        return Math.ceil(received.inputSize().textBytes / 4);
      },
      nowMs: this.#nowMs(),
      newId,
      wantsUsageChunk: endpoint.reportsUsageOnRequest && !received.hidesUsage,
      dropped: new DroppedFields([], (name) => this.#noteLost(name)),
    };
  }

  #readWhole(body: Part, attempt: AttemptTerms): MaybePromise<WholeResponseResult> {
    const { threads } = this.#services;
    const isLong = body.end - body.start > threads.limits.responseBytesMin;
    return isLong
      ? this.#readInThread(body, attempt)
      : this.#finishWhole(
          translateResponse({
            body,
            upstream: attempt.upstream.dialect,
            reading: this.#openReading(attempt),
            client: attempt.client,
            isStored: this.#isStored,
          }),
          attempt,
        );
  }

  async #readInThread(body: Part, attempt: AttemptTerms): Promise<WholeResponseResult> {
    const { request, dropped: _, newId: _newId, inputTokensEstimate, ...client } = attempt.client;
    const { translation, dropped } = await this.#services.threads.translateResponse({
      body,
      upstream: attempt.upstream.dialect,
      toolNames: attempt.translation.toolNames,
      seals: attempt.seals,
      client: { ...client, inputTokensEstimate, repeated: JSON.stringify(request) },
      isStored: this.#isStored,
    });
    for (const name of dropped) attempt.client.dropped.add(name);
    return this.#finishWhole(translation, attempt);
  }

  #finishWhole(translation: ResponseTranslation, attempt: AttemptTerms): WholeResponseResult {
    if (translation.kind !== "response") return translation;
    const { body, usage, status, turnHead, isEmptyExpected, facts } = translation;
    if (turnHead !== null) this.#openStore(attempt)?.({ head: turnHead, usage });
    this.#learnTokens(usage);
    return {
      kind: "response",
      body: wholePart(body),
      usage,
      images: 0,
      imageKind: null,
      responseId: null,
      status,
      hasExpectedContent: true,
      mayBeEmpty: isEmptyExpected || attempt.client.dropped.list().length > 0,
      describe: () => facts,
    };
  }

  /** The input of a stored conversation is not in the body. */
  #learnTokens(usage: TokenUsage | null): void {
    const { request, endpoint, storedConversation } = this.#context;
    if (usage === null || usage.missing === "input" || storedConversation !== null) return;
    // A count that fails teaches nothing.
    this.#services.factors.learn(request, endpoint.output, usage.inputTokens).catch(() => {});
  }

  /** Stores the response and its conversation; null if the client does not want that, or if it is too long. */
  #openStore({ translation: { input }, client }: AttemptTerms): ((complete: CompleteTurn) => void) | null {
    if (input === null) return null;
    const { caller, request, storedConversation } = this.#context;
    const { storedResponses } = this.#services;
    return ({ head, usage }) =>
      storedResponses.add(storedConversation, {
        responseId: client.responseId,
        previousId: storedConversation === null ? null : request.previousResponseId,
        keyId: caller.key.id,
        owner: this.#owner,
        atMs: this.#nowMs(),
        tokens: usage === null ? null : usage.inputTokens + usage.outputTokens,
        turn: buildTurn(head, input),
      });
  }
}

/**
 * The limit to send instead of a higher one of the client, which the upstream would reject; null to keep the client's.
 * Tools such as Claude Code send the limit of another vendor's models with every request.
 */
function findModelLimit(
  { outputTokensMax: clientMax }: Pick<ModelRequest, "outputTokensMax">,
  { outputTokensMax: modelMax }: Pick<PublishedModel, "outputTokensMax">,
): number | null {
  return clientMax !== null && modelMax !== null && clientMax > modelMax ? modelMax : null;
}
