/**
 * A text that arrives in pieces. Short pieces are joined in blocks, so that the memory is about the length of the text;
 * appending each piece to a string would keep an object for every piece.
 */

const PIECES_PER_BLOCK = 256;

export class TextPieces {
  readonly #blocks: string[] = [];
  readonly #pieces: string[] = [];
  #length = 0;

  get length(): number {
    return this.#length;
  }

  add(text: string): void {
    if (text === "") return;
    this.#length += text.length;
    this.#pieces.push(text);
    if (this.#pieces.length >= PIECES_PER_BLOCK) this.#blocks.push(this.#pieces.splice(0).join(""));
  }

  toString(): string {
    const text = this.#blocks.join("") + this.#pieces.join("");
    this.#blocks.length = 0;
    this.#pieces.length = 0;
    if (text !== "") this.#blocks.push(text);
    return text;
  }
}
