/** What the model said in a whole answer, part by part: for answers that come without usage. */

import { isObject } from "../wire/json-parse.ts";

/** Of any family; empty when it holds no text. */
export function textsOfAnswer(json: unknown): string[] {
  if (!isObject(json)) return [];
  if (Array.isArray(json.output)) return textsOfResponse(json);
  return objects(json.choices).flatMap(({ message }) => (isObject(message) ? textsOfMessage(message) : []));
}

function textsOfMessage(message: Record<string, unknown>): string[] {
  const calls = [...objects(message.tool_calls), ...(isObject(message.function_call) ? [message] : [])];
  return strings([
    ...partsOf(message.content),
    message.reasoning_content ?? message.reasoning,
    message.refusal,
    isObject(message.audio) ? message.audio.transcript : null,
    ...calls.flatMap((call) => {
      const made = call.function ?? call.custom ?? call.function_call;
      return isObject(made) ? [made.name, made.arguments, made.input] : [];
    }),
  ]);
}

export function textsOfResponse(response: unknown): string[] {
  if (!isObject(response)) return [];
  return strings(
    objects(response.output).flatMap((item) => [
      ...partsOf(item.content),
      ...partsOf(item.summary),
      item.name,
      item.arguments,
      item.input,
      item.code,
    ]),
  );
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
