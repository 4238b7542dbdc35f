/** Reads the content of a Chat Completions message: a text, or for some vendors a list of parts. */

import type { DroppedFields } from "../hub/dropped-fields.ts";
import { type Json, readObjects, readString } from "../hub/json-values.ts";
import type { ResponseBounds } from "../hub/response-bounds.ts";

export interface ContentText {
  readonly kind: "text" | "reasoning";
  /** Never empty. */
  readonly text: string;
}

/** The texts of an assistant's content in their order. Parts that other dialects cannot express are named. */
export function readContent(
  content: unknown,
  dropped: Pick<DroppedFields, "add">,
  bounds: ResponseBounds,
): readonly ContentText[] {
  if (typeof content === "string") return content === "" ? [] : [{ kind: "text", text: content }];
  const texts: ContentText[] = [];
  for (const part of bounds.readList(content)) {
    const thinking = readThinking(part);
    const text = thinking ?? readString(part.text);
    if (text === null) dropped.add(`output.${readString(part.type) ?? "part"}`);
    else if (text !== "") texts.push({ kind: thinking === null ? "text" : "reasoning", text });
  }
  return texts;
}

/** Mistral has reasoning in parts of the content: `{"type": "thinking", "thinking": [{"type": "text", …}]}`. */
export function readThinking({ type, thinking }: Json): string | null {
  if (type !== "thinking") return null;
  return typeof thinking === "string"
    ? thinking
    : readObjects(thinking)
        .map(({ text }) => readString(text) ?? "")
        .join("");
}

export function writeThinking(text: string): Json {
  return { type: "thinking", thinking: [{ type: "text", text }], closed: true };
}

/** Output of a message or delta that has no place in other dialects. */
export function noteMessageLosses(message: Json, dropped: Pick<DroppedFields, "add">): void {
  if (readObjects(message.images).length > 0) dropped.add("output.images");
  if (message.audio != null) dropped.add("output.audio");
}

/** The log probabilities of a choice. */
export function noteLogprobs({ logprobs }: Json, dropped: Pick<DroppedFields, "add">): void {
  if (logprobs != null) dropped.add("logprobs");
}
