/**
 * Counts the output tokens of a stream from its pieces, for streams that end without usage: upstreams that report none,
 * broken streams, clients that disconnect. Most streams do report usage, so a piece is only copied; text is counted
 * when the buffer is full or a count is requested, in short steps between other work. The whole text is never kept.
 */

import type { TextSink } from "../../protocols/shared/stream.ts";
import { countingTurns } from "./counting-turns.ts";
import { PendingText, TEXT_BREAK_BYTES } from "./pending-text.ts";
import { roughTokens } from "./rough-tokens.ts";
import { loadTokenizer, type Tokenizer } from "./tokenizer.ts";

/** The output tokens of a response, counted by the gateway because the upstream did not report them. */
export interface CountedOutput {
  outputTokens: number;
  /** Part of `outputTokens`: the reasoning that was shown, which may have a separate price. */
  reasoningTokens: number;
}

/** About four thousand tokens: most responses end before that and are never counted. */
const PENDING_BYTES_MAX = 16 * 1024;
/** About thirty thousand tokens: nearly all upstreams report usage, and then an unpaid response needs no count. */
const UNPAID_PENDING_BYTES_MAX = 128 * 1024;
/** Takes a tenth of a millisecond, or 6 ms if the text is one long word of rare letters. */
const STEP_BYTES = 4 * 1024;
/**
 * This much accumulates only if the tokenizer cannot be loaded, or if the upstream sends faster than its text can be
 * counted. Then the rough estimate is used, for a longer piece that of its beginning.
 */
const UNCOUNTED_BYTES_MAX = 256 * 1024;
const PENDING_TEXTS_MAX = 256;
/** Channels that no reader uses: none, and those of the texts that end because there are too many. */
const NO_CHANNEL = -(2 ** 31);
const ENDED_REASONING = NO_CHANNEL + 1;
const ENDED_OUTPUT = 2 ** 31;

export function openOutputCounter(): OutputCounter {
  return new OutputCounter(PENDING_BYTES_MAX);
}

/** Counts the same, but later: no hold depends on the count before the end. */
export function openUnpaidOutputCounter(): OutputCounter {
  return new OutputCounter(UNPAID_PENDING_BYTES_MAX);
}

export class OutputCounter implements TextSink {
  /** A count begins above this and ends at a half of it, so that it does not begin again with the next piece. */
  readonly #pendingBytesMax: number;
  /** Tokens of text that is no longer pending. Fractional if they could only be estimated. */
  #countedTokens = 0;
  /** The part of `#countedTokens` that is reasoning. */
  #countedReasoningTokens = 0;
  #pendingBytes = 0;
  #isCounting = false;
  readonly #pendingTexts = new Map<number, PendingText>();
  /** The channel of the last piece. Pieces of one channel mostly follow each other, which saves the look-up. */
  #currentChannel = NO_CHANNEL;
  #currentText = new PendingText();

  constructor(pendingBytesMax: number) {
    this.#pendingBytesMax = pendingBytesMax;
  }

  add(bytes: Uint8Array, start: number, end: number, channel: number): void {
    if (channel !== this.#currentChannel) this.#switchTo(channel);
    const length = end - start;
    if (length > UNCOUNTED_BYTES_MAX) {
      // No model writes as much in one piece, so its beginning is enough for an estimate.
      const tokens = roughTokens(bytes, start, start + UNCOUNTED_BYTES_MAX);
      this.#addCounted(channel, (tokens * length) / UNCOUNTED_BYTES_MAX);
      return;
    }
    this.#currentText.append(bytes, start, end);
    this.#pendingBytes += end - start;
    if (this.#pendingBytes > this.#pendingBytesMax) this.#countPending();
  }

  addWhole(bytes: Uint8Array, start: number, end: number, channel: number): void {
    this.add(TEXT_BREAK_BYTES, 0, 1, channel);
    this.add(bytes, start, end, channel);
    this.add(TEXT_BREAK_BYTES, 0, 1, channel);
  }

  /** Synchronous: text that is already counted is exact, the rest is estimated from its characters. */
  estimate(): number {
    let tokens = this.#countedTokens;
    for (const text of this.#pendingTexts.values()) tokens += text.estimateTokens();
    return Math.ceil(tokens);
  }

  /** The same, with reasoning separately. */
  estimateShown(): CountedOutput {
    return this.#sum((text) => text.estimateTokens());
  }

  /** Exact except for cuts in very long words. Loads the tokenizer if there is anything to count. */
  async exact(): Promise<CountedOutput> {
    if (this.#pendingBytes === 0) return this.#sum(() => 0);
    const tokenizer = await loadTokenizer();
    let counted: CountedOutput = { outputTokens: 0, reasoningTokens: 0 };
    await countingTurns.run({
      step: () => {
        if (!this.#countStep(tokenizer)) return false;
        counted = this.#sum((text) => text.countTokens(tokenizer));
        return true;
      },
    });
    return counted;
  }

  /** Adds the pending texts to what is already counted. */
  #sum(count: (text: PendingText) => number): CountedOutput {
    let outputTokens = this.#countedTokens;
    let reasoningTokens = this.#countedReasoningTokens;
    for (const [channel, text] of this.#pendingTexts) {
      const tokens = count(text);
      outputTokens += tokens;
      if (isReasoning(channel)) reasoningTokens += tokens;
    }
    return { outputTokens: Math.ceil(outputTokens), reasoningTokens: Math.ceil(reasoningTokens) };
  }

  #switchTo(channel: number): void {
    if (this.#pendingTexts.size >= PENDING_TEXTS_MAX) this.#endTexts();
    this.#currentText = this.#openPendingText(channel);
    this.#currentChannel = channel;
  }

  #openPendingText(channel: number): PendingText {
    let text = this.#pendingTexts.get(channel);
    if (text === undefined) {
      text = new PendingText();
      this.#pendingTexts.set(channel, text);
    }
    return text;
  }

  #countPending(): void {
    if (this.#pendingBytes > UNCOUNTED_BYTES_MAX) {
      this.#estimatePending();
    } else if (!this.#isCounting) {
      this.#isCounting = true;
      // Without a tokenizer the text stays pending and is estimated later.
      this.#countInTurns()
        .catch(() => {})
        .finally(() => {
          this.#isCounting = false;
        });
    }
  }

  async #countInTurns(): Promise<void> {
    const tokenizer = await loadTokenizer();
    await countingTurns.run({ step: () => this.#countStep(tokenizer) });
  }

  /** Counts the start of the longest text. Returns true if little enough is pending. */
  #countStep(tokenizer: Tokenizer): boolean {
    if (this.#pendingBytes <= this.#pendingBytesMax / 2) return true;
    let longest = this.#longestText();
    if (longest.text.length <= STEP_BYTES) {
      // Many channels with little text each: the last words of each are too much to keep.
      this.#endTexts();
      longest = this.#longestText();
    }
    const { channel, text } = longest;
    const oldLength = text.length;
    this.#addCounted(channel, text.takeCounted(STEP_BYTES, tokenizer));
    this.#pendingBytes += text.length - oldLength;
    return this.#pendingBytes <= this.#pendingBytesMax / 2;
  }

  #longestText(): { channel: number; text: PendingText } {
    let longest = { channel: this.#currentChannel, text: this.#currentText };
    for (const [channel, text] of this.#pendingTexts) {
      if (text.length > longest.text.length) longest = { channel, text };
    }
    return longest;
  }

  /** Moves all texts to one of output and one of reasoning. What follows in their channels begins new texts. */
  #endTexts(): void {
    const texts = [...this.#pendingTexts];
    this.#clearPending();
    for (const [channel, text] of texts) {
      const ended = this.#openPendingText(isReasoning(channel) ? ENDED_REASONING : ENDED_OUTPUT);
      text.moveTo(ended);
    }
    for (const text of this.#pendingTexts.values()) this.#pendingBytes += text.length;
  }

  #estimatePending(): void {
    for (const [channel, text] of this.#pendingTexts) this.#addCounted(channel, text.estimateTokens());
    this.#clearPending();
  }

  #clearPending(): void {
    this.#pendingTexts.clear();
    this.#pendingBytes = 0;
    this.#currentChannel = NO_CHANNEL;
    this.#currentText = new PendingText();
  }

  #addCounted(channel: number, tokens: number): void {
    this.#countedTokens += tokens;
    if (isReasoning(channel)) this.#countedReasoningTokens += tokens;
  }
}

function isReasoning(channel: number): boolean {
  return channel < 0;
}
