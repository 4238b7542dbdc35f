/**
 * Groups the items of a conversation into turns, for dialects in which one message of the assistant contains text and
 * calls and is followed at once by the outputs of the calls. Clients echo their history in other orders.
 */

import { type ApiError, paramError } from "../../errors.ts";
import type {
  CallItem,
  CallOutputItem,
  HubItem,
  HubPart,
  MessageItem,
  ReasoningItem,
} from "./hub-request.ts";

export interface AssistantTurn {
  readonly kind: "assistant";
  readonly reasoning: readonly ReasoningItem[];
  readonly parts: readonly HubPart[];
  readonly calls: readonly CompletedCall[];
}

export interface CompletedCall {
  readonly call: CallItem;
  /** Null if the conversation contains no output: the call was aborted. */
  readonly output: CallOutputItem | null;
}

export type HubTurn =
  | AssistantTurn
  | { readonly kind: "message"; readonly role: "user" | "system"; readonly parts: readonly HubPart[] }
  /** No dialect that groups turns has a place for the item. */
  | { readonly kind: "foreign"; readonly path: string };

interface OpenTurn extends AssistantTurn {
  readonly reasoning: ReasoningItem[];
  readonly parts: HubPart[];
  readonly calls: { call: CallItem; output: CallOutputItem | null }[];
}

/** The name of a search among the dropped fields. */
export const SEARCH_NAME = "web_search_call";
/** The name of reasoning that its vendor hides, which only some dialects can carry. */
export const REDACTED_NAME = "redacted_thinking";

export function groupTurns(items: readonly HubItem[]): readonly HubTurn[] {
  return new TurnGrouping().group(items);
}

class TurnGrouping {
  readonly #turns: HubTurn[] = [];
  /** The latest call with each id. */
  readonly #calls = new Map<string, OpenTurn["calls"][number]>();
  /** The assistant's turn that further items belong to. */
  #open: OpenTurn | null = null;

  group(items: readonly HubItem[]): readonly HubTurn[] {
    for (const item of items) this.#add(item);
    this.#joinState();
    return this.#turns;
  }

  #add(item: HubItem): void {
    switch (item.kind) {
      case "message":
        if (item.role === "assistant") this.#addText(item);
        else this.#addMessage(item, item.role);
        return;
      case "reasoning": {
        const open = this.#open;
        const turn = open !== null && open.calls.length > 0 ? open : this.#turnWithout("parts");
        turn.reasoning.push(item);
        return;
      }
      case "call": {
        const turn = this.#open ?? this.#begin();
        const entry = { call: item, output: null };
        turn.calls.push(entry);
        this.#calls.set(item.callId, entry);
        return;
      }
      case "call_output":
        this.#addOutput(item);
        return;
      case "search":
        this.#turns.push({ kind: "foreign", path: SEARCH_NAME });
        return;
      case "foreign":
        this.#turns.push({ kind: "foreign", path: item.path });
        return;
    }
  }

  /** Text joins the calls of its turn. A second text without calls between them is a separate message. */
  #addText({ parts }: MessageItem): void {
    const open = this.#open;
    const turn = open !== null && open.calls.length > 0 ? open : this.#turnWithout("parts");
    turn.parts.push(...parts);
  }

  #addMessage({ parts }: MessageItem, role: "user" | "system"): void {
    this.#joinState();
    this.#open = null;
    this.#turns.push({ kind: "message", role, parts });
  }

  /** State that follows the last text of the assistant belongs to that text (Gemini). */
  #joinState(): void {
    const [before, last] = this.#turns.slice(-2);
    if (last === undefined || last !== this.#open || before?.kind !== "assistant") return;
    const isState = last.reasoning.every(({ text }) => text === "");
    if (!isState || last.parts.length > 0 || last.calls.length > 0 || before.calls.length > 0) return;
    this.#turns.splice(-2, 2, { ...before, reasoning: [...before.reasoning, ...last.reasoning] });
  }

  /** The last output of a call counts. */
  #addOutput(output: CallOutputItem): void {
    const entry = this.#calls.get(output.callId);
    if (entry === undefined) throw orphanError(output.callId);
    entry.output = output;
    this.#open = null;
  }

  #turnWithout(field: "parts"): OpenTurn {
    return this.#open !== null && this.#open[field].length === 0 ? this.#open : this.#begin();
  }

  #begin(): OpenTurn {
    const turn: OpenTurn = { kind: "assistant", reasoning: [], parts: [], calls: [] };
    this.#open = turn;
    this.#turns.push(turn);
    return turn;
  }
}

function orphanError(callId: string): ApiError {
  return paramError(
    "input",
    "invalid_value",
    `No tool call found for the output with call_id '${callId.slice(0, 128)}'. Send the call before its output.`,
  );
}
