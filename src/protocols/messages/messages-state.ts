/**
 * Removes thinking from a Messages body that passes through. A conversation that was begun on a translated account
 * carries the state of another vendor in the gateway's envelopes, or thinking without a signature. An account that has
 * the interface itself would reject both. If it rejects the state of another account of the same vendor, all thinking is
 * removed.
 */

import { findBytes } from "../../base/bytes.ts";
import type { Part } from "../../base/parts.ts";
import { type ByteRange, firstElements, removeElements } from "../../json/array.ts";
import { type JsonField, scanObject, stringValue, wantedFields } from "../../json/scan.ts";
import { replaceValue, type Splice } from "../../json/splice.ts";
import type { OpaqueStateForm } from "../shared/endpoint.ts";
import { ENVELOPE_PREFIX, isForeignState } from "../shared/envelope-prefix.ts";

/** Clients of Messages also carry the thinking of upstreams without state, unsigned. */
const MARKS = [
  Buffer.from(`"${ENVELOPE_PREFIX}`),
  Buffer.from('"signature":""'),
  Buffer.from('"signature": ""'),
];
const BODY = wantedFields(["thinking"]);
const THINKING = wantedFields(["type"]);
const MESSAGE = wantedFields(["role", "content"]);
const STATE = wantedFields(["type", "signature", "data"]);
/** Content must not be empty. */
const EMPTY_TURN = Buffer.from('{"type":"text","text":"."}');
const DISABLED = Buffer.from('{"type":"disabled"}');

export const MESSAGES_STATE: OpaqueStateForm = {
  /** Almost every body contains no mark, and costs only the search. */
  dropSealed(part, { messages }, depthMax) {
    if (messages?.kind !== "array" || !MARKS.some((mark) => contains(part, mark))) return [];
    return new ThinkingRemoval(part, depthMax, isSealed).drop(messages);
  },
  /** With the budget of thinking. */
  dropAll(part, { messages }, depthMax) {
    if (messages?.kind !== "array" || !contains(part, THINKING_MARK)) return [];
    return new ThinkingRemoval(part, depthMax, isThinking).dropAll(messages);
  },
};

function contains({ bytes, start, end }: Part, mark: Uint8Array): boolean {
  return findBytes(bytes, mark, start, end) !== -1;
}

const THINKING_MARK = Buffer.from('thinking"');
const RESULT_MARK = Buffer.from('"tool_result"');

type IsDropped = (bytes: Uint8Array, element: ByteRange, depthMax: number) => boolean;

function dropElements(
  bytes: Uint8Array,
  array: JsonField,
  depthMax: number,
  isDropped: IsDropped,
): readonly Splice[] {
  const elements = firstElements(bytes, array, Number.POSITIVE_INFINITY);
  return removeElements(array, elements, (element) => isDropped(bytes, element, depthMax));
}

function isThinking(bytes: Uint8Array, element: ByteRange, depthMax: number): boolean {
  const scan = scanObject(bytes, element.start, element.end, THINKING, { depthMax });
  const type = scan.ok ? scan.fields.type : undefined;
  const name = type === undefined ? null : stringValue(bytes, type);
  return name === "thinking" || name === "redacted_thinking";
}

function isSealed(bytes: Uint8Array, element: ByteRange, depthMax: number): boolean {
  const scan = scanObject(bytes, element.start, element.end, STATE, { depthMax });
  if (!scan.ok) return false;
  const { type, signature, data } = scan.fields;
  const name = type === undefined ? null : stringValue(bytes, type);
  const state = name === "thinking" ? signature : name === "redacted_thinking" ? data : undefined;
  return state !== undefined && isForeignState(stringValue(bytes, state));
}

class ThinkingRemoval {
  readonly #part: Part;
  readonly #depthMax: number;
  readonly #isDropped: IsDropped;

  constructor(part: Part, depthMax: number, isDropped: IsDropped) {
    this.#part = part;
    this.#depthMax = depthMax;
    this.#isDropped = isDropped;
  }

  drop(messages: JsonField): readonly Splice[] {
    const { splices, isLastCallReduced } = this.#dropTurns(messages);
    return isLastCallReduced ? [...splices, ...this.#disableBudget()] : splices;
  }

  dropAll(messages: JsonField): readonly Splice[] {
    return [...this.#dropTurns(messages).splices, ...this.#disableBudget()];
  }

  /** `isLastCallReduced`: the calls whose results end the conversation have lost their thinking. */
  #dropTurns(messages: JsonField): { splices: readonly Splice[]; isLastCallReduced: boolean } {
    const { bytes } = this.#part;
    const splices: Splice[] = [];
    let isLastTurnReduced = false;
    let isLastCallReduced = false;
    for (const message of firstElements(bytes, messages, Number.POSITIVE_INFINITY)) {
      const scan = scanObject(bytes, message.start, message.end, MESSAGE, { depthMax: this.#depthMax });
      if (!scan.ok) continue;
      const { role, content } = scan.fields;
      if (role === undefined || stringValue(bytes, role) !== "assistant") {
        isLastCallReduced = isLastTurnReduced && content !== undefined && this.#hasResult(content);
        continue;
      }
      const dropped = content?.kind === "array" ? this.#dropBlocks(content) : [];
      isLastTurnReduced = dropped.length > 0;
      isLastCallReduced = false;
      splices.push(...dropped);
    }
    return { splices, isLastCallReduced };
  }

  #hasResult({ start, end, kind }: JsonField): boolean {
    return kind === "array" && findBytes(this.#part.bytes, RESULT_MARK, start, end) !== -1;
  }

  #dropBlocks(content: JsonField): readonly Splice[] {
    const splices = dropElements(this.#part.bytes, content, this.#depthMax, this.#isDropped);
    const [only] = splices;
    const isEmptied = only !== undefined && only.start === content.start + 1 && only.end === content.end - 1;
    return isEmptied ? [{ ...only, insert: EMPTY_TURN }] : splices;
  }

  /** With a budget of thinking, a turn with calls must begin with its thinking as long as results are sent for it. */
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
