/** Ids of the calls of one response. Some upstreams send none, or the same one for several calls. */

const RESPONSE_ID_CHARS_MAX = 40;

export class CallIds {
  readonly #used = new Set<string>();
  readonly #responseId: string;

  constructor(responseId: string | null) {
    this.#responseId = (responseId ?? "").replace(/[^A-Za-z0-9_-]/g, "").slice(0, RESPONSE_ID_CHARS_MAX);
  }

  /** Returns the id itself, unless it is missing or taken. */
  assign(id: unknown): string {
    const own = typeof id === "string" && id !== "" ? id : null;
    let callId = own ?? `call_${this.#responseId}_${this.#used.size}`;
    for (let count = this.#used.size; this.#used.has(callId); count++) callId = `${own ?? "call"}_${count}`;
    this.#used.add(callId);
    return callId;
  }
}
