/**
 * Counts the output tokens of a stream from its pieces, for streams that end without usage: upstreams that report none,
 * broken streams, clients that disconnect. Most streams do report usage, so a piece is only copied; text is counted
 * when the buffer is full or a count is requested. The whole text is never kept.
 */

import type { TextSink } from "../../protocols/shared/stream.ts";
import { PendingText, TEXT_BREAK_BYTES } from "./pending-text.ts";
import { loadTokenizer, tokenizerIfLoaded } from "./tokenizer.ts";

/** The output tokens of a response, counted by the gateway because the upstream did not report them. */
export interface CountedOutput {
  outputTokens: number;
  /** Part of `outputTokens`: the reasoning that was shown, which may have a separate price. */
  reasoningTokens: number;
}

/** About four thousand tokens: most responses end before that and are never counted. */
const PENDING_BYTES_MAX = 16 * 1024;
/** This much accumulates only if the tokenizer cannot be loaded. Then the rough estimate is used. */
const UNCOUNTED_BYTES_MAX = 256 * 1024;
const PENDING_TEXTS_MAX = 256;
/** A channel that no reader uses. */
const NO_CHANNEL = -(2 ** 31);

export function openOutputCounter(): OutputCounter {
  return new OutputCounter();
}

export class OutputCounter implements TextSink {
  /** Tokens of text that is no longer pending. Fractional if they could only be estimated. */
  #countedTokens = 0;
  /** The part of `#countedTokens` that is reasoning. */
  #countedReasoningTokens = 0;
  #pendingBytes = 0;
  readonly #pendingTexts = new Map<number, PendingText>();
  /** The channel of the last piece. Pieces of one channel mostly follow each other, which saves the look-up. */
  #currentChannel = NO_CHANNEL;
  #currentText = new PendingText();

  add(bytes: Uint8Array, start: number, end: number, channel: number): void {
    if (channel !== this.#currentChannel) this.#switchTo(channel);
    this.#currentText.append(bytes, start, end);
    this.#pendingBytes += end - start;
    if (this.#pendingBytes > PENDING_BYTES_MAX) this.#countPending();
  }

  addWhole(bytes: Uint8Array, start: number, end: number, channel: number): void {
    if (channel !== this.#currentChannel) this.#switchTo(channel);
    this.#currentText.append(TEXT_BREAK_BYTES, 0, 1);
    this.#currentText.append(bytes, start, end);
    this.#currentText.append(TEXT_BREAK_BYTES, 0, 1);
    this.#pendingBytes += end - start + 2;
    if (this.#pendingBytes > PENDING_BYTES_MAX) this.#countPending();
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
    return this.#sum((text) => text.countTokens(tokenizer));
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
    if (this.#pendingTexts.size >= PENDING_TEXTS_MAX) this.#closePendingTexts();
    let text = this.#pendingTexts.get(channel);
    if (text === undefined) {
      text = new PendingText();
      this.#pendingTexts.set(channel, text);
    }
    this.#currentChannel = channel;
    this.#currentText = text;
  }

  #countPending(): void {
    const tokenizer = tokenizerIfLoaded();
    if (tokenizer === null) {
      if (this.#pendingBytes > UNCOUNTED_BYTES_MAX) this.#closePendingTexts();
      else loadTokenizer().catch(() => {});
      return;
    }
    this.#pendingBytes = 0;
    for (const [channel, text] of this.#pendingTexts) {
      this.#addCounted(channel, text.takeCounted(tokenizer));
      this.#pendingBytes += text.length;
    }
    // Many channels with little text each: their tails alone are too much to keep.
    if (this.#pendingBytes > PENDING_BYTES_MAX / 2) this.#closePendingTexts();
  }

  #closePendingTexts(): void {
    const tokenizer = tokenizerIfLoaded();
    for (const [channel, text] of this.#pendingTexts)
      this.#addCounted(channel, tokenizer === null ? text.estimateTokens() : text.countTokens(tokenizer));
    this.#pendingTexts.clear();
    this.#currentChannel = NO_CHANNEL;
    this.#pendingBytes = 0;
  }

  #addCounted(channel: number, tokens: number): void {
    this.#countedTokens += tokens;
    if (isReasoning(channel)) this.#countedReasoningTokens += tokens;
  }
}

function isReasoning(channel: number): boolean {
  return channel < 0;
}
