/** All endpoints that call a model. Each dialect declares its own, with their traits. */

import { CHAT_COMPLETIONS } from "./chat/chat-endpoint.ts";
import { BATCH_EMBED_CONTENTS, EMBED_CONTENT, EMBEDDINGS } from "./embeddings/embeddings-endpoints.ts";
import { GEMINI_COUNT_TOKENS, GENERATE_CONTENT, STREAM_GENERATE_CONTENT } from "./gemini/gemini-endpoints.ts";
import { IMAGE_EDITS, IMAGE_GENERATIONS } from "./images/images-endpoints.ts";
import { COUNT_TOKENS_ENDPOINT, MESSAGES } from "./messages/messages-endpoints.ts";
import { COMPACT, INPUT_TOKENS, RESPONSES } from "./responses/responses-endpoints.ts";
import type { Endpoint, EndpointName } from "./shared/endpoint.ts";

export const ENDPOINTS: readonly Endpoint[] = [
  RESPONSES,
  COMPACT,
  INPUT_TOKENS,
  CHAT_COMPLETIONS,
  MESSAGES,
  EMBEDDINGS,
  IMAGE_GENERATIONS,
  IMAGE_EDITS,
  GENERATE_CONTENT,
  STREAM_GENERATE_CONTENT,
  GEMINI_COUNT_TOKENS,
  EMBED_CONTENT,
  BATCH_EMBED_CONTENTS,
];

const BY_NAME: ReadonlyMap<EndpointName, Endpoint> = new Map(
  [...ENDPOINTS, COUNT_TOKENS_ENDPOINT].map((endpoint) => [endpoint.name, endpoint]),
);

export function lookUpEndpoint(name: EndpointName): Endpoint {
  const endpoint = BY_NAME.get(name);
  if (endpoint === undefined) throw new Error(`no endpoint ${name}`);
  return endpoint;
}
