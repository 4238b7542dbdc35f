/** OpenAI's SDK as two clients of the matrix: Chat Completions and Responses. */

import OpenAI from "openai";
import { TEST_KEY } from "../support/running-gateway.ts";
import {
  type ConversationOptions,
  catchFailure,
  type MatrixClient,
  type MatrixConversation,
  PDF,
  PIXEL,
  type Question,
  readSome,
  TOOLS,
  type ToolResult,
  type Turn,
} from "./matrix-client.ts";

const IMAGE_URL = `data:image/png;base64,${PIXEL}`;
const FILE = { filename: "a.pdf", file_data: `data:application/pdf;base64,${PDF}` };
const HELLO = [{ role: "user" as const, content: "Hello" }];

function openSdk(url: string): OpenAI {
  return new OpenAI({ baseURL: `${url}/v1`, apiKey: TEST_KEY, maxRetries: 0 });
}

async function listModels(sdk: OpenAI): Promise<string[]> {
  const ids: string[] = [];
  for await (const { id } of sdk.models.list()) ids.push(id);
  return ids;
}

export function openChatClient(url: string): MatrixClient {
  const sdk = openSdk(url);
  return {
    open: (options) => new ChatConversation(sdk, options),
    fail: (model) => catchFailure(sdk.chat.completions.create({ model, messages: HELLO })),
    async cancel(model) {
      const stream = await sdk.chat.completions.create({ model, messages: HELLO, stream: true });
      await readSome(stream, ({ choices }) => Boolean(choices[0]?.delta.content));
      stream.controller.abort();
    },
    listModels: () => listModels(sdk),
    countTokens: null,
  };
}

class ChatConversation implements MatrixConversation {
  readonly #sdk: OpenAI;
  readonly #options: ConversationOptions;
  readonly #messages: OpenAI.ChatCompletionMessageParam[] = [];
  #callIds: string[] = [];

  constructor(sdk: OpenAI, options: ConversationOptions) {
    this.#sdk = sdk;
    this.#options = options;
  }

  ask(model: string, { text, media }: Question): Promise<Turn> {
    const content: OpenAI.ChatCompletionContentPart[] = [{ type: "text", text }];
    if (media === "image") content.push({ type: "image_url", image_url: { url: IMAGE_URL } });
    if (media === "pdf") content.push({ type: "file", file: FILE });
    this.#messages.push({ role: "user", content });
    return this.#send(model);
  }

  sendResults(model: string, results: readonly ToolResult[]): Promise<Turn> {
    results.forEach(({ text }, at) => {
      this.#messages.push({ role: "tool", tool_call_id: this.#callIds[at] ?? "", content: text });
    });
    return this.#send(model);
  }

  async #send(model: string): Promise<Turn> {
    const { hasTools, thinks, streams, schema } = this.#options;
    const params = {
      model,
      messages: this.#messages,
      ...(hasTools
        ? {
            tools: TOOLS.map(({ schema, ...tool }) => ({
              type: "function" as const,
              function: { ...tool, parameters: { ...schema } },
            })),
          }
        : {}),
      ...(thinks ? { reasoning_effort: "high" as const } : {}),
      ...(schema === null
        ? {}
        : {
            response_format: {
              type: "json_schema" as const,
              json_schema: { name: "weather", schema: { ...schema }, strict: true },
            },
          }),
    };
    const { choices, usage } = streams
      ? await this.#sdk.chat.completions
          .stream({ ...params, stream_options: { include_usage: true } })
          .finalChatCompletion()
      : await this.#sdk.chat.completions.create(params);
    const [choice] = choices;
    if (choice === undefined) throw new Error("no choice");
    const { message } = choice;
    this.#messages.push(message);
    const calls = (message.tool_calls ?? []).filter((call) => call.type === "function");
    this.#callIds = calls.map(({ id }) => id);
    const isReasoned = Boolean((message as { reasoning_content?: string }).reasoning_content);
    return {
      text: message.content ?? "",
      isReasoned,
      calls: calls.map((call) => ({ name: call.function.name, input: JSON.parse(call.function.arguments) })),
      stop: readFinish(choice.finish_reason),
      usage: {
        input: usage?.prompt_tokens ?? 0,
        cached: usage?.prompt_tokens_details?.cached_tokens ?? 0,
        output: usage?.completion_tokens ?? 0,
      },
    };
  }
}

function readFinish(reason: string): Turn["stop"] {
  if (reason === "tool_calls") return "tools";
  if (reason === "length") return "length";
  if (reason === "content_filter") return "filtered";
  if (reason === "stop") return "end";
  throw new Error(`unexpected finish reason ${reason}`);
}

export function openResponsesClient(url: string): MatrixClient {
  const sdk = openSdk(url);
  return {
    open: (options) => new ResponsesConversation(sdk, options),
    fail: (model) => catchFailure(sdk.responses.create({ model, input: "Hello" })),
    async cancel(model) {
      const stream = await sdk.responses.create({ model, input: "Hello", stream: true, store: false });
      await readSome(stream, ({ type }) => type === "response.output_text.delta");
      stream.controller.abort();
    },
    listModels: () => listModels(sdk),
    countTokens: null,
  };
}

/** Sends its whole history, as Codex does, with the encrypted reasoning of earlier turns. */
class ResponsesConversation implements MatrixConversation {
  readonly #sdk: OpenAI;
  readonly #options: ConversationOptions;
  readonly #input: OpenAI.Responses.ResponseInputItem[] = [];
  #callIds: string[] = [];

  constructor(sdk: OpenAI, options: ConversationOptions) {
    this.#sdk = sdk;
    this.#options = options;
  }

  ask(model: string, { text, media }: Question): Promise<Turn> {
    const content: OpenAI.Responses.ResponseInputMessageContentList = [{ type: "input_text", text }];
    if (media === "image") content.push({ type: "input_image", image_url: IMAGE_URL, detail: "auto" });
    if (media === "pdf") content.push({ type: "input_file", ...FILE });
    this.#input.push({ role: "user", content });
    return this.#send(model);
  }

  sendResults(model: string, results: readonly ToolResult[]): Promise<Turn> {
    results.forEach(({ text }, at) => {
      this.#input.push({ type: "function_call_output", call_id: this.#callIds[at] ?? "", output: text });
    });
    return this.#send(model);
  }

  async #send(model: string): Promise<Turn> {
    const { hasTools, thinks, streams, schema } = this.#options;
    const params = {
      model,
      input: this.#input,
      store: false,
      include: ["reasoning.encrypted_content" as const],
      ...(hasTools
        ? {
            tools: TOOLS.map(({ schema, ...tool }) => ({
              type: "function" as const,
              ...tool,
              parameters: { ...schema },
              strict: false,
            })),
          }
        : {}),
      ...(thinks ? { reasoning: { effort: "high" as const, summary: "auto" as const } } : {}),
      ...(schema === null
        ? {}
        : {
            text: {
              format: {
                type: "json_schema" as const,
                name: "weather",
                schema: { ...schema },
                strict: true,
              },
            },
          }),
    };
    const response = streams
      ? await this.#sdk.responses.stream(params).finalResponse()
      : await this.#sdk.responses.create(params);
    this.#input.push(...(response.output as OpenAI.Responses.ResponseInputItem[]));
    const output: OpenAI.Responses.ResponseOutputItem[] = response.output;
    const calls = output.filter((item) => item.type === "function_call");
    this.#callIds = calls.map(({ call_id }) => call_id);
    return {
      text: response.output_text,
      isReasoned: response.output.some((item) => item.type === "reasoning" && item.summary.length > 0),
      calls: calls.map((call) => ({ name: call.name, input: JSON.parse(call.arguments) })),
      stop: readEnd(response, calls.length > 0 ? "tools" : "end"),
      usage: {
        input: response.usage?.input_tokens ?? 0,
        cached: response.usage?.input_tokens_details.cached_tokens ?? 0,
        output: response.usage?.output_tokens ?? 0,
      },
    };
  }
}

function readEnd(
  { status, incomplete_details: details }: OpenAI.Responses.Response,
  complete: Turn["stop"],
): Turn["stop"] {
  if (status !== "incomplete") return complete;
  return details?.reason === "content_filter" ? "filtered" : "length";
}
