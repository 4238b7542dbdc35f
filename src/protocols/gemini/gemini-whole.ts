/** Reads and writes whole Gemini responses. */

import { parseCallInput } from "../hub/call-input.ts";
import type { ClientTarget, ResponseReadOptions } from "../hub/dialect-codec.ts";
import type { CallItem } from "../hub/hub-request.ts";
import type { HubEvent, HubResponse, OutputItem } from "../hub/hub-response.ts";
import { ItemCollector } from "../hub/item-collector.ts";
import { type Json, readObject, readString } from "../hub/json-values.ts";
import { ResponseBounds } from "../hub/response-bounds.ts";
import { countQueries, withQueries } from "../shared/web-searches.ts";
import { OutputParts } from "./gemini-output-parts.ts";
import {
  isBlocked,
  noteCandidateLosses,
  readFinishReason,
  writeFinishReason,
  writeUsageMetadata,
} from "./gemini-stop.ts";
import { readGeminiUsage } from "./gemini-usage.ts";
import { GroundingWriter } from "./grounding.ts";
import { NO_STATE_SIGNATURE, type SignedThought, writeSignature } from "./thought-signature.ts";

export function readGeminiResponse(json: Json, options: ResponseReadOptions): HubResponse | null {
  const bounds = new ResponseBounds();
  const candidate = bounds.readFirstChoice(json.candidates);
  const responseId = readString(json.responseId);
  const usage = withQueries(
    readGeminiUsage(json.usageMetadata),
    countQueries(candidate),
    readString(json.modelVersion),
  );
  const base = { responseId, createdAtSeconds: null, stopSequence: null, usage };
  if (candidate === undefined) return isBlocked(json) ? { ...base, items: [], stop: "filtered" } : null;
  const stop = readFinishReason(readString(candidate.finishReason) ?? "STOP");
  noteCandidateLosses(candidate, stop, options.dropped);
  const events: HubEvent[] = [];
  const parts = new OutputParts(options, events, bounds);
  parts.setResponseId(responseId);
  for (const part of bounds.readList(readObject(candidate.content)?.parts)) parts.add(part);
  parts.end(stop === "length", readObject(candidate.groundingMetadata));
  // Gemini sometimes finishes normally without any part: another account may do better.
  if (stop === "end" && !parts.hasContent) return null;
  const collector = new ItemCollector();
  for (const event of events) collector.add(event);
  return { ...base, items: collector.items, stop: parts.hasCalls ? "tools" : stop };
}

export function writeGeminiResponse(response: HubResponse, client: ClientTarget): Record<string, unknown> {
  const { publicModel, responseId, request } = client;
  const grounding = new GroundingWriter(client.dropped);
  const showsThoughts = request.settings.reasoning?.isShown === true;
  const parts = new PartsWriter(showsThoughts, grounding).write(response.items);
  const finishReason = writeFinishReason(response.stop);
  return {
    candidates: [{ content: { parts, role: "model" }, finishReason, index: 0, ...grounding.build() }],
    ...(response.usage === null ? {} : { usageMetadata: writeUsageMetadata(response.usage) }),
    modelVersion: publicModel,
    responseId,
  };
}

class PartsWriter {
  readonly #showsThoughts: boolean;
  readonly #grounding: GroundingWriter;
  readonly #parts: Record<string, unknown>[] = [];
  /** State that the next call carries, or the last part. */
  #pending: SignedThought | null = null;
  #calls = 0;

  constructor(showsThoughts: boolean, grounding: GroundingWriter) {
    this.#showsThoughts = showsThoughts;
    this.#grounding = grounding;
  }

  write(items: readonly OutputItem[]): Record<string, unknown>[] {
    for (const item of items) this.#add(item);
    if (this.#pending !== null)
      this.#parts.push({ text: "", thoughtSignature: writeSignature(this.#pending) });
    return this.#parts;
  }

  #add(item: OutputItem): void {
    switch (item.kind) {
      case "message":
        for (const part of item.parts) {
          if (part.kind !== "text" && part.kind !== "refusal") continue;
          this.#parts.push({ text: part.text });
          this.#grounding.addText(part.text, part.kind === "text" ? part.citations : []);
        }
        return;
      case "search":
        this.#grounding.addSearch(item);
        return;
      case "reasoning":
        if (this.#showsThoughts && item.text !== "") this.#parts.push({ text: item.text, thought: true });
        if (item.opaque !== null) this.#pending = { opaque: item.opaque, text: item.text };
        return;
      case "call":
        this.#parts.push(
          writeCallPart(item, {
            signed: this.#pending ?? (item.opaque === null ? null : { opaque: item.opaque, text: "" }),
            isFirst: this.#calls === 0,
          }),
        );
        this.#calls++;
        this.#pending = null;
        return;
      case "foreign":
        return;
    }
  }
}

/** The first call of a response is always signed, as at Google. */
export function writeCallPart(
  { callId, name, input }: Pick<CallItem, "callId" | "name" | "input">,
  { signed, isFirst }: { readonly signed: SignedThought | null; readonly isFirst: boolean },
): Record<string, unknown> {
  const functionCall = { id: callId, name, args: parseCallInput(input) };
  if (signed !== null) return { functionCall, thoughtSignature: writeSignature(signed) };
  return isFirst ? { functionCall, thoughtSignature: NO_STATE_SIGNATURE } : { functionCall };
}
