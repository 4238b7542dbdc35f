/**
 * Writes a client's request in the dialect of one account. It depends on its arguments alone, so that it runs in a thread
 * as well as here.
 */

import { toHostedBody } from "../../accounts/cloud/hosted-body.ts";
import type { Part } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import { isObject } from "../../json/parse.ts";
import { parseBody } from "../../json/parse-body.ts";
import { lookUpCodec } from "../../protocols/codecs.ts";
import type { AccountProfile } from "../../protocols/hub/account-profile.ts";
import type { RepeatedRequest, ToolNames } from "../../protocols/hub/dialect-codec.ts";
import { DIALECT_TRAITS } from "../../protocols/hub/dialect-traits.ts";
import type { HubItem, HubRequest, OpaqueState } from "../../protocols/hub/hub-request.ts";
import type { StateSealer, VendorState } from "../../protocols/hub/sealed-state.ts";
import type { HostedForm } from "../../protocols/shared/request.ts";
import type { Dialect } from "../../records/interfaces.ts";
import { type ConversationItems, readTurns } from "../stored-responses/stored-turn.ts";
import { DROPPED_STATE } from "./translated-attempt.ts";

interface RequestTarget {
  readonly dialect: Dialect;
  readonly upstreamModel: string;
  readonly profile: AccountProfile;
  /** Null unless a cloud vendor hosts the API. */
  readonly form: HostedForm | null;
  readonly outputTokensMax: number | null;
  readonly modelOutputTokensMax: number | null;
  readonly webSearchesMax: number | null;
}

/** All that a translation depends on, apart from the body and the keys. */
export interface RequestTerms {
  readonly client: Dialect;
  readonly publicModel: string;
  readonly stream: boolean;
  readonly target: RequestTarget;
  /** An upstream rejected the opaque state, so it is left out. */
  readonly isStateDropped: boolean;
  /** The longest `input` that is stored; 0 if nothing is stored. */
  readonly storedInputBytesMax: number;
}

interface RequestSource {
  readonly body: Part;
  /** The stored conversation that the request continues, turn by turn. */
  readonly turns: readonly Uint8Array[];
  readonly terms: RequestTerms;
  readonly sealer: StateSealer;
}

export interface RequestTranslation {
  readonly body: Uint8Array<ArrayBuffer>;
  readonly headers: Readonly<Record<string, string>>;
  readonly dropped: readonly string[];
  readonly isStateDropped: boolean;
  readonly toolNames: ToolNames;
  readonly repeated: RepeatedRequest;
  /** The `input` of Responses as JSON; null if it is not stored. */
  readonly input: Uint8Array<ArrayBuffer> | null;
}

/** Throws the error for the client if the request is invalid or cannot be expressed. */
export function translateRequest({ body, turns, terms, sealer }: RequestSource): RequestTranslation {
  const { client, publicModel, stream, target } = terms;
  const json = parseBody(body);
  if (!isObject(json)) throw invalidJsonError();
  const own = lookUpCodec(client).readRequest(json, { publicModel, stream });
  const request = turns.length === 0 ? own : continueConversation(own, readTurns(turns));
  const watched = new WatchedSealer(terms.isStateDropped ? withoutState(sealer) : sealer);
  const written = lookUpCodec(target.dialect).writeRequest(request, { ...target, sealer: watched });
  const isStateDropped = terms.isStateDropped || watched.hasDroppedState(request.items);
  return {
    body: Buffer.from(JSON.stringify(toHostedBody(target.form, written.body))),
    headers: written.headers,
    dropped: isStateDropped ? [...written.dropped, DROPPED_STATE] : written.dropped,
    isStateDropped,
    toolNames: written.toolNames,
    repeated: selectRepeated(own),
    input: terms.storedInputBytesMax > 0 ? writeInput(own.original.input, terms.storedInputBytesMax) : null,
  };
}

/** The conversation is left out, and the tools of other dialects, which no response repeats. */
function selectRepeated({ dialect, original, settings, tools }: HubRequest): RepeatedRequest {
  const { input: _, ...repeated } = original;
  const { reasoning, wantsEncryptedReasoning } = settings;
  return {
    dialect,
    original: DIALECT_TRAITS[dialect].repeatsRequest ? repeated : {},
    settings: { reasoning, wantsEncryptedReasoning },
    tools: tools.filter((tool) => tool.kind === "function" && tool.builtIn !== undefined),
  };
}

function writeInput(input: unknown, bytesMax: number): Uint8Array<ArrayBuffer> | null {
  const json = Buffer.from(JSON.stringify(input ?? null));
  return json.length > bytesMax ? null : json;
}

export function invalidJsonError(): ApiError {
  return new ApiError("invalid_json", "The request body is not valid JSON. Send valid JSON.");
}

function withoutState(sealer: StateSealer): StateSealer {
  return { seal: (state) => sealer.seal(state), open: () => null };
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

/** The `instructions` of a request do not apply to those that continue it; system messages at its beginning do. */
function continueConversation(request: HubRequest, stored: ConversationItems): HubRequest {
  const { instructions: text } = request.original;
  const ownCount = typeof text === "string" && text !== "" ? 1 : 0;
  const own = request.instructions.slice(0, ownCount);
  const systemMessages = request.instructions.slice(ownCount);
  return {
    ...request,
    instructions: [...own, ...stored.instructions, ...systemMessages],
    items: [...stored.items, ...request.items],
  };
}
