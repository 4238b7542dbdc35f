/**
 * Removes the gateway's envelopes from a body that passes through. A conversation that was begun on a translated account
 * carries the state of another vendor in them, or thinking without a signature. An account that has the interface itself
 * would reject both.
 */

import { type ByteRange, firstElements, keepElements } from "../../json/array.ts";
import { type JsonField, scanObject, stringValue, wantedFields } from "../../json/scan.ts";
import { replaceValue, type Splice } from "../../json/splice.ts";
import { findBytes } from "../../net/wire/bytes.ts";
import type { Part } from "../../net/wire/parts.ts";
import { ENVELOPE_PREFIX } from "./envelope-prefix.ts";

/** An envelope, and the thinking of an upstream without state. */
const MARKS = [`"${ENVELOPE_PREFIX}`, '"signature":""', '"signature": ""'].map((mark) => Buffer.from(mark));
const BODY = wantedFields(["thinking"]);
const THINKING = wantedFields(["type"]);
const MESSAGE = wantedFields(["role", "content"]);
const STATE = wantedFields(["type", "signature", "data", "encrypted_content"]);
/** Content must not be empty. */
const EMPTY_TURN = Buffer.from('{"type":"text","text":"."}');
const DISABLED = Buffer.from('{"type":"disabled"}');

interface BodyFields {
  readonly input?: JsonField;
  readonly messages?: JsonField;
}

/** Almost every body contains no mark, and costs only the search. */
export function dropSealedState(part: Part, fields: BodyFields, depthMax: number): readonly Splice[] {
  const { bytes, start } = part;
  if (MARKS.every((mark) => findBytes(bytes, mark, start) === -1)) return [];
  const { input, messages } = fields;
  if (input?.kind === "array") return dropSealedElements(bytes, input, depthMax);
  return messages?.kind === "array" ? new SealedThinking(part, depthMax).drop(messages) : [];
}

function dropSealedElements(bytes: Uint8Array, array: JsonField, depthMax: number): readonly Splice[] {
  const elements = firstElements(bytes, array, Number.POSITIVE_INFINITY);
  const kept = elements.filter((element) => !isSealed(bytes, element, depthMax));
  return kept.length === elements.length ? [] : keepElements(array, kept);
}

/** Reasoning of Responses, and thinking of Messages. */
function isSealed(bytes: Uint8Array, element: ByteRange, depthMax: number): boolean {
  const scan = scanObject(bytes, element.start, element.end, STATE, { depthMax });
  if (!scan.ok) return false;
  const { type, signature, data, encrypted_content: content } = scan.fields;
  const name = type === undefined ? null : stringValue(bytes, type);
  const state =
    name === "thinking"
      ? signature
      : name === "redacted_thinking"
        ? data
        : name === "reasoning"
          ? content
          : undefined;
  const value = state === undefined ? undefined : stringValue(bytes, state);
  return value === "" || value?.startsWith(ENVELOPE_PREFIX) === true;
}

class SealedThinking {
  readonly #part: Part;
  readonly #depthMax: number;

  constructor(part: Part, depthMax: number) {
    this.#part = part;
    this.#depthMax = depthMax;
  }

  drop(messages: JsonField): readonly Splice[] {
    const { bytes } = this.#part;
    const splices: Splice[] = [];
    let isLastTurnReduced = false;
    for (const message of firstElements(bytes, messages, Number.POSITIVE_INFINITY)) {
      const scan = scanObject(bytes, message.start, message.end, MESSAGE, { depthMax: this.#depthMax });
      if (!scan.ok) continue;
      const { role, content } = scan.fields;
      if (role === undefined || stringValue(bytes, role) !== "assistant") continue;
      const dropped = content?.kind === "array" ? this.#dropBlocks(content) : [];
      isLastTurnReduced = dropped.length > 0;
      splices.push(...dropped);
    }
    return isLastTurnReduced ? [...splices, ...this.#disableBudget()] : splices;
  }

  #dropBlocks(content: JsonField): readonly Splice[] {
    const splices = dropSealedElements(this.#part.bytes, content, this.#depthMax);
    const [only] = splices;
    // One splice alone covers the whole array: no block is left.
    return only !== undefined && splices.length === 1 ? [{ ...only, insert: EMPTY_TURN }] : splices;
  }

  /** With a budget of thinking, the last turn of the assistant must begin with its thinking. */
  #disableBudget(): readonly Splice[] {
    const { bytes, start, end } = this.#part;
    const scan = scanObject(bytes, start, end, BODY, { depthMax: this.#depthMax });
    const thinking = scan.ok ? scan.fields.thinking : undefined;
    if (thinking?.kind !== "object") return [];
    const inner = scanObject(bytes, thinking.start, thinking.end, THINKING, { depthMax: this.#depthMax });
    const type = inner.ok ? inner.fields.type : undefined;
    const isBudget = type !== undefined && stringValue(bytes, type) === "enabled";
    return isBudget ? [replaceValue(thinking, DISABLED)] : [];
  }
}
