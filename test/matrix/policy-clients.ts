/** The official SDKs as clients whose requests contain everything that a request policy restricts. */

import { join } from "node:path";
import OpenAI from "openai";
import type { ResponsesServerEvent } from "openai/resources/responses/responses";
import { ResponsesWS } from "openai/resources/responses/ws";
import type { Dialect } from "../../src/records/interfaces.ts";
import { openSdk } from "../messages/anthropic-sdk.ts";
import {
  chatParams,
  geminiParams,
  messagesParams,
  type PolicyRequest,
  responsesParams,
} from "./policy-requests.ts";

export interface PolicyResult {
  readonly text: string;
  /** The header that names the changes; undefined for a client that has no headers of its responses. */
  readonly header: string | null | undefined;
}

export interface PolicyClient {
  readonly name: string;
  readonly dialect: Dialect;
  readonly isSocket: boolean;
  /** Rejects with the error of the SDK. */
  send(url: string, key: string, request: PolicyRequest): Promise<PolicyResult>;
  /** The text of a streamed response. */
  stream(url: string, key: string, request: PolicyRequest): Promise<string>;
}

const HEADER = "x-gateway-policy";
const openai = (url: string, apiKey: string) => new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });

const RESPONSES: PolicyClient = {
  name: "openai, Responses",
  dialect: "responses",
  isSocket: false,
  async send(url, key, request) {
    const call = openai(url, key).responses.create(responsesParams(request));
    const { data, response } = await call.withResponse();
    return { text: data.output_text, header: response.headers.get(HEADER) };
  },
  async stream(url, key, request) {
    const stream = await openai(url, key).responses.create({ ...responsesParams(request), stream: true });
    let text = "";
    for await (const event of stream) if (event.type === "response.output_text.delta") text += event.delta;
    return text;
  },
};

/** One turn on a connection of its own. */
async function takeTurn(url: string, key: string, request: PolicyRequest): Promise<string> {
  const socket = new ResponsesWS(openai(url, key));
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  let text = "";
  socket.on("event", (event: ResponsesServerEvent) => {
    if (event.type === "response.output_text.delta") text += event.delta;
    if (event.type === "response.completed" || event.type === "response.incomplete") resolve(text);
    if (event.type === "response.failed") reject(new Error(event.response.error?.message));
  });
  socket.on("error", (failure) => reject(readSocketFailure(failure)));
  socket.send({ type: "response.create", ...responsesParams(request) });
  try {
    return await promise;
  } finally {
    socket.close();
  }
}

/** The SDK reports the error frame of the gateway, or that there is no connection. */
function readSocketFailure(failure: Error & { error?: unknown }): Error & { status: number } {
  const frame = failure.error as { status?: number; error?: { message?: string } } | undefined;
  const message = frame?.error?.message ?? failure.message;
  return Object.assign(new Error(message), { status: frame?.status ?? 0 });
}

const SOCKET: PolicyClient = {
  name: "openai, Responses over a WebSocket",
  dialect: "responses",
  isSocket: true,
  async send(url, key, request) {
    return { text: await takeTurn(url, key, request), header: undefined };
  },
  stream: takeTurn,
};

const CHAT: PolicyClient = {
  name: "openai, Chat Completions",
  dialect: "chat",
  isSocket: false,
  async send(url, key, request) {
    const call = openai(url, key).chat.completions.create(chatParams(request));
    const { data, response } = await call.withResponse();
    const text = data.choices[0]?.message.content ?? "";
    return { text, header: response.headers.get(HEADER) };
  },
  async stream(url, key, request) {
    const stream = await openai(url, key).chat.completions.create({ ...chatParams(request), stream: true });
    let text = "";
    for await (const { choices } of stream) text += choices[0]?.delta.content ?? "";
    return text;
  },
};

interface Blocks {
  content: { type: string; text?: string }[];
}
const joinText = ({ content }: Blocks) => content.map(({ text = "" }) => text).join("");

const MESSAGES: PolicyClient = {
  name: "@anthropic-ai/sdk",
  dialect: "messages",
  isSocket: false,
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
    headers.push(response.headers.get(HEADER));
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

const GEMINI: PolicyClient = {
  name: "@google/genai",
  dialect: "gemini",
  isSocket: false,
  async send(url, key, request) {
    const response = await (await genai(url, key)).generateContent(geminiParams(request));
    const header = response.sdkHttpResponse?.headers?.[HEADER] ?? null;
    return { text: response.text ?? "", header };
  },
  async stream(url, key, request) {
    let text = "";
    for await (const part of await (await genai(url, key)).generateContentStream(geminiParams(request)))
      text += part.text ?? "";
    return text;
  },
};

export const POLICY_CLIENTS: readonly PolicyClient[] = [RESPONSES, SOCKET, CHAT, MESSAGES, GEMINI];
