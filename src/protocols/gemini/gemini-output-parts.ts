/** Reads the parts of a Gemini response as items, one after the other. A stream and a whole response have the same parts. */

import { CallIds } from "../hub/call-ids.ts";
import { withCitations } from "../hub/citations.ts";
import { unwrapCustomInput } from "../hub/custom-input.ts";
import type { ResponseReadOptions } from "../hub/dialect-codec.ts";
import type { OpaqueState } from "../hub/hub-request.ts";
import type { HubEvent, StartedItem } from "../hub/hub-response.ts";
import type { ItemEnd } from "../hub/item-sequencer.ts";
import { type Json, readString } from "../hub/json-values.ts";
import type { ResponseBounds } from "../hub/response-bounds.ts";
import { TextPieces } from "../hub/text-pieces.ts";
import { resolveTool } from "../hub/tool-names.ts";
import { member, objectMember } from "./gemini-members.ts";
import { readGrounding } from "./grounding.ts";
import { PartialArguments } from "./partial-arguments.ts";
import { isWithoutState } from "./thought-signature.ts";

type TextKind = "text" | "reasoning";

interface CallArguments {
  readonly json: string;
  /** The upstream stopped in the middle of them. */
  readonly isCut: boolean;
}

interface PartialCall {
  readonly call: Json;
  readonly args: PartialArguments;
  signature: string | null;
  isBroken: boolean;
}

export class OutputParts {
  readonly #options: ResponseReadOptions;
  readonly #events: HubEvent[];
  readonly #bounds: ResponseBounds;
  #callIds: CallIds;
  #open: TextKind | null = null;
  /** The text of the open item, and its signature. */
  #text = new TextPieces();
  #signature: string | null = null;
  #partial: PartialCall | null = null;
  hasContent = false;
  hasCalls = false;

  /** Events are added to the list. */
  constructor(options: ResponseReadOptions, events: HubEvent[], bounds: ResponseBounds) {
    this.#options = options;
    this.#events = events;
    this.#bounds = bounds;
    this.#callIds = new CallIds(null, bounds);
  }

  /** Calls without an id get one from the response's. */
  setResponseId(responseId: string | null): void {
    this.#callIds = new CallIds(responseId, this.#bounds);
  }

  add(part: Json): void {
    const call = objectMember(part, "functionCall");
    if (call !== null) {
      this.#readCall(call, readString(part.thoughtSignature));
      return;
    }
    if (part.text === undefined) this.#noteDropped(part);
    const text = readString(part.text) ?? "";
    if (text !== "") {
      this.hasContent = true;
      this.#openText(part.thought === true ? "reasoning" : "text");
      this.#bounds.addText(text.length);
      this.#text.add(text);
      this.#events.push({ type: "delta", text });
    }
    // A stream may sign its text on a last part without text.
    if (part.thought !== true) this.#signature = readString(part.thoughtSignature) ?? this.#signature;
  }

  /** `metadata` lists the sources of the text. */
  end(isCut: boolean, metadata: Json | null): void {
    this.#endPartialCall(true);
    const { searches, citations } = readGrounding(metadata, this.#text, this.#bounds);
    // The text that they belong to has ended already.
    if (this.#open !== "text" && citations.length > 0) this.#options.dropped.add("groundingMetadata");
    this.#endText({ isCut, citations: this.#open === "text" ? citations : [] });
    for (const item of searches) {
      this.#startItem(item);
      this.#events.push({ type: "item_end", opaque: null, isCut: false });
    }
  }

  /** Code that Google ran, and images. */
  #noteDropped(part: Json): void {
    const name = Object.keys(part).find((key) => !/^thought/.test(key));
    if (name === undefined) return;
    this.hasContent = true;
    this.#options.dropped.add(`output.${name}`);
  }

  #openText(kind: TextKind): void {
    if (this.#open === kind) return;
    this.#endText();
    this.#startItem(kind === "text" ? { kind } : { kind, isSummary: true });
    this.#open = kind;
  }

  /** The state of a text follows as reasoning without text, because other dialects have state in reasoning only. */
  #endText({ opaque = null, isCut = false, citations }: ItemEnd = {}): void {
    const open = this.#open;
    const signature = this.#signature;
    if (open !== null) this.#events.push({ type: "item_end", opaque, isCut, ...withCitations(citations) });
    this.#open = null;
    this.#text = new TextPieces();
    this.#signature = null;
    if (open !== "text" || signature === null || isWithoutState(signature)) return;
    this.#open = "reasoning";
    this.#startItem({ kind: "reasoning", isSummary: true });
    this.#endText({ opaque: this.#seal(signature) });
  }

  #startItem(item: StartedItem): void {
    this.#bounds.addItem();
    this.#events.push({ type: "item_start", item });
  }

  #seal(value: string): OpaqueState {
    return this.#options.sealer.seal({ field: "thought_signature", value });
  }

  /** Vertex AI may send the arguments in pieces. The first one has the name; the last one lacks `willContinue`. */
  #readCall(call: Json, signature: string | null): void {
    const pieces = member(call, "partialArgs");
    const willContinue = member(call, "willContinue") === true;
    if (this.#partial !== null && !isSameCall(this.#partial.call, call)) this.#endPartialCall(true);
    if (this.#partial === null && pieces === undefined && !willContinue) {
      this.#addCall(call, signature, { json: JSON.stringify(call.args ?? {}), isCut: false });
      return;
    }
    const partial = this.#partial ?? { call, signature, args: new PartialArguments(), isBroken: false };
    this.#partial = partial;
    partial.signature ??= signature;
    partial.isBroken ||= !partial.args.add(this.#bounds.readList(pieces), this.#bounds);
    if (!willContinue) this.#endPartialCall(false);
  }

  #endPartialCall(isCut: boolean): void {
    const partial = this.#partial;
    this.#partial = null;
    if (partial === null) return;
    const { call, signature, args, isBroken } = partial;
    this.#addCall(call, signature, { json: args.toJson(), isCut: isCut || isBroken });
  }

  #addCall({ id, name }: Json, signature: string | null, { json, isCut }: CallArguments): void {
    this.hasContent = true;
    this.hasCalls ||= !isCut;
    const opaque = signature === null || isWithoutState(signature) ? null : this.#seal(signature);
    if (opaque !== null) this.#endReasoning(opaque);
    else this.#endText();
    const tool = resolveTool(this.#options.toolNames, readString(name) ?? "");
    this.#startItem({ kind: "call", callId: this.#callIds.assign(id), ...tool });
    const input = tool.tool === "custom" && !isCut ? unwrapCustomInput(json) : json;
    if (input !== "") this.#events.push({ type: "delta", text: input });
    this.#events.push({ type: "item_end", opaque, isCut });
  }

  /** Other dialects carry opaque state in reasoning, so the signature of a call ends the reasoning before it. */
  #endReasoning(opaque: OpaqueState): void {
    if (this.#open !== "reasoning") {
      this.#endText();
      this.#startItem({ kind: "reasoning", isSummary: true });
      this.#open = "reasoning";
    }
    this.#endText({ opaque });
  }
}

/** Pieces after the first may repeat the name and the id of their call. */
function isSameCall(open: Json, piece: Json): boolean {
  const isSame = (name: "name" | "id") => !piece[name] || piece[name] === open[name];
  return isSame("name") && isSame("id");
}
