/** Reads the events of a Gemini stream as events between dialects. Every event is a whole response with new parts. */

import type { HubStreamReader, ResponseReadOptions } from "../hub/dialect-codec.ts";
import type { HubEvent, HubStop } from "../hub/hub-response.ts";
import { type Json, parseObject, readObject, readString } from "../hub/json-values.ts";
import { ResponseBounds } from "../hub/response-bounds.ts";
import { BROKEN_OFF, StreamEvents } from "../hub/stream-events.ts";
import { readUpstreamError } from "../shared/upstream-error.ts";
import type { TokenUsage } from "../shared/usage.ts";
import { countQueries, withQueries } from "../shared/web-searches.ts";
import { OutputParts } from "./gemini-output-parts.ts";
import { isBlocked, noteCandidateLosses, readFinishReason } from "./gemini-stop.ts";
import { readGeminiUsage } from "./gemini-usage.ts";

export class GeminiHubReader implements HubStreamReader {
  readonly #options: ResponseReadOptions;
  readonly #bounds = new ResponseBounds();
  readonly #events = new StreamEvents();
  readonly #parts: OutputParts;
  #hasStarted = false;
  #usage: TokenUsage | null = null;
  #searches = 0;
  /** The latest report of sources. */
  #grounding: Json | null = null;
  /** Set by the finish reason. The usage may follow. */
  #stop: HubStop | null = null;

  constructor(options: ResponseReadOptions) {
    this.#options = options;
    this.#parts = new OutputParts(options, this.#events.list, this.#bounds);
  }

  read(data: string): readonly HubEvent[] {
    const json = this.#events.isOver ? null : parseObject(data);
    if (json === null) return this.#events.take();
    if (json.error != null) {
      this.#events.fail(readUpstreamError(json) ?? { ...BROKEN_OFF, message: "" });
      return this.#events.take();
    }
    this.#begin(json);
    const candidate = this.#bounds.readFirstChoice(json.candidates);
    if (candidate !== undefined) this.#readCandidate(candidate);
    else if (isBlocked(json)) this.#stop = "filtered";
    const reported = readGeminiUsage(json.usageMetadata);
    const usage = withQueries(reported, this.#searches, readString(json.modelVersion));
    // Every event may carry the usage so far. It is final only with the finish reason.
    if (usage !== null) this.#addUsage({ ...usage, isEarly: this.#stop === null });
    if (!this.#events.isOver && this.#stop !== null && usage !== null) this.#finish();
    return this.#events.take();
  }

  close(): readonly HubEvent[] {
    if (this.#events.isOver) return this.#events.take();
    if (this.#stop === null) this.#events.fail(BROKEN_OFF);
    else this.#finish();
    return this.#events.take();
  }

  #addUsage(usage: TokenUsage): void {
    this.#usage = usage;
    // An error is the last event.
    if (!this.#events.isOver) this.#events.add({ type: "usage", usage });
  }

  #begin(json: Json): void {
    if (this.#hasStarted) return;
    this.#hasStarted = true;
    const responseId = readString(json.responseId);
    this.#parts.setResponseId(responseId);
    // Some clients receive the size of the input with the first event.
    const usage = readGeminiUsage(json.usageMetadata);
    if (usage !== null) this.#addUsage({ ...usage, isEarly: true });
    this.#events.add({
      type: "start",
      responseId,
      createdAtSeconds: null,
      model: readString(json.modelVersion),
    });
  }

  #readCandidate(candidate: Json): void {
    this.#searches = Math.max(this.#searches, countQueries(candidate));
    this.#grounding = readObject(candidate.groundingMetadata) ?? this.#grounding;
    for (const part of this.#bounds.readList(readObject(candidate.content)?.parts)) this.#parts.add(part);
    const reason = readString(candidate.finishReason);
    if (reason === null || reason === "") return;
    const stop = readFinishReason(reason);
    noteCandidateLosses(candidate, stop, this.#options.dropped);
    // Gemini sometimes finishes normally without any part: another account may do better.
    if (stop === "end" && !this.#parts.hasContent)
      this.#events.fail({ ...BROKEN_OFF, message: "an empty response" });
    else this.#stop = stop;
  }

  #finish(): void {
    if (this.#usage?.isEarly) this.#events.add({ type: "usage", usage: { ...this.#usage, isEarly: false } });
    this.#parts.end(this.#stop === "length", this.#grounding);
    const stop = this.#parts.hasCalls ? "tools" : (this.#stop ?? "end");
    this.#events.end(stop);
  }
}
