/** The reader for the stream of an endpoint. */

import { openChatReader } from "./chat-stream.ts";
import { openImagesReader } from "./images-stream.ts";
import type { Endpoint, ModelRequest } from "./request.ts";
import { openResponsesReader } from "./responses-stream.ts";
import type { StreamReader } from "./stream.ts";

export function openStreamReader(
  endpoint: Endpoint,
  request: Pick<ModelRequest, "publicModel" | "hidesUsage" | "choices">,
  options: { depthMax: number; nowMs(): number },
): StreamReader {
  switch (endpoint.interface) {
    case "chat":
      return openChatReader({ ...request, depthMax: options.depthMax });
    case "images":
      return openImagesReader({ choices: request.choices, depthMax: options.depthMax });
    case "responses":
    case "embeddings":
      return openResponsesReader({ publicModel: request.publicModel, ...options });
  }
}
