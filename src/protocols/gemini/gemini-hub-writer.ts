/** Writes the events of a response as a Gemini stream. Calls are sent when they are complete: Gemini has no partial ones. */

import type { ApiError } from "../../errors.ts";
import type { ClientTarget, HubStreamWriter } from "../hub/dialect-codec.ts";
import type { HubEvent, HubStop, ItemEndEvent, StartedItem } from "../hub/hub-response.ts";
import { TextPieces } from "../hub/text-pieces.ts";
import type { TokenUsage } from "../shared/usage.ts";
import { writeFinishReason, writeUsageMetadata } from "./gemini-stop.ts";
import { writeCallPart } from "./gemini-whole.ts";
import { googleErrorBody } from "./google-error-body.ts";
import { GroundingWriter } from "./grounding.ts";
import { type SignedThought, writeSignature } from "./thought-signature.ts";

export class GeminiHubWriter implements HubStreamWriter {
  readonly #showsThoughts: boolean;
  readonly #grounding: GroundingWriter;
  readonly #tail: string;
  #usage: TokenUsage | null = null;
  #item: StartedItem | null = null;
  #text = new TextPieces();
  /** State that the next call carries, or the last event. */
  #pending: SignedThought | null = null;
  #calls = 0;

  constructor({ publicModel, responseId, request, dropped }: ClientTarget) {
    this.#grounding = new GroundingWriter(dropped);
    this.#showsThoughts = request.settings.reasoning?.isShown === true;
    this.#tail = `"modelVersion":${JSON.stringify(publicModel)},"responseId":${JSON.stringify(responseId)}}\n\n`;
  }

  write(event: HubEvent): string {
    switch (event.type) {
      case "item_start":
        this.#item = event.item;
        this.#text = new TextPieces();
        return "";
      case "delta":
        return this.#writeDelta(event.text);
      case "item_end":
        return this.#endItem(event);
      case "usage":
        this.#usage = event.usage;
        return "";
      case "end":
        return this.#writeEnd(event.stop);
      case "start":
      case "error":
        return "";
    }
  }

  keepAlive(): null {
    return null;
  }

  fail(error: ApiError, requestId: string): string {
    return `data: ${JSON.stringify(googleErrorBody(error, requestId))}\n\n`;
  }

  #writeDelta(text: string): string {
    const kind = this.#item?.kind;
    this.#text.add(text);
    if (kind === "call" || (kind === "reasoning" && !this.#showsThoughts)) return "";
    return this.#chunk(`{"text":${JSON.stringify(text)}${kind === "reasoning" ? ',"thought":true' : ""}}`);
  }

  #endItem({ opaque, isCut, citations }: ItemEndEvent): string {
    const item = this.#item;
    this.#item = null;
    if (item?.kind === "text" || item?.kind === "refusal")
      this.#grounding.addText(this.#text.toString(), citations);
    if (item?.kind === "search") this.#grounding.addSearch(item);
    if (item?.kind === "reasoning" && opaque !== null)
      this.#pending = { opaque, text: this.#text.toString() };
    if (item?.kind !== "call" || isCut) return "";
    const signed = this.#pending ?? (opaque === null ? null : { opaque, text: "" });
    this.#pending = null;
    const isFirst = this.#calls++ === 0;
    return this.#chunk(
      JSON.stringify(writeCallPart({ ...item, input: this.#text.toString() }, { signed, isFirst })),
    );
  }

  #writeEnd(stop: HubStop): string {
    const signature = this.#pending === null ? "" : `,"thoughtSignature":"${writeSignature(this.#pending)}"`;
    const usage =
      this.#usage === null ? "" : `"usageMetadata":${JSON.stringify(writeUsageMetadata(this.#usage))},`;
    const end = JSON.stringify({
      finishReason: writeFinishReason(stop),
      index: 0,
      ...this.#grounding.build(),
    }).slice(1);
    return `data: {"candidates":[{"content":{"parts":[{"text":""${signature}}],"role":"model"},${end}],${usage}${this.#tail}`;
  }

  #chunk(part: string): string {
    return `data: {"candidates":[{"content":{"parts":[${part}],"role":"model"},"index":0}],${this.#tail}`;
  }
}
