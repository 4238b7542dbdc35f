/** Opens the stream reader of an endpoint. */

import { openChatReader } from "./chat/chat-stream.ts";
import { openImagesReader } from "./images/images-stream.ts";
import { openResponsesReader } from "./responses/responses-stream.ts";
import type { Endpoint, ModelRequest } from "./shared/request.ts";
import type { StreamReader, TextSink } from "./shared/stream.ts";

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
    case "images":
      return openImagesReader({
        publicModel: request.publicModel,
        choices: request.choices,
        depthMax: options.depthMax,
      });
    case "responses":
    case "embeddings":
      return openResponsesReader({ publicModel: request.publicModel, ...options });
  }
}
