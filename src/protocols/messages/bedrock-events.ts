/** Turns the frames of an Amazon Bedrock stream into the server-sent events of Messages. */

import { NO_BYTES } from "../../base/bytes.ts";
import { type Part, wholeBytesPart } from "../../base/parts.ts";
import { responseBounds } from "../../count-limits.ts";
import { isObject } from "../../json/parse.ts";
import { type EventFrame, type EventFrameFault, FrameSplitter } from "../../net/wire/event-frames.ts";
import { parseWithin } from "../shared/event-bounds.ts";

export const EVENT_FRAMES_TYPE = "application/vnd.amazon.eventstream";

interface DecodedEvents {
  /** Whole server-sent events; null if there are none yet. */
  readonly events: Part | null;
  readonly fault: EventFrameFault | null;
}

/**
 * A frame is parsed, decoded and parsed again in one turn, so that 15 MiB would hold the event loop for 150 ms. Its events
 * have no images: the longest are the results of a search.
 */
const FRAME_BYTES_MAX = 4 * 1024 * 1024;
/** The message of a longer exception is not read. */
const EXCEPTION_BYTES_MAX = 64 * 1024;

/** One decoder for each response. */
export class BedrockEventDecoder {
  readonly #frames: FrameSplitter;

  constructor(options: { eventBytesMax: number }) {
    this.#frames = new FrameSplitter({
      frameBytesMax: Math.min(options.eventBytesMax, FRAME_BYTES_MAX),
      headersMax: responseBounds.frameHeadersMax,
    });
  }

  /** Events before a fault are returned with it. */
  decode(piece: Part): DecodedEvents {
    const events: Uint8Array[] = [];
    let isMalformed = false;
    const fault = this.#frames.push(piece, (frame) => {
      const event = isMalformed ? null : toServerEvent(frame);
      if (event === null) isMalformed = true;
      else events.push(event);
    });
    return {
      events: events.length === 0 ? null : wholeBytesPart(Buffer.concat(events)),
      fault: isMalformed ? "corrupt" : fault,
    };
  }
}

/** Returns null if the frame is not one of this API. */
function toServerEvent({ headers, payload }: EventFrame): Uint8Array | null {
  switch (headers.get(":message-type")) {
    case "event": {
      // Events of later versions of the API are not part of the response.
      if (headers.get(":event-type") !== "chunk") return NO_BYTES;
      const json = parseWithin(payload);
      return isObject(json) && typeof json.bytes === "string" ? readChunk(json.bytes) : null;
    }
    case "exception": {
      const json = payload.end - payload.start > EXCEPTION_BYTES_MAX ? null : parseWithin(payload);
      return errorEvent(headers.get(":exception-type"), isObject(json) ? json.message : null);
    }
    case "error":
      return errorEvent(headers.get(":error-code"), headers.get(":error-message"));
    default:
      return null;
  }
}

/** The payload of a chunk is the JSON of one event of Messages. */
function readChunk(base64: string): Uint8Array | null {
  const bytes = Buffer.from(base64, "base64");
  const text = bytes.toString();
  const event = parseWithin(wholeBytesPart(bytes));
  if (!isObject(event) || typeof event.type !== "string" || !EVENT_NAME.test(event.type)) return null;
  return formatEvent(event.type, LINE_BREAK.test(text) ? JSON.stringify(event) : text);
}

const EVENT_NAME = /^\w{1,64}$/;
const LINE_BREAK = /[\r\n]/;

/** `throttlingException` inside a stream is the `ThrottlingException` of a response. */
function errorEvent(name: string | undefined, message: unknown): Uint8Array {
  const type = name === undefined ? "" : name.slice(0, 1).toUpperCase() + name.slice(1);
  const error = { type, message: typeof message === "string" ? message : "" };
  return formatEvent("error", JSON.stringify({ type: "error", error }));
}

function formatEvent(name: string, data: string): Uint8Array {
  return Buffer.from(`event: ${name}\ndata: ${data}\n\n`);
}
