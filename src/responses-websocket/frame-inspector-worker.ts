/** Worker thread that parses long frames one after the other. See `frame-inspector.ts`. */

import type { ApiError } from "../errors.ts";
import { type CreateFrame, readClientFrame, readFrameMetadata } from "./client-frame.ts";
import type { FrameJob, FrameReply } from "./frame-inspector.ts";
import { findToolCalls } from "./tool-calls.ts";

declare const self: Worker;

self.onmessage = ({ data: { id, bytes, depthMax } }: MessageEvent<FrameJob>) => {
  const reply = read(id, bytes, depthMax);
  self.postMessage(reply, reply.kind === "create" ? [reply.frame.bytes.buffer as ArrayBuffer] : []);
};

function read(id: number, bytes: Uint8Array, depthMax: number): FrameReply {
  const frame = readClientFrame("text", bytes, depthMax);
  if (frame.kind === "steer") return { id, kind: "steer", previousId: frame.previousId };
  if (frame.kind === "bad") return rejection(id, frame.streamId, frame.error);
  const { input } = frame.scan.fields;
  const calls =
    input?.kind === "array" ? findToolCalls(frame.bytes, input, depthMax) : { made: [], answered: [] };
  const inspected: CreateFrame = {
    ...frame,
    inspection: { calls, metadata: readFrameMetadata(frame, depthMax) },
  };
  return { id, kind: "create", frame: inspected };
}

function rejection(
  id: number,
  streamId: string | null,
  { code, message, param }: Pick<ApiError, "code" | "message" | "param">,
): FrameReply {
  return { id, kind: "bad", streamId, code, message, param };
}
