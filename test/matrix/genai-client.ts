/** Google's SDK as a client of the matrix. */

import { join } from "node:path";
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

interface Part {
  text?: string;
  thought?: boolean;
  functionCall?: { id?: string; name: string; args?: unknown };
}

interface GenaiResponse {
  candidates?: { content?: { parts?: Part[] }; finishReason?: string }[];
  usageMetadata?: Record<string, number | undefined>;
}

/** As much of the SDK as the matrix calls. */
interface Genai {
  models: {
    generateContent(params: object): Promise<GenaiResponse>;
    generateContentStream(params: object): Promise<AsyncIterable<GenaiResponse>>;
    countTokens(params: object): Promise<{ totalTokens?: number }>;
    list(params: object): Promise<AsyncIterable<{ name?: string }>>;
  };
}

const PACKAGE = join(import.meta.dir, "../clients/node_modules/@google/genai/dist/node/index.mjs");

export async function openGenaiClient(url: string): Promise<MatrixClient> {
  const { GoogleGenAI }: { GoogleGenAI: new (options: object) => Genai } = await import(PACKAGE);
  const { models } = new GoogleGenAI({ apiKey: TEST_KEY, httpOptions: { baseUrl: url } });
  return {
    open: (options) => new GenaiConversation(models, options),
    fail: (model) => catchFailure(models.generateContent({ model, contents: "Hello" })),
    async cancel(model) {
      const abort = new AbortController();
      const config = { abortSignal: abort.signal };
      const stream = await models.generateContentStream({ model, contents: "Hello", config });
      await readSome(stream, () => true);
      abort.abort();
    },
    async listModels() {
      const names: string[] = [];
      for await (const { name = "" } of await models.list({ config: { pageSize: 7 } }))
        names.push(name.replace("models/", ""));
      return names;
    },
    countTokens: async (model) => (await models.countTokens({ model, contents: "Hello" })).totalTokens ?? 0,
  };
}

class GenaiConversation implements MatrixConversation {
  readonly #models: Genai["models"];
  readonly #options: ConversationOptions;
  readonly #contents: object[] = [];
  #calls: { id?: string; name: string }[] = [];

  constructor(models: Genai["models"], options: ConversationOptions) {
    this.#models = models;
    this.#options = options;
  }

  ask(model: string, { text, media }: Question): Promise<Turn> {
    const parts: object[] = [{ text }];
    if (media === "image") parts.push({ inlineData: { mimeType: "image/png", data: PIXEL } });
    if (media === "pdf") parts.push({ inlineData: { mimeType: "application/pdf", data: PDF } });
    return this.#send(model, parts);
  }

  sendResults(model: string, results: readonly ToolResult[]): Promise<Turn> {
    const parts = results.map(({ text, isError }, at) => ({
      functionResponse: { ...this.#calls[at], response: isError ? { error: text } : { output: text } },
    }));
    return this.#send(model, parts);
  }

  async #send(model: string, parts: readonly object[]): Promise<Turn> {
    const { hasTools, thinks, streams, schema } = this.#options;
    this.#contents.push({ role: "user", parts });
    const functionDeclarations = TOOLS.map(({ schema, ...tool }) => ({
      ...tool,
      parametersJsonSchema: schema,
    }));
    const params = {
      model,
      contents: this.#contents,
      config: {
        ...(hasTools ? { tools: [{ functionDeclarations }] } : {}),
        ...(thinks ? { thinkingConfig: { includeThoughts: true } } : {}),
        ...(schema === null ? {} : { responseMimeType: "application/json", responseJsonSchema: schema }),
      },
    };
    const responses = streams
      ? await Array.fromAsync(await this.#models.generateContentStream(params))
      : [await this.#models.generateContent(params)];
    const received = responses.flatMap(({ candidates }) => candidates?.[0]?.content?.parts ?? []);
    // The model's own parts are sent back, signatures included, as chats of the SDK do.
    this.#contents.push({ role: "model", parts: received });
    const calls = received.flatMap(({ functionCall }) => (functionCall === undefined ? [] : [functionCall]));
    this.#calls = calls.map(({ id, name }) => ({ name, ...(id === undefined ? {} : { id }) }));
    const texts = (isThought: boolean) =>
      received.flatMap(({ text = "", thought = false }) => (thought === isThought ? [text] : [])).join("");
    const finish = responses.findLast(({ candidates }) => candidates?.[0]?.finishReason)?.candidates?.[0];
    return {
      text: texts(false),
      isReasoned: texts(true) !== "",
      calls: calls.map(({ name, args = {} }) => ({ name, input: args })),
      stop: readFinish(finish?.finishReason, calls.length > 0 ? "tools" : "end"),
      usage: readUsage(responses.findLast(({ usageMetadata }) => usageMetadata)?.usageMetadata ?? {}),
    };
  }
}

function readFinish(reason: string | undefined, complete: Turn["stop"]): Turn["stop"] {
  if (reason === "MAX_TOKENS") return "length";
  return reason === "SAFETY" ? "filtered" : complete;
}

/** Thoughts are output beside the candidates. */
function readUsage(usage: Record<string, number | undefined>): Turn["usage"] {
  return {
    input: usage.promptTokenCount ?? 0,
    cached: usage.cachedContentTokenCount ?? 0,
    output: (usage.candidatesTokenCount ?? 0) + (usage.thoughtsTokenCount ?? 0),
  };
}
