/** The streams of each endpoint: their readers and keep-alives. */

import { BLANK_KEEP_ALIVE, KEEP_ALIVE } from "../net/wire/sse-format.ts";
import { openChatReader } from "./chat/chat-stream.ts";
import { openGeminiReader } from "./gemini/gemini-stream.ts";
import { openImagesReader } from "./images/images-stream.ts";
import { openMessagesReader, PING } from "./messages/messages-stream.ts";
import { openResponsesReader } from "./responses/responses-stream.ts";
import type { Endpoint, ModelRequest } from "./shared/request.ts";
import type { StreamReader, TextSink } from "./shared/stream.ts";

/**
 * Keeps a silent stream alive. Clients of the Messages API count `ping` as traffic, and no comment; those of Gemini stop
 * reading at a comment.
 */
export function keepAliveEvent({ interface: family }: Pick<Endpoint, "interface">): Uint8Array {
  if (family === "gemini") return BLANK_KEEP_ALIVE;
  return family === "messages" ? PING : KEEP_ALIVE;
}

export function openStreamReader(
  endpoint: Endpoint,
  request: Pick<ModelRequest, "publicModel" | "hidesUsage" | "choices">,
  /** Without a sink no text is extracted from the deltas, which costs nothing. */
  options: {
    depthMax: number;
    nowMs(): number;
    sink?: TextSink | null;
    previousResponseId?: string | null;
  },
): StreamReader {
  switch (endpoint.interface) {
    case "chat":
      return openChatReader({ ...request, depthMax: options.depthMax, sink: options.sink });
    case "gemini":
      return openGeminiReader({
        publicModel: request.publicModel,
        choices: request.choices,
        depthMax: options.depthMax,
        sink: options.sink,
      });
    case "images":
      return openImagesReader({
        publicModel: request.publicModel,
        choices: request.choices,
        depthMax: options.depthMax,
      });
    case "messages":
      return openMessagesReader({
        publicModel: request.publicModel,
        depthMax: options.depthMax,
        sink: options.sink,
      });
    case "responses":
    case "embeddings":
      return openResponsesReader({ publicModel: request.publicModel, ...options });
  }
}
