/** The requests and events of the playground in the three dialects that have conversations. */

import { isObject, parsed } from "../../explorer/json-value.ts";
import type { Effort, Message, ToolCall } from "./conversation.ts";
import type { FunctionTool } from "./tools.ts";

export interface PlaygroundRequest {
  readonly model: string;
  readonly system: string;
  readonly messages: readonly Message[];
  readonly tools: readonly FunctionTool[];
  readonly temperature: number | null;
  readonly effort: Effort | null;
  /** Messages requires a limit. */
  readonly outputTokensMax: number | null;
}

/** What one event of a stream adds to a reply. */
export interface ReplyDelta {
  readonly text?: string;
  readonly reasoning?: string;
  /** Parts of the calls with the same index are joined. */
  readonly toolCalls?: readonly ToolCallDelta[];
  readonly problem?: string;
}

export type ToolCallDelta = { readonly index: number } & Partial<ToolCall>;

export interface PlaygroundDialect {
  readonly path: string;
  buildBody(request: PlaygroundRequest): Record<string, unknown>;
  readEvent(event: JsonObject): ReplyDelta | null;
}

export type JsonObject = Readonly<Record<string, unknown>>;

/** In the order of preference. */
const PLAYGROUND_INTERFACES = ["chat", "responses", "messages"] as const;
export type PlaygroundInterface = (typeof PLAYGROUND_INTERFACES)[number];

interface OfferedInterfaces {
  readonly interfaces: readonly string[];
  readonly translated_interfaces: readonly string[];
}

/** An interface of the accounts themselves, else one that requests are translated for; null if the model has none. */
export function chooseInterface(model: OfferedInterfaces): PlaygroundInterface | null {
  const offered = PLAYGROUND_INTERFACES.filter((name) => model.interfaces.includes(name));
  return offered.find((name) => !model.translated_interfaces.includes(name)) ?? offered[0] ?? null;
}

const MESSAGES_OUTPUT_TOKENS = 8_192;

const chat: PlaygroundDialect = {
  path: "/v1/chat/completions",
  buildBody: ({ model, system, messages, tools, temperature, effort }) => ({
    model,
    messages: [...(system === "" ? [] : [{ role: "system", content: system }]), ...messages.map(chatMessage)],
    ...(tools.length > 0 && { tools: tools.map((tool) => ({ type: "function", function: tool })) }),
    ...(temperature !== null && { temperature }),
    ...(effort !== null && { reasoning_effort: effort }),
    stream: true,
  }),
  readEvent(event) {
    const [choice] = objects(event.choices);
    const delta = member(choice, "delta");
    if (delta === null) return readError(event.error);
    return {
      text: string(delta.content),
      reasoning: string(delta.reasoning_content ?? delta.reasoning),
      toolCalls: objects(delta.tool_calls).map(readChatCall),
    };
  },
};

const responses: PlaygroundDialect = {
  path: "/v1/responses",
  buildBody: ({ model, system, messages, tools, temperature, effort }) => ({
    model,
    ...(system !== "" && { instructions: system }),
    input: messages.flatMap(responsesItems),
    ...(tools.length > 0 && { tools: tools.map((tool) => ({ type: "function", ...tool })) }),
    ...(temperature !== null && { temperature }),
    ...(effort !== null && { reasoning: { effort } }),
    store: false,
    stream: true,
  }),
  readEvent(event) {
    const { type, delta } = event;
    if (type === "response.output_text.delta") return { text: string(delta) };
    if (type === "response.reasoning_summary_text.delta") return { reasoning: string(delta) };
    if (type === "response.failed") return readError(member(event, "response")?.error);
    if (type === "error") return readError(event.error ?? event);
    const item = type === "response.output_item.done" ? member(event, "item") : null;
    if (item?.type !== "function_call") return null;
    const call = { id: string(item.call_id), name: string(item.name), arguments: string(item.arguments) };
    return { toolCalls: [{ index: Number(event.output_index), ...call }] };
  },
};

const messages: PlaygroundDialect = {
  path: "/v1/messages",
  buildBody: ({ model, system, messages: sent, tools, temperature, effort, outputTokensMax }) => ({
    model,
    max_tokens: Math.min(outputTokensMax ?? MESSAGES_OUTPUT_TOKENS, MESSAGES_OUTPUT_TOKENS),
    ...(system !== "" && { system }),
    messages: sent.map(messagesMessage),
    ...(tools.length > 0 && {
      tools: tools.map(({ name, description, parameters }) => ({
        name,
        description,
        input_schema: parameters,
      })),
    }),
    ...(temperature !== null && { temperature }),
    ...(effort !== null && { output_config: { effort: effort === "minimal" ? "low" : effort } }),
    stream: true,
  }),
  readEvent(event) {
    const index = Number(event.index);
    if (event.type === "error") return readError(event.error);
    if (event.type === "content_block_start") {
      const block = member(event, "content_block");
      if (block?.type !== "tool_use") return null;
      return { toolCalls: [{ index, id: string(block.id), name: string(block.name) }] };
    }
    const delta = event.type === "content_block_delta" ? member(event, "delta") : null;
    if (delta === null) return null;
    if (delta.type === "input_json_delta")
      return { toolCalls: [{ index, arguments: string(delta.partial_json) }] };
    return { text: string(delta.text), reasoning: string(delta.thinking) };
  },
};

export const DIALECTS: Readonly<Record<PlaygroundInterface, PlaygroundDialect>> = {
  chat,
  responses,
  messages,
};

function chatMessage(message: Message): JsonObject {
  if (message.role === "tool") return { role: "tool", tool_call_id: message.call.id, content: message.text };
  if (message.role === "assistant")
    return {
      role: "assistant",
      content: message.text,
      ...(message.toolCalls.length > 0 && {
        tool_calls: message.toolCalls.map(({ id, name, arguments: text }) => ({
          id,
          type: "function",
          function: { name, arguments: text },
        })),
      }),
    };
  if (message.images.length === 0) return { role: "user", content: message.text };
  const images = message.images.map((url) => ({ type: "image_url", image_url: { url } }));
  return { role: "user", content: [...textPart("text", message.text), ...images] };
}

function responsesItems(message: Message): JsonObject[] {
  if (message.role === "tool")
    return [{ type: "function_call_output", call_id: message.call.id, output: message.text }];
  if (message.role === "assistant")
    return [
      ...(message.text === ""
        ? []
        : [{ role: "assistant", content: [{ type: "output_text", text: message.text }] }]),
      ...message.toolCalls.map(({ id, name, arguments: text }) => ({
        type: "function_call",
        call_id: id,
        name,
        arguments: text,
      })),
    ];
  const images = message.images.map((url) => ({ type: "input_image", image_url: url }));
  return [{ role: "user", content: [...textPart("input_text", message.text), ...images] }];
}

function messagesMessage(message: Message): JsonObject {
  if (message.role === "tool")
    return {
      role: "user",
      content: [{ type: "tool_result", tool_use_id: message.call.id, content: message.text }],
    };
  if (message.role === "assistant")
    return {
      role: "assistant",
      content: [
        ...(message.text === "" ? [] : [{ type: "text", text: message.text }]),
        ...message.toolCalls.map(({ id, name, arguments: text }) => ({
          type: "tool_use",
          id,
          name,
          input: parsed(text) ?? {},
        })),
      ],
    };
  const images = message.images.map((url) => ({ type: "image", source: imageSource(url) }));
  return { role: "user", content: [...images, ...textPart("text", message.text)] };
}

/** Vendors reject an empty text beside an image. */
function textPart(type: "text" | "input_text", text: string): JsonObject[] {
  return text === "" ? [] : [{ type, text }];
}

function imageSource(dataUrl: string): JsonObject {
  const [head = "", data = ""] = dataUrl.split(",");
  return { type: "base64", media_type: head.slice("data:".length).split(";")[0], data };
}

function readChatCall(call: JsonObject): ToolCallDelta {
  const named = member(call, "function");
  return {
    index: Number(call.index ?? 0),
    id: string(call.id),
    name: string(named?.name),
    arguments: string(named?.arguments),
  };
}

function readError(error: unknown): ReplyDelta | null {
  if (!isObject(error)) return null;
  return { problem: string(error.message) };
}

function objects(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function member(value: JsonObject | undefined | null, name: string): JsonObject | null {
  const found = value?.[name];
  return isObject(found) ? found : null;
}

function string(value: unknown): string {
  return typeof value === "string" ? value : "";
}
