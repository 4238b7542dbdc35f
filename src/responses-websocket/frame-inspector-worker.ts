/** Worker that parses long frames. See `frame-inspector.ts`. */

import { type JobResult, serveJobs } from "../threads/serve-jobs.ts";
import { readClientFrame, readFrameMetadata } from "./client-frame.ts";
import { readEchoedSettings } from "./echoed-settings.ts";
import type { FrameJob, InspectedFrame } from "./frame-inspector.ts";
import { findToolCalls } from "./tool-calls.ts";

serveJobs<FrameJob, InspectedFrame>(({ bytes, depthMax, echoBytesMax }): JobResult<InspectedFrame> => {
  const frame = readClientFrame("text", bytes, depthMax);
  if (frame.kind === "steer")
    return { result: { kind: "steer", previousId: frame.previousId }, transfer: [] };
  if (frame.kind === "bad") {
    const { code, message, param } = frame.error;
    return { result: { kind: "bad", streamId: frame.streamId, code, message, param }, transfer: [] };
  }
  const { input } = frame.scan.fields;
  const calls =
    input?.kind === "array" ? findToolCalls(frame.bytes, input, depthMax) : { made: [], completed: [] };
  const settings = frame.generates
    ? null
    : readEchoedSettings(frame.bytes, { depthMax, bytesMax: echoBytesMax });
  const inspection = { calls, metadata: readFrameMetadata(frame, depthMax), settings };
  return {
    result: { kind: "create", frame: { ...frame, inspection } },
    transfer: [frame.bytes.buffer as ArrayBuffer],
  };
});
