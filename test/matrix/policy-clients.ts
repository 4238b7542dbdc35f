/** The official SDKs as clients whose requests contain everything that a request policy restricts. */

import { join } from "node:path";
import OpenAI from "openai";
import { openSdk } from "../messages/anthropic-sdk.ts";
import { PIXEL, WEATHER } from "./matrix-client.ts";

/** More than the policies of the tests allow. */
export const OUTPUT_TOKENS = 9_000;

export interface PolicyRequest {
  readonly model: string;
  readonly hasImage?: boolean;
}

export interface PolicyResult {
  readonly text: string;
  /** The header that names the changes. */
  readonly header: string | null;
}

export interface PolicyClient {
  readonly name: string;
  /** Rejects with the error of the SDK. */
  send(url: string, key: string, request: PolicyRequest): Promise<PolicyResult>;
  /** The text of a streamed response. */
  stream(url: string, key: string, request: PolicyRequest): Promise<string>;
}

const IMAGE_URL = `data:image/png;base64,${PIXEL}`;
const openai = (url: string, apiKey: string) => new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });

function responsesParams({
  model,
  hasImage,
}: PolicyRequest): OpenAI.Responses.ResponseCreateParamsNonStreaming {
  const { name, description, schema } = WEATHER;
  return {
    model,
    input: [
      {
        role: "user",
        content: [
          { type: "input_text", text: "Hello" },
          ...(hasImage
            ? [{ type: "input_image" as const, detail: "auto" as const, image_url: IMAGE_URL }]
            : []),
        ],
      },
    ],
    max_output_tokens: OUTPUT_TOKENS,
    reasoning: { effort: "high" },
    tools: [
      { type: "web_search" },
      { type: "function", name, description, parameters: schema, strict: false },
    ],
  };
}

const RESPONSES: PolicyClient = {
  name: "openai, Responses",
  async send(url, key, request) {
    const call = openai(url, key).responses.create(responsesParams(request));
    const { data, response } = await call.withResponse();
    return { text: data.output_text, header: response.headers.get("x-gateway-policy") };
  },
  async stream(url, key, request) {
    const stream = await openai(url, key).responses.create({ ...responsesParams(request), stream: true });
    let text = "";
    for await (const event of stream) if (event.type === "response.output_text.delta") text += event.delta;
    return text;
  },
};

function chatParams({ model, hasImage }: PolicyRequest): OpenAI.Chat.ChatCompletionCreateParamsNonStreaming {
  const { name, description, schema } = WEATHER;
  return {
    model,
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "Hello" },
          ...(hasImage ? [{ type: "image_url" as const, image_url: { url: IMAGE_URL } }] : []),
        ],
      },
    ],
    max_completion_tokens: OUTPUT_TOKENS,
    reasoning_effort: "high",
    web_search_options: {},
    tools: [{ type: "function", function: { name, description, parameters: schema } }],
  };
}

const CHAT: PolicyClient = {
  name: "openai, Chat Completions",
  async send(url, key, request) {
    const call = openai(url, key).chat.completions.create(chatParams(request));
    const { data, response } = await call.withResponse();
    const text = data.choices[0]?.message.content ?? "";
    return { text, header: response.headers.get("x-gateway-policy") };
  },
  async stream(url, key, request) {
    const stream = await openai(url, key).chat.completions.create({ ...chatParams(request), stream: true });
    let text = "";
    for await (const { choices } of stream) text += choices[0]?.delta.content ?? "";
    return text;
  },
};

function messagesParams({ model, hasImage }: PolicyRequest): object {
  const { name, description, schema } = WEATHER;
  const source = { type: "base64", media_type: "image/png", data: PIXEL };
  return {
    model,
    max_tokens: OUTPUT_TOKENS,
    messages: [
      {
        role: "user",
        content: [{ type: "text", text: "Hello" }, ...(hasImage ? [{ type: "image", source }] : [])],
      },
    ],
    thinking: { type: "enabled", budget_tokens: 8_500 },
    tools: [
      { type: "web_search_20250305", name: "web_search" },
      { name, description, input_schema: schema },
    ],
  };
}

interface Blocks {
  content: { type: string; text?: string }[];
}
const joinText = ({ content }: Blocks) => content.map(({ text = "" }) => text).join("");

const MESSAGES: PolicyClient = {
  name: "@anthropic-ai/sdk",
  async send(url, key, request) {
    const headers: (string | null)[] = [];
    const sdk = await openSdk("1.x", url, { apiKey: key, fetch: recordHeaders(headers) });
    const message = (await sdk.messages.create(messagesParams(request))) as Blocks;
    return { text: joinText(message), header: headers.at(-1) ?? null };
  },
  async stream(url, key, request) {
    const sdk = await openSdk("1.x", url, { apiKey: key });
    return joinText((await sdk.messages.stream(messagesParams(request)).finalMessage()) as Blocks);
  },
};

function recordHeaders(headers: (string | null)[]) {
  return async (...request: Parameters<typeof fetch>) => {
    const response = await fetch(...request);
    headers.push(response.headers.get("x-gateway-policy"));
    return response;
  };
}

interface GenaiResponse {
  readonly text?: string;
  readonly sdkHttpResponse?: { readonly headers?: Readonly<Record<string, string>> };
}
interface Genai {
  models: {
    generateContent(params: object): Promise<GenaiResponse>;
    generateContentStream(params: object): Promise<AsyncIterable<GenaiResponse>>;
  };
}

async function genai(url: string, apiKey: string): Promise<Genai["models"]> {
  const path = join(import.meta.dir, "../clients/node_modules/@google/genai/dist/node/index.mjs");
  const { GoogleGenAI }: { GoogleGenAI: new (options: object) => Genai } = await import(path);
  return new GoogleGenAI({ apiKey, httpOptions: { baseUrl: url } }).models;
}

function geminiParams({ model, hasImage }: PolicyRequest): object {
  const { name, description, schema } = WEATHER;
  const image = { inlineData: { mimeType: "image/png", data: PIXEL } };
  return {
    model,
    contents: [{ role: "user", parts: [{ text: "Hello" }, ...(hasImage ? [image] : [])] }],
    config: {
      maxOutputTokens: OUTPUT_TOKENS,
      thinkingConfig: { thinkingBudget: 8_500 },
      tools: [
        { googleSearch: {} },
        { functionDeclarations: [{ name, description, parametersJsonSchema: schema }] },
      ],
    },
  };
}

const GEMINI: PolicyClient = {
  name: "@google/genai",
  async send(url, key, request) {
    const response = await (await genai(url, key)).generateContent(geminiParams(request));
    const header = response.sdkHttpResponse?.headers?.["x-gateway-policy"] ?? null;
    return { text: response.text ?? "", header };
  },
  async stream(url, key, request) {
    let text = "";
    for await (const part of await (await genai(url, key)).generateContentStream(geminiParams(request)))
      text += part.text ?? "";
    return text;
  },
};

export const POLICY_CLIENTS: readonly PolicyClient[] = [RESPONSES, CHAT, MESSAGES, GEMINI];
