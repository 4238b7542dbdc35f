import { isRecord, parseJson } from "./json-fields.ts";

/** The little that an answer needs to know of what was said before. */
export interface Conversation {
  question: string;
  /** What a tool gave back since the last question, or null. */
  toolOutput: string | null;
}

/** Above this a prompt is not parsed for its question: the last words in it are read where they stand. */
const PARSED_CHARS_MAX = 32 * 1024;
const TAIL_CHARS = 4 * 1024;
const QUESTION_CHARS = 200;

export function conversationIn(slice: string | undefined, exact: boolean): Conversation | null {
  if (slice === undefined) return { question: "", toolOutput: null };
  if (slice.length > PARSED_CHARS_MAX && !exact) return { question: lastTextIn(slice), toolOutput: null };
  const value = parseJson(slice);
  if (value === undefined) return null;
  if (typeof value === "string") return { question: value, toolOutput: null };
  if (!Array.isArray(value)) return { question: "", toolOutput: null };
  return conversationOf(value);
}

function conversationOf(items: readonly unknown[]): Conversation {
  let toolOutput: string | null = null;
  for (let i = items.length - 1; i >= 0; i--) {
    const item = items[i];
    if (!isRecord(item)) continue;
    if (item.role === "user") return { question: textOf(item.content), toolOutput };
    const isToolOutput = item.role === "tool" || item.type === "function_call_output";
    if (isToolOutput && toolOutput === null) toolOutput = textOf(item.content ?? item.output);
  }
  return { question: "", toolOutput };
}

function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  const texts = content.map((part) => (isRecord(part) && typeof part.text === "string" ? part.text : ""));
  return texts.filter((text) => text !== "").join(" ");
}

/** Looks at the end only: searching backwards through a long prompt costs more than all the rest. */
function lastTextIn(slice: string): string {
  const tail = slice.slice(-TAIL_CHARS);
  const opening = [...tail.matchAll(/"(?:content|text)"\s*:\s*"/g)].at(-1);
  if (opening === undefined) return unescaped(tail.slice(-QUESTION_CHARS).replace(/^[^ ]* /, "… "));
  return unescaped(tail.slice(opening.index + opening[0].length));
}

/** What stands before the closing quote of a JSON string, or all of it when that is cut off. */
function unescaped(text: string): string {
  const end = /(?<!\\)(?:\\\\)*"/.exec(text);
  const body = end === null ? text : text.slice(0, end.index + end[0].length - 1);
  const value = parseJson(`"${body}"`);
  return typeof value === "string" ? value : body.replaceAll("\\", "");
}
