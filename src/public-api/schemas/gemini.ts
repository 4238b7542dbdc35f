/** Schemas of the Gemini API. Members that are not described here pass through. */

import { z } from "zod";

const part = z.looseObject({
  text: z.string().optional(),
  inlineData: z
    .looseObject({ mimeType: z.string(), data: z.string() })
    .optional()
    .describe("An image, a PDF or audio in Base64."),
  functionCall: z.looseObject({ name: z.string(), args: z.looseObject({}).optional() }).optional(),
  functionResponse: z.looseObject({ name: z.string(), response: z.looseObject({}).optional() }).optional(),
  thought: z.boolean().optional().describe("The part is a thought of the model."),
  thoughtSignature: z.string().optional().describe("Opaque. Send it back unchanged with its part."),
});

const content = z.looseObject({
  role: z.enum(["user", "model"]).optional(),
  parts: z.array(part).optional(),
});

const generationConfig = z.looseObject({
  maxOutputTokens: z.int().min(1).optional().describe("Includes the tokens of thoughts."),
  temperature: z.number().optional(),
  topP: z.number().optional(),
  topK: z.number().optional(),
  stopSequences: z.array(z.string()).optional(),
  candidateCount: z.int().min(1).max(8).optional(),
  responseMimeType: z.string().optional(),
  responseJsonSchema: z.unknown().optional(),
  thinkingConfig: z
    .looseObject({
      includeThoughts: z.boolean().optional(),
      thinkingBudget: z.int().optional(),
      thinkingLevel: z.string().optional(),
    })
    .optional(),
});

export const geminiRequest = z.looseObject({
  contents: z.array(content).describe("The turns of the conversation."),
  systemInstruction: content.optional(),
  tools: z
    .array(
      z.looseObject({
        functionDeclarations: z
          .array(
            z.looseObject({
              name: z.string(),
              description: z.string().optional(),
              parametersJsonSchema: z.unknown().optional(),
            }),
          )
          .optional(),
      }),
    )
    .optional(),
  toolConfig: z.looseObject({}).optional(),
  generationConfig: generationConfig.optional(),
});

const usageMetadata = z.looseObject({
  promptTokenCount: z.int().optional().describe("Includes the cached tokens."),
  cachedContentTokenCount: z.int().optional(),
  candidatesTokenCount: z.int().optional().describe("Without the thoughts."),
  thoughtsTokenCount: z.int().optional(),
  totalTokenCount: z.int().optional(),
});

export const geminiResponse = z.looseObject({
  candidates: z
    .array(
      z.looseObject({
        content: content.optional(),
        finishReason: z.string().optional(),
        index: z.int().optional(),
      }),
    )
    .optional(),
  promptFeedback: z.looseObject({ blockReason: z.string().optional() }).optional(),
  usageMetadata: usageMetadata.optional(),
  modelVersion: z.string().optional().describe("The public name of the model."),
  responseId: z.string().optional(),
});

export const geminiCountRequest = z.looseObject({
  contents: z.array(content).optional(),
  generateContentRequest: geminiRequest.optional().describe("In place of `contents`: the whole request."),
});
export const geminiCount = z.looseObject({ totalTokens: z.int() });

export const geminiEmbedRequest = z.looseObject({
  content,
  taskType: z.string().optional(),
  outputDimensionality: z.int().min(1).optional(),
});
const embedding = z.looseObject({ values: z.array(z.number()) });
export const geminiEmbedding = z.looseObject({ embedding });
export const geminiBatchRequest = z.looseObject({ requests: z.array(geminiEmbedRequest) });
export const geminiBatch = z.looseObject({ embeddings: z.array(embedding) });

export const geminiModel = z.looseObject({
  name: z.string().describe("`models/` and the id of the model."),
  displayName: z.string(),
  inputTokenLimit: z.int().optional(),
  outputTokenLimit: z.int().optional(),
  supportedGenerationMethods: z.array(z.string()),
});
export const geminiModelList = z.looseObject({
  models: z.array(geminiModel),
  nextPageToken: z.string().optional(),
});
