/** The requests that the examples of a key send. */

import { KEY_VARIABLE, type SnippetRequest } from "./snippet.ts";

export type Interface = "chat" | "responses" | "messages" | "gemini" | "embeddings" | "images";

export interface ExampleModel {
  id: string;
  interfaces: readonly Interface[];
}

/**
 * `read -s` keeps the key off the screen and out of the history of the shell. One line without a comment: `read` would
 * take a second line as the key, and not every shell allows comments at its prompt.
 */
export const environment = `read -rs ${KEY_VARIABLE} && export ${KEY_VARIABLE}`;

/** The interface with the shortest example comes first. */
const PREFERRED: readonly Interface[] = ["chat", "responses", "messages", "gemini", "embeddings", "images"];

const PROMPT = "Say hello in one sentence.";

const EXAMPLES: Readonly<Record<Interface, { path: string; body: Readonly<Record<string, unknown>> }>> = {
  chat: { path: "/v1/chat/completions", body: { messages: [{ role: "user", content: PROMPT }] } },
  responses: { path: "/v1/responses", body: { input: PROMPT } },
  messages: {
    path: "/v1/messages",
    body: { max_tokens: 1_024, messages: [{ role: "user", content: PROMPT }] },
  },
  gemini: {
    path: "/v1beta/models/{model}:generateContent",
    body: { contents: [{ role: "user", parts: [{ text: PROMPT }] }] },
  },
  embeddings: { path: "/v1/embeddings", body: { input: PROMPT } },
  images: { path: "/v1/images/generations", body: { prompt: "A lighthouse at dawn" } },
};

/** Returns null if the key has no models. */
export function buildExample(
  baseUrl: string,
  models: readonly ExampleModel[],
  preferred = PREFERRED,
): SnippetRequest | null {
  for (const wanted of preferred) {
    const model = models.find(({ interfaces }) => interfaces.includes(wanted));
    if (model === undefined) continue;
    const { path, body } = EXAMPLES[wanted];
    return {
      baseUrl,
      method: "POST",
      path: path.replace("{model}", model.id),
      isSocket: false,
      // Gemini has the model in its path.
      body: path.includes("{model}") ? body : { model: model.id, ...body },
      files: [],
      printsContent: true,
    };
  }
  return null;
}
