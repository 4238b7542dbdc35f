/**
 * Counts the words of a prompt in the same way in every dialect: the texts, the calls with their arguments, the tools and
 * the media, without what only one dialect has. The same conversation has the same count whatever its form, so that a
 * translation that loses or adds something is noticed.
 */

import { isRecord, type JsonFields, parseJson } from "../json-fields.ts";
import { BYTE_RULE, type TokenRule } from "./tokens.ts";

/** The fields of all dialects that belong to the prompt. */
const PROMPT_FIELDS = ["system", "messages", "input", "instructions", "tools"] as const;
/** Fields of Gemini, which `toChatFields` adds beside those of a chat. */
const GEMINI_FIELDS = ["systemInstruction", "contents", "geminiTools"] as const;

/** Names, ids and settings, and the reasoning of earlier turns, which not every upstream receives. */
const UNCOUNTED: ReadonlySet<string> = new Set([
  "type",
  "role",
  "id",
  "call_id",
  "tool_call_id",
  "tool_use_id",
  "status",
  "strict",
  "cache_control",
  "signature",
  "thoughtSignature",
  "encrypted_content",
  "reasoning_content",
  "is_error",
]);
const REASONING: ReadonlySet<unknown> = new Set(["thinking", "redacted_thinking", "reasoning"]);
const MEDIA: ReadonlySet<unknown> = new Set([
  "image",
  "image_url",
  "input_image",
  "document",
  "file",
  "input_file",
]);
const MEDIA_WORDS = 100;
/** Arguments of a call are text in some dialects and an object in others. */
const ARGUMENTS: ReadonlySet<string> = new Set(["arguments", "args", "input"]);

export const WORD_RULE: TokenRule = {
  ...BYTE_RULE,
  ofPrompt(fields: JsonFields) {
    const isGemini = fields.has("contents");
    return (isGemini ? GEMINI_FIELDS : PROMPT_FIELDS).reduce((sum, name) => {
      const slice = fields.get(name);
      return slice === undefined ? sum : sum + countWords(parseJson(slice));
    }, 0);
  },
};

function countWords(value: unknown): number {
  if (typeof value === "string") return value.split(/\s+/).filter((word) => word !== "").length;
  if (typeof value === "number") return 1;
  if (Array.isArray(value)) return value.reduce<number>((sum, one) => sum + countWords(one), 0);
  if (!isRecord(value) || REASONING.has(value.type) || value.thought === true) return 0;
  if (MEDIA.has(value.type) || value.inlineData !== undefined) return MEDIA_WORDS;
  // The name of the function is part of the call already.
  if (isRecord(value.functionResponse)) return countWords(value.functionResponse.response);
  let words = 0;
  for (const [name, member] of Object.entries(value))
    if (!UNCOUNTED.has(name)) words += countWords(ARGUMENTS.has(name) ? readArguments(member) : member);
  return words;
}

function readArguments(value: unknown): unknown {
  const json = typeof value === "string" ? parseJson(value) : value;
  return isRecord(json) ? json : value;
}
