/** A request that contains what a request policy restricts, as the parameters of each official SDK. */

import type OpenAI from "openai";
import { PDF, PIXEL, WEATHER } from "./matrix-client.ts";

export type MatrixInput = "image" | "file" | "url" | "audio";

/** The same in all dialects. A member that is left out is not sent. */
export interface PolicyRequest {
  readonly model: string;
  /** 9,000 if it is left out: Messages require a limit. Null: not sent by the other dialects. */
  readonly outputTokens?: number | null;
  readonly effort?: "low" | "high";
  readonly hasSearch?: boolean;
  readonly tier?: "default" | "priority";
  readonly store?: boolean;
  readonly background?: boolean;
  readonly inputs?: readonly MatrixInput[];
}

export const OUTPUT_TOKENS = 9_000;
const PICTURE_URL = "https://example.com/a.png";
const IMAGE_URL = `data:image/png;base64,${PIXEL}`;
const FILE = { filename: "a.pdf", file_data: `data:application/pdf;base64,${PDF}` };
const SOUND = Buffer.from("RIFF").toString("base64");
const AUDIO = { type: "input_audio", input_audio: { data: SOUND, format: "wav" } } as const;

/** Budgets that mean these efforts. */
const BUDGETS = { low: 2_048, high: 8_500 } as const;

function outputLimit({ outputTokens = OUTPUT_TOKENS }: PolicyRequest): number | null {
  return outputTokens;
}

type ResponsesContent = OpenAI.Responses.ResponseInputContent | typeof AUDIO;
const RESPONSES_INPUTS: Readonly<Record<MatrixInput, ResponsesContent>> = {
  image: { type: "input_image", detail: "auto", image_url: IMAGE_URL },
  file: { type: "input_file", ...FILE },
  url: { type: "input_image", detail: "auto", image_url: PICTURE_URL },
  audio: AUDIO,
};

export function responsesParams(request: PolicyRequest): OpenAI.Responses.ResponseCreateParamsNonStreaming {
  const { model, effort, hasSearch = false, tier, store, background, inputs = [] } = request;
  const { name, description, schema } = WEATHER;
  const maximum = outputLimit(request);
  const content: ResponsesContent[] = [
    { type: "input_text", text: "Hello" },
    ...inputs.map((input) => RESPONSES_INPUTS[input]),
  ];
  return {
    model,
    // The SDK has a type for audio, but not among the contents of a message.
    input: [{ role: "user", content: content as OpenAI.Responses.ResponseInputMessageContentList }],
    ...(maximum === null ? {} : { max_output_tokens: maximum }),
    ...(effort === undefined ? {} : { reasoning: { effort, summary: "auto" as const } }),
    ...(tier === undefined ? {} : { service_tier: tier }),
    ...(store === undefined ? {} : { store }),
    ...(background === undefined ? {} : { background }),
    tools: [
      ...(hasSearch ? [{ type: "web_search" as const }] : []),
      { type: "function", name, description, parameters: { ...schema }, strict: false },
    ],
  };
}

const CHAT_INPUTS: Readonly<Record<MatrixInput, OpenAI.Chat.ChatCompletionContentPart>> = {
  image: { type: "image_url", image_url: { url: IMAGE_URL } },
  file: { type: "file", file: FILE },
  url: { type: "image_url", image_url: { url: PICTURE_URL } },
  audio: AUDIO,
};

export function chatParams(
  request: PolicyRequest,
): OpenAI.Chat.ChatCompletionCreateParamsNonStreaming & { background?: boolean } {
  const { model, effort, hasSearch = false, tier, store, background, inputs = [] } = request;
  const { name, description, schema } = WEATHER;
  const maximum = outputLimit(request);
  return {
    model,
    messages: [
      {
        role: "user",
        content: [{ type: "text", text: "Hello" }, ...inputs.map((input) => CHAT_INPUTS[input])],
      },
    ],
    ...(maximum === null ? {} : { max_completion_tokens: maximum }),
    ...(effort === undefined ? {} : { reasoning_effort: effort }),
    ...(tier === undefined ? {} : { service_tier: tier }),
    ...(store === undefined ? {} : { store }),
    ...(background === undefined ? {} : { background }),
    ...(hasSearch ? { web_search_options: {} } : {}),
    tools: [{ type: "function", function: { name, description, parameters: { ...schema } } }],
  };
}

const base64 = (type: string, mediaType: string, data: string) => ({
  type,
  source: { type: "base64", media_type: mediaType, data },
});
const MESSAGES_INPUTS: Readonly<Record<MatrixInput, object>> = {
  image: base64("image", "image/png", PIXEL),
  file: base64("document", "application/pdf", PDF),
  url: { type: "image", source: { type: "url", url: PICTURE_URL } },
  // Messages have none yet. A vendor with the same interface may.
  audio: AUDIO,
};

export function messagesParams(request: PolicyRequest): object {
  const { model, effort, hasSearch = false, tier, store, background, inputs = [] } = request;
  const { name, description, schema } = WEATHER;
  return {
    model,
    max_tokens: outputLimit(request) ?? OUTPUT_TOKENS,
    messages: [
      {
        role: "user",
        content: [{ type: "text", text: "Hello" }, ...inputs.map((input) => MESSAGES_INPUTS[input])],
      },
    ],
    ...(effort === undefined ? {} : { thinking: { type: "enabled", budget_tokens: BUDGETS[effort] } }),
    // The default may use the priority tier.
    ...(tier === undefined ? {} : { service_tier: tier === "priority" ? "auto" : "standard_only" }),
    ...(store === undefined ? {} : { store }),
    ...(background === undefined ? {} : { background }),
    tools: [
      ...(hasSearch ? [{ type: "web_search_20250305", name: "web_search" }] : []),
      { name, description, input_schema: schema },
    ],
  };
}

const inline = (mimeType: string, data: string) => ({ inlineData: { mimeType, data } });
const GEMINI_INPUTS: Readonly<Record<MatrixInput, object>> = {
  image: inline("image/png", PIXEL),
  file: inline("application/pdf", PDF),
  url: { fileData: { mimeType: "image/png", fileUri: PICTURE_URL } },
  audio: inline("audio/wav", SOUND),
};

export function geminiParams(request: PolicyRequest): object {
  const { model, effort, hasSearch = false, tier, store, background, inputs = [] } = request;
  const { name, description, schema } = WEATHER;
  const maximum = outputLimit(request);
  // The SDK has no parameters for these.
  const extraBody = {
    ...(store === undefined ? {} : { store }),
    ...(background === undefined ? {} : { background }),
  };
  return {
    model,
    contents: [{ role: "user", parts: [{ text: "Hello" }, ...inputs.map((input) => GEMINI_INPUTS[input])] }],
    config: {
      temperature: 1,
      ...(maximum === null ? {} : { maxOutputTokens: maximum }),
      ...(effort === undefined
        ? {}
        : { thinkingConfig: { includeThoughts: true, thinkingBudget: BUDGETS[effort] } }),
      ...(tier === undefined ? {} : { serviceTier: tier === "priority" ? "priority" : "standard" }),
      ...(Object.keys(extraBody).length === 0 ? {} : { httpOptions: { extraBody } }),
      tools: [
        ...(hasSearch ? [{ googleSearch: {} }] : []),
        { functionDeclarations: [{ name, description, parametersJsonSchema: schema }] },
      ],
    },
  };
}
