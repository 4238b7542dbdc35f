/** What the model said in a whole answer, part by part: for answers that come without usage. */

import { isObject } from "../../json/parse.ts";

export interface ResponseTexts {
  said: string[];
  /** What it thought before, as far as it shows it. */
  reasoned: string[];
}

/** Of any family; empty when it holds no text. */
export function readWholeResponseTexts(json: unknown): ResponseTexts {
  if (!isObject(json)) return { said: [], reasoned: [] };
  if (Array.isArray(json.output)) return readResponseTexts(json);
  const messages = objects(json.choices).flatMap(({ message }) => (isObject(message) ? [message] : []));
  return {
    said: strings(messages.flatMap(saidIn)),
    reasoned: strings(messages.map((message) => message.reasoning_content ?? message.reasoning)),
  };
}

function saidIn(message: Record<string, unknown>): unknown[] {
  const calls = [...objects(message.tool_calls), ...(isObject(message.function_call) ? [message] : [])];
  return [
    ...partsOf(message.content),
    message.refusal,
    isObject(message.audio) ? message.audio.transcript : null,
    ...calls.flatMap((call) => {
      const made = call.function ?? call.custom ?? call.function_call;
      return isObject(made) ? [made.name, made.arguments, made.input] : [];
    }),
  ];
}

export function readResponseTexts(response: unknown): ResponseTexts {
  const items = isObject(response) ? objects(response.output) : [];
  const thoughts = items.filter(({ type }) => type === "reasoning");
  const others = items.filter(({ type }) => type !== "reasoning");
  return { said: strings(others.flatMap(textsOfItem)), reasoned: strings(thoughts.flatMap(textsOfItem)) };
}

function textsOfItem(item: Record<string, unknown>): unknown[] {
  return [
    ...partsOf(item.content),
    ...partsOf(item.summary),
    item.name,
    item.arguments,
    item.input,
    item.code,
  ];
}

/** Content is a text or a list of parts with a text each. */
function partsOf(content: unknown): unknown[] {
  if (typeof content === "string") return [content];
  return objects(content).flatMap((part) => [part.text, part.refusal, part.transcript]);
}

function objects(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function strings(values: readonly unknown[]): string[] {
  return values.filter((value): value is string => typeof value === "string" && value !== "");
}
