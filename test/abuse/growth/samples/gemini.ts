/** Gemini documents that contain every place that can repeat. */

import type { DialectSamples } from "../sample.ts";
import { OPENAPI_SCHEMA, SMALL_SCHEMA } from "./schema.ts";

const GROUNDING = {
  webSearchQueries: ["hello"],
  groundingChunks: [{ web: { uri: "https://a.example/", title: "A" } }],
  groundingSupports: [
    {
      segment: { startIndex: 0, endIndex: 3, text: "Hel" },
      groundingChunkIndices: [0],
      confidenceScores: [1],
    },
  ],
  searchEntryPoint: { renderedContent: "<p>a</p>" },
};

const PARTIAL_ARGUMENTS = [
  { jsonPath: "$.text", stringValue: "a", willContinue: true },
  { jsonPath: "$.lines[0]", numberValue: 1 },
  { jsonPath: "$.whole", boolValue: true },
];

const OUTPUT_PARTS = [
  { text: "Hm", thought: true },
  { text: "Hello", thoughtSignature: "c2ln" },
  {
    functionCall: { id: "call", name: "look_up", args: { path: "a", lines: [1] } },
    thoughtSignature: "c2ln",
  },
  { executableCode: { language: "PYTHON", code: "1" } },
  { inlineData: { mimeType: "image/png", data: "aGVsbG8=" } },
  { functionResponse: { name: "look_up", response: { output: "Found" } } },
];

export const GEMINI: DialectSamples = {
  requests: [
    {
      name: "conversation",
      json: {
        systemInstruction: {
          parts: [
            { text: "Be brief.", thoughtSignature: "c2ln" },
            { inlineData: { mimeType: "image/png", data: "aGVsbG8=" } },
            { functionCall: { name: "look_up" } },
            { functionResponse: { name: "look_up" } },
          ],
        },
        contents: [
          {
            role: "user",
            parts: [
              { text: "Hello" },
              { inlineData: { mimeType: "image/png", data: "aGVsbG8=" } },
              { inlineData: { mimeType: "application/pdf", data: "aGVsbG8=" } },
            ],
          },
          {
            role: "model",
            parts: [
              { text: "Hm", thought: true, thoughtSignature: "c2ln" },
              { text: "Looking", thoughtSignature: "c2ln" },
              {
                functionCall: { id: "call", name: "look_up", args: { path: "a", lines: [1] } },
                thoughtSignature: "c2ln",
              },
            ],
          },
          {
            role: "user",
            parts: [
              {
                functionResponse: {
                  id: "call",
                  name: "look_up",
                  response: { output: "Found" },
                  parts: [{ inlineData: { mimeType: "image/png", data: "aGVsbG8=" } }],
                },
              },
            ],
          },
          { role: "user", parts: [{ text: "Thanks" }] },
        ],
        tools: [
          {
            functionDeclarations: [
              { name: "look_up", description: "Looks up", parametersJsonSchema: SMALL_SCHEMA },
              { name: "older", description: "Looks up", parameters: OPENAPI_SCHEMA },
            ],
          },
          { googleSearch: {} },
        ],
        toolConfig: { functionCallingConfig: { mode: "AUTO", allowedFunctionNames: ["look_up", "older"] } },
        generationConfig: {
          stopSequences: ["END"],
          responseMimeType: "application/json",
          responseJsonSchema: SMALL_SCHEMA,
          responseModalities: ["TEXT"],
          thinkingConfig: { thinkingLevel: "LOW", includeThoughts: true, thinkingBudget: 1024 },
          maxOutputTokens: 100,
          topP: 1,
          topK: 1,
          presencePenalty: 0,
          frequencyPenalty: 0,
          responseLogprobs: false,
          candidateCount: 1,
        },
        serviceTier: "standard",
        safetySettings: [{ category: "HARM", threshold: "OFF" }],
      },
    },
    {
      name: "without ids",
      json: {
        systemInstruction: "Be brief.",
        contents: [
          { role: "user", parts: [{ text: "Hello" }] },
          { role: "model", parts: [{ functionCall: { name: "look_up", args: {} } }] },
          { role: "user", parts: [{ functionResponse: { name: "look_up", response: { error: "No" } } }] },
        ],
        tools: [{ functionDeclarations: [{ name: "look_up" }] }],
        generationConfig: { responseMimeType: "application/json", responseSchema: OPENAPI_SCHEMA },
      },
    },
    {
      name: "stored files and audio",
      json: {
        contents: [
          {
            role: "user",
            parts: [
              { text: "Hello" },
              { inlineData: { mimeType: "audio/wav", data: "aGVsbG8=" } },
              { fileData: { mimeType: "image/png", fileUri: "https://a.example/a.png" } },
            ],
          },
        ],
        labels: { purpose: "test" },
      },
    },
  ],
  responses: [
    {
      name: "response",
      json: {
        responseId: "r",
        modelVersion: "up",
        candidates: [
          {
            index: 0,
            content: { role: "model", parts: OUTPUT_PARTS },
            finishReason: "STOP",
            finishMessage: "Done",
            groundingMetadata: GROUNDING,
            citationMetadata: { citationSources: [{ uri: "https://a.example/" }] },
            safetyRatings: [{ category: "HARM", probability: "LOW" }],
            logprobsResult: {
              topCandidates: [{ candidates: [{ token: "a" }] }],
              chosenCandidates: [{ token: "a" }],
            },
          },
        ],
        promptFeedback: { blockReason: "OTHER", safetyRatings: [{ category: "HARM", probability: "LOW" }] },
        usageMetadata: usage(),
      },
    },
    {
      name: "sources of the last text",
      json: {
        responseId: "r",
        candidates: [
          {
            content: { role: "model", parts: [{ text: "Hello there" }] },
            finishReason: "STOP",
            groundingMetadata: GROUNDING,
          },
        ],
        usageMetadata: usage(),
      },
    },
  ],
  streams: [
    {
      name: "chunks",
      head: [chunk({ content: { role: "model", parts: [{ text: "Hello" }] } })],
      events: [
        ...OUTPUT_PARTS.map((part) => chunk({ content: { role: "model", parts: [part] } })),
        chunk({
          content: { role: "model", parts: [{ functionCall: { name: "look_up", args: { path: "a" } } }] },
        }),
        chunk({
          content: {
            role: "model",
            parts: [
              { functionCall: { name: "look_up", willContinue: true, partialArgs: PARTIAL_ARGUMENTS } },
              { functionCall: { partialArgs: [{ jsonPath: "$.text", stringValue: "b" }] } },
            ],
          },
        }),
        chunk({ content: { role: "model", parts: [{ text: "Hello" }] }, groundingMetadata: GROUNDING }),
        chunk({ citationMetadata: { citationSources: [{ uri: "https://a.example/" }] } }),
        { usageMetadata: usage() },
      ],
      tail: [
        {
          ...chunk({
            content: { parts: [{ text: "end" }] },
            finishReason: "STOP",
            groundingMetadata: GROUNDING,
          }),
          usageMetadata: usage(),
        },
      ],
    },
    {
      name: "a blocked prompt",
      head: [],
      events: [],
      tail: [{ promptFeedback: { blockReason: "OTHER" }, usageMetadata: usage() }],
    },
    {
      name: "a failure",
      head: [chunk({ content: { role: "model", parts: [{ text: "Hello" }] } })],
      events: [],
      tail: [
        {
          error: {
            code: 500,
            message: "No",
            status: "INTERNAL",
            details: [{ reason: "a", metadata: { a: "b" } }],
          },
        },
      ],
    },
  ],
};

function chunk(candidate: object): Record<string, unknown> {
  return { responseId: "r", modelVersion: "up", candidates: [{ index: 0, ...candidate }] };
}

function usage(): object {
  return {
    promptTokenCount: 9,
    cachedContentTokenCount: 1,
    candidatesTokenCount: 8,
    thoughtsTokenCount: 1,
    totalTokenCount: 18,
    promptTokensDetails: [{ modality: "TEXT", tokenCount: 9 }],
  };
}
