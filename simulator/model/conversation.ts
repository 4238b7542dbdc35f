/** Extracts the last question and tool output from a prompt. */

import { isRecord, parseJson } from "../json-fields.ts";

/** The parts of the conversation that a response depends on. */
export interface Conversation {
  question: string;
  /** The tool output since the last question, or null. */
  toolOutput: string | null;
  /** The number of tool outputs since the last question. */
  toolOutputs: number;
}

const NO_QUESTION: Conversation = { question: "", toolOutput: null, toolOutputs: 0 };

/** A longer prompt is not parsed: its last text is read directly from the JSON. */
const PARSED_CHARS_MAX = 32 * 1024;
const TAIL_CHARS = 4 * 1024;
const QUESTION_CHARS = 200;

export function readConversation(slice: string | undefined, exact: boolean): Conversation | null {
  if (slice === undefined) return NO_QUESTION;
  if (slice.length > PARSED_CHARS_MAX && !exact) return { ...NO_QUESTION, question: findLastText(slice) };
  const value = parseJson(slice);
  if (value === undefined) return null;
  if (typeof value === "string") return { ...NO_QUESTION, question: value };
  if (!Array.isArray(value)) return NO_QUESTION;
  return parseConversation(value);
}

function parseConversation(items: readonly unknown[]): Conversation {
  let toolOutput: string | null = null;
  let toolOutputs = 0;
  for (let i = items.length - 1; i >= 0; i--) {
    const item = items[i];
    if (!isRecord(item)) continue;
    if (item.role === "user") return { question: readText(item.content), toolOutput, toolOutputs };
    const isToolOutput = item.role === "tool" || item.type === "function_call_output";
    if (!isToolOutput) continue;
    toolOutputs++;
    toolOutput ??= readText(item.content ?? item.output);
  }
  return { question: "", toolOutput, toolOutputs };
}

function readText(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  const texts = content.map((part) => (isRecord(part) && typeof part.text === "string" ? part.text : ""));
  return texts.filter((text) => text !== "").join(" ");
}

/** Searches only the end: a backward search through a long prompt would cost more than all other work. */
function findLastText(slice: string): string {
  const tail = slice.slice(-TAIL_CHARS);
  const opening = [...tail.matchAll(/"(?:content|text)"\s*:\s*"/g)].at(-1);
  if (opening === undefined) return decodeJsonText(tail.slice(-QUESTION_CHARS).replace(/^[^ ]* /, "… "));
  return decodeJsonText(tail.slice(opening.index + opening[0].length));
}

/** Decodes the text before the closing quote of a JSON string, or all of it if the quote is missing. */
function decodeJsonText(text: string): string {
  const end = /(?<!\\)(?:\\\\)*"/.exec(text);
  const body = end === null ? text : text.slice(0, end.index + end[0].length - 1);
  const value = parseJson(`"${body}"`);
  return typeof value === "string" ? value : body.replaceAll("\\", "");
}
