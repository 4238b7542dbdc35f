/** Follows a JSON text in pieces, in linear time: whether all open brackets and strings are closed. */
export class JsonProgress {
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  #isEmpty = true;

  add(text: string): void {
    if (text !== "") this.#isEmpty = false;
    for (let at = 0; at < text.length; at++) {
      const char = text[at];
      if (this.#isInString) this.#readStringChar(char);
      else if (char === '"') this.#isInString = true;
      else if (char === "{" || char === "[") this.#depth++;
      else if (char === "}" || char === "]") this.#depth--;
    }
  }

  #readStringChar(char: string | undefined): void {
    if (this.#isEscaped) this.#isEscaped = false;
    else if (char === "\\") this.#isEscaped = true;
    else if (char === '"') this.#isInString = false;
  }

  /** A value has begun and ended. */
  get isComplete(): boolean {
    return !this.#isEmpty && !this.#isInString && this.#depth <= 0;
  }
}
