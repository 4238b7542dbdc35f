/** Events in the frames of Amazon Bedrock. */

import type { EventFraming } from "../framing.ts";
import { isRecord, parseJson } from "../json-fields.ts";
import type { Usage } from "../model/model-output.ts";
import type { Frame } from "../reply.ts";
import { encodeEventFrame } from "./encode-event-frame.ts";

const IDLE = encodeEventFrame({ ":message-type": "event", ":event-type": "initial-response" }, "{}");

export const BEDROCK_FRAMES: EventFraming = {
  contentType: "application/vnd.amazon.eventstream",
  write: (one) => (one.event === "error" ? writeException(one) : writeChunk(one.data)),
  flush: IDLE,
  ping: IDLE,
};

/** The payload is padded with letters, so that its length does not show that of the text. */
function writeChunk(data: string): Buffer {
  const payload = { bytes: Buffer.from(data).toString("base64"), p: "abcdefghij".slice(0, data.length % 10) };
  const headers = { ":event-type": "chunk", ":content-type": "application/json", ":message-type": "event" };
  return encodeEventFrame(headers, JSON.stringify(payload));
}

function writeException({ data }: Frame): Buffer {
  const json = parseJson(data);
  const error = isRecord(json) && isRecord(json.error) ? json.error : {};
  const isOverloaded = error.type === "overloaded_error";
  const type = isOverloaded ? "serviceUnavailableException" : "internalServerException";
  return encodeEventFrame(
    { ":exception-type": type, ":content-type": "application/json", ":message-type": "exception" },
    JSON.stringify({ message: String(error.message ?? "") }),
  );
}

/** The last event has the counts of the vendor in addition to those of the message. */
export function* withInvocationMetrics(frames: Iterable<Frame>, { input, output }: Usage): Generator<Frame> {
  for (const one of frames) {
    if (one.event !== "message_stop") yield one;
    else {
      const metrics = { inputTokenCount: input, outputTokenCount: output, invocationLatency: 7 };
      const data = JSON.stringify({ type: "message_stop", "amazon-bedrock-invocationMetrics": metrics });
      yield { ...one, data };
    }
  }
}
