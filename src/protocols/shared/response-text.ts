/** Collects the text of a whole response, for responses without usage. */

import { isObject } from "../../json/parse.ts";
import { type EventString, isEventString } from "./long-strings.ts";

export interface ResponseTexts<Text = string> {
  outputTexts: Text[];
  /** The reasoning, as far as it is shown. */
  reasoningTexts: Text[];
}

/** For any interface; empty if there is no text. */
export function readWholeResponseTexts(json: unknown): ResponseTexts {
  if (!isObject(json)) return { outputTexts: [], reasoningTexts: [] };
  if (Array.isArray(json.output)) {
    const { outputTexts, reasoningTexts } = readResponseTexts(json);
    return { outputTexts: strings(outputTexts), reasoningTexts: strings(reasoningTexts) };
  }
  if (Array.isArray(json.candidates)) return readCandidateTexts(json.candidates);
  if (Array.isArray(json.content)) return readMessageTexts(objects(json.content));
  const messages = objects(json.choices).flatMap(({ message }) => (isObject(message) ? [message] : []));
  return {
    outputTexts: strings(messages.flatMap(messageTexts)),
    reasoningTexts: strings(messages.map((message) => message.reasoning_content ?? message.reasoning)),
  };
}

/** The blocks of the Messages API. */
function readMessageTexts(blocks: readonly Record<string, unknown>[]): ResponseTexts {
  const calls = blocks.filter(({ input }) => isObject(input));
  return {
    outputTexts: [
      ...strings(blocks.map(({ text }) => text)),
      ...strings(calls.map(({ name }) => name)),
      ...calls.map(({ input }) => JSON.stringify(input)),
    ],
    reasoningTexts: strings(blocks.map(({ thinking }) => thinking)),
  };
}

/** Parts of Gemini's candidates: thoughts are marked, and the arguments of a call are an object. */
function readCandidateTexts(candidates: readonly unknown[]): ResponseTexts {
  const parts = objects(candidates).flatMap(({ content }) =>
    isObject(content) ? objects(content.parts) : [],
  );
  const responseParts = parts.filter(({ thought }) => thought !== true);
  return {
    outputTexts: strings(
      responseParts.flatMap(({ text, functionCall }) =>
        isObject(functionCall) ? [functionCall.name, JSON.stringify(functionCall.args ?? {})] : [text],
      ),
    ),
    reasoningTexts: strings(parts.filter(({ thought }) => thought === true).map(({ text }) => text)),
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

/** Of a response of the Responses API, also one in a long event. */
export function readResponseTexts(response: unknown): ResponseTexts<EventString> {
  const items = isObject(response) ? objects(response.output) : [];
  const reasoningItems = items.filter(({ type }) => type === "reasoning");
  const outputItems = items.filter(({ type }) => type !== "reasoning");
  return {
    outputTexts: outputItems.flatMap(itemTexts).filter(isEventString),
    reasoningTexts: reasoningItems.flatMap(itemTexts).filter(isEventString),
  };
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
  if (isEventString(content)) return [content];
  return objects(content).flatMap((part) => [part.text, part.refusal, part.transcript]);
}

function objects(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function strings(values: readonly unknown[]): string[] {
  return values.filter((value): value is string => typeof value === "string" && value !== "");
}
