/** Ids of the calls of one response. Some upstreams send none, or the same one for several calls. */

import type { ResponseBounds } from "./response-bounds.ts";

const RESPONSE_ID_CHARS_MAX = 40;

export class CallIds {
  readonly #bounds: ResponseBounds;
  readonly #used = new Set<string>();
  readonly #responseId: string;

  constructor(responseId: string | null, bounds: ResponseBounds) {
    this.#bounds = bounds;
    this.#responseId = (responseId ?? "").replace(/[^A-Za-z0-9_-]/g, "").slice(0, RESPONSE_ID_CHARS_MAX);
  }

  /** Returns the id itself, unless it is missing or taken. Counts the call. */
  assign(id: unknown): string {
    this.#bounds.addCall();
    const own = typeof id === "string" && id !== "" ? id : null;
    let callId = own ?? `call_${this.#responseId}_${this.#used.size}`;
    for (let count = this.#used.size; this.#used.has(callId); count++) callId = `${own ?? "call"}_${count}`;
    this.#bounds.addText(callId.length);
    this.#used.add(callId);
    return callId;
  }
}
