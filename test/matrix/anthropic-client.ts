/** Anthropic's SDK as a client of the matrix. */

import { openSdk, type SdkVersion } from "../messages/anthropic-sdk.ts";
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
  type Turn,
} from "./matrix-client.ts";

interface Block {
  type: string;
  text?: string;
  thinking?: string;
  id?: string;
  name?: string;
  input?: unknown;
}

interface Message {
  content: Block[];
  stop_reason: string;
  usage: Record<string, number | null | undefined>;
}

type Sdk = Awaited<ReturnType<typeof openSdk>>;

export async function openAnthropicClient(version: SdkVersion, url: string): Promise<MatrixClient> {
  const sdk = await openSdk(version, url);
  const params = (model: string) => ({
    model,
    max_tokens: 4_000,
    messages: [{ role: "user", content: "Hello" }],
  });
  return {
    open: (options) => new AnthropicConversation(sdk, options),
    fail: (model) => catchFailure(sdk.messages.create(params(model))),
    async cancel(model) {
      const stream = sdk.messages.stream(params(model));
      await readSome(stream, ({ type }) => type === "content_block_delta");
      stream.abort();
    },
    async listModels() {
      const ids: string[] = [];
      for await (const { id } of sdk.models.list({ limit: 7 })) ids.push(id);
      return ids;
    },
    countTokens: async (model) => {
      const { messages } = params(model);
      return (await sdk.messages.countTokens({ model, messages })).input_tokens;
    },
  };
}

class AnthropicConversation implements MatrixConversation {
  readonly #sdk: Sdk;
  readonly #options: ConversationOptions;
  readonly #messages: object[] = [];
  #callIds: string[] = [];

  constructor(sdk: Sdk, options: ConversationOptions) {
    this.#sdk = sdk;
    this.#options = options;
  }

  ask(model: string, { text, media }: Question): Promise<Turn> {
    const source = (media_type: string, data: string) => ({ type: "base64", media_type, data });
    const content: object[] = [{ type: "text", text }];
    if (media === "image") content.unshift({ type: "image", source: source("image/png", PIXEL) });
    if (media === "pdf") content.unshift({ type: "document", source: source("application/pdf", PDF) });
    return this.#send(model, content);
  }

  sendResults(model: string, results: readonly { text: string; isError: boolean }[]): Promise<Turn> {
    const content = results.map(({ text, isError }, at) => ({
      type: "tool_result",
      tool_use_id: this.#callIds[at],
      content: text,
      ...(isError ? { is_error: true } : {}),
    }));
    return this.#send(model, content);
  }

  async #send(model: string, content: readonly object[]): Promise<Turn> {
    const { hasTools, thinks, streams, schema } = this.#options;
    this.#messages.push({ role: "user", content });
    const params = {
      model,
      max_tokens: 4_000,
      messages: this.#messages,
      ...(hasTools ? { tools: TOOLS.map(({ schema, ...tool }) => ({ ...tool, input_schema: schema })) } : {}),
      ...(thinks ? { thinking: { type: "adaptive", display: "summarized" } } : {}),
      ...(schema === null ? {} : { output_config: { format: { type: "json_schema", schema } } }),
    };
    const message = (
      streams
        ? await this.#sdk.messages.stream(params).finalMessage()
        : await this.#sdk.messages.create(params)
    ) as Message;
    this.#messages.push({ role: "assistant", content: message.content });
    const calls = message.content.filter(({ type }) => type === "tool_use");
    this.#callIds = calls.map(({ id = "" }) => id);
    return {
      text: message.content.map(({ text = "" }) => text).join(""),
      isReasoned: message.content.some(({ thinking = "" }) => thinking !== ""),
      calls: calls.map(({ name = "", input }) => ({ name, input })),
      stop: readStop(message.stop_reason),
      usage: readUsage(message.usage),
    };
  }
}

function readStop(reason: string): Turn["stop"] {
  if (reason === "tool_use") return "tools";
  if (reason === "max_tokens") return "length";
  if (reason === "refusal") return "filtered";
  if (reason === "end_turn") return "end";
  throw new Error(`unexpected stop reason ${reason}`);
}

/** The API reports the input without its cached part. */
function readUsage(usage: Message["usage"]): Turn["usage"] {
  const cached = usage.cache_read_input_tokens ?? 0;
  const written = usage.cache_creation_input_tokens ?? 0;
  return {
    input: (usage.input_tokens ?? 0) + cached + written,
    cached,
    output: usage.output_tokens ?? 0,
  };
}
