/** A conversation of the playground: the turns of a person, and the replies of one to four models to each of them. */

import type { Inspection } from "../requests/inspection.ts";

export const COLUMNS_MAX = 4;
export const EFFORTS = ["minimal", "low", "medium", "high"] as const;
export type Effort = (typeof EFFORTS)[number];

export interface Turn {
  readonly text: string;
  /** As data URLs. */
  readonly images: readonly string[];
}

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON, as the model wrote it. */
  readonly arguments: string;
}

export interface Reply {
  readonly state: "streaming" | "done" | "failed" | "stopped";
  readonly text: string;
  readonly reasoning: string;
  readonly toolCalls: readonly ToolCall[];
  readonly requestId: string | null;
  /** Since the request was sent; null if no output has arrived. */
  readonly firstMs: number | null;
  readonly totalMs: number | null;
  /** The message of the error. Empty if the gateway could not be reached. */
  readonly problem: string | null;
  /** What the page of the request shows; null until the request is settled. */
  readonly bill: Inspection | null;
}

export const NEW_REPLY: Reply = {
  state: "streaming",
  text: "",
  reasoning: "",
  toolCalls: [],
  requestId: null,
  firstMs: null,
  totalMs: null,
  problem: null,
  bill: null,
};

export interface Column {
  /** Distinguishes two columns with the same model. */
  readonly id: string;
  readonly model: string;
  /** One for each turn; null if the model was added later. */
  readonly replies: readonly (Reply | null)[];
}

export interface Settings {
  readonly system: string;
  readonly temperature: number | null;
  readonly effort: Effort | "";
  /** A JSON array of functions. */
  readonly tools: string;
}

export const NO_SETTINGS: Settings = { system: "", temperature: null, effort: "", tools: "" };

export interface Conversation {
  readonly id: string;
  /** Of the last turn. */
  readonly atMs: number;
  readonly settings: Settings;
  readonly turns: readonly Turn[];
  readonly columns: readonly Column[];
}

/** A message as the model gets it. */
export type Message =
  | { readonly role: "user"; readonly text: string; readonly images: readonly string[] }
  | { readonly role: "assistant"; readonly text: string; readonly toolCalls: readonly ToolCall[] }
  | { readonly role: "tool"; readonly call: ToolCall; readonly text: string };

/**
 * The messages that lead to the reply of a turn. Failed replies and their turns are left out. The turn after a tool call
 * is the result of the call.
 */
export function listMessages(
  turns: readonly Turn[],
  replies: readonly (Reply | null)[],
  turnIndex: number,
): Message[] {
  const messages: Message[] = [];
  let openCalls: readonly ToolCall[] = [];
  for (const [index, turn] of turns.slice(0, turnIndex + 1).entries()) {
    const reply = index === turnIndex ? null : replies[index];
    const isUsable = reply != null && (reply.text !== "" || reply.toolCalls.length > 0);
    if (index < turnIndex && !isUsable) continue;
    if (openCalls.length === 0) messages.push({ role: "user", ...turn });
    else for (const call of openCalls) messages.push({ role: "tool", call, text: turn.text });
    if (!isUsable) continue;
    messages.push({ role: "assistant", text: reply.text, toolCalls: reply.toolCalls });
    openCalls = reply.toolCalls;
  }
  return messages;
}

export function replaceReply(column: Column, turnIndex: number, reply: Reply): Column {
  const replies = [...column.replies];
  while (replies.length < turnIndex) replies.push(null);
  replies[turnIndex] = reply;
  return { ...column, replies };
}

/** Output tokens a second, from the first output on; null if that cannot be measured. */
export function computeSpeed({ firstMs, totalMs, bill }: Reply): number | null {
  if (firstMs === null || totalMs === null || bill === null || totalMs - firstMs < 1) return null;
  return bill.output_tokens / ((totalMs - firstMs) / 1_000);
}
