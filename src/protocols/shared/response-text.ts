/** Collects the text of a whole response, for responses without usage. */

import { isObject } from "../../json/parse.ts";

export interface ResponseTexts {
  said: string[];
  /** The reasoning, as far as it is shown. */
  reasoned: string[];
}

/** For any interface; empty if there is no text. */
export function readWholeResponseTexts(json: unknown): ResponseTexts {
  if (!isObject(json)) return { said: [], reasoned: [] };
  if (Array.isArray(json.output)) return readResponseTexts(json);
  const messages = objects(json.choices).flatMap(({ message }) => (isObject(message) ? [message] : []));
  return {
    said: strings(messages.flatMap(messageTexts)),
    reasoned: strings(messages.map((message) => message.reasoning_content ?? message.reasoning)),
  };
}

function messageTexts(message: Record<string, unknown>): unknown[] {
  const calls = [...objects(message.tool_calls), ...(isObject(message.function_call) ? [message] : [])];
  return [
    ...contentTexts(message.content),
    message.refusal,
    isObject(message.audio) ? message.audio.transcript : null,
    ...calls.flatMap((call) => {
      const toolCall = call.function ?? call.custom ?? call.function_call;
      return isObject(toolCall) ? [toolCall.name, toolCall.arguments, toolCall.input] : [];
    }),
  ];
}

export function readResponseTexts(response: unknown): ResponseTexts {
  const items = isObject(response) ? objects(response.output) : [];
  const thoughts = items.filter(({ type }) => type === "reasoning");
  const others = items.filter(({ type }) => type !== "reasoning");
  return { said: strings(others.flatMap(itemTexts)), reasoned: strings(thoughts.flatMap(itemTexts)) };
}

function itemTexts(item: Record<string, unknown>): unknown[] {
  return [
    ...contentTexts(item.content),
    ...contentTexts(item.summary),
    item.name,
    item.arguments,
    item.input,
    item.code,
  ];
}

/** Content is a text or a list of parts with a text each. */
function contentTexts(content: unknown): unknown[] {
  if (typeof content === "string") return [content];
  return objects(content).flatMap((part) => [part.text, part.refusal, part.transcript]);
}

function objects(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function strings(values: readonly unknown[]): string[] {
  return values.filter((value): value is string => typeof value === "string" && value !== "");
}
