/** Events of a streamed image: partial pictures, then one `….completed` for each picture asked for. */

import { type ApiError, errorObject } from "../errors.ts";
import { parseJson } from "../wire/json-parse.ts";
import { scanObject, stringValue, wantedFields } from "../wire/json-scan.ts";
import { isPlain, readEvent } from "../wire/sse.ts";
import { eventParts, formatEvent } from "../wire/sse-write.ts";
import {
  DROPPED,
  isEventName,
  PASS_CONTENT,
  type StreamOutcome,
  type StreamReader,
  type Verdict,
} from "./stream.ts";
import { readUpstreamError } from "./upstream-error.ts";
import { readUsage, type TokenUsage } from "./usage.ts";

const EVENT = wantedFields(["type", "usage", "error"]);

export function openImagesReader(options: { choices: number; depthMax: number }): StreamReader {
  let usage: TokenUsage | null = null;
  let images = 0;
  /** One more has been begun. */
  let isBegun = false;
  let outcome: StreamOutcome = "failed";
  let badEvents = 0;

  function read(bytes: Uint8Array, start: number, end: number): Verdict {
    const event = readEvent(bytes, start, end);
    const { data } = event;
    if (data === null) return DROPPED;
    const json = data.bytes.subarray(data.start, data.end);
    if (json.length === 6 && decode(json) === "[DONE]") return DROPPED;
    const scan = scanObject(json, 0, json.length, EVENT, { depthMax: options.depthMax });
    const type = scan.ok && scan.fields.type ? stringValue(json, scan.fields.type) : null;
    if (scan.ok && (type === "error" || (scan.fields.error && scan.fields.error.kind !== "null"))) {
      isBegun = false;
      const found = readUpstreamError(parseJson(json));
      return { phase: "failed", error: found ?? { code: null, type: null, param: null, message: "" } };
    }
    if (!scan.ok || type === null || !isEventName(type)) {
      badEvents++;
      return DROPPED;
    }
    const replacement = isPlain(event, bytes, start, end) ? null : eventParts(type, [data]);
    if (!type.endsWith(".completed")) {
      isBegun = true;
      return replacement === null ? PASS_CONTENT : { phase: "content", replacement };
    }
    images++;
    const counted = scan.fields.usage;
    if (counted?.kind === "object") usage = readUsage(parseJson(json, counted.start, counted.end)) ?? usage;
    if (images < options.choices) return { phase: "content", replacement };
    outcome = "completed";
    return { phase: "terminal", replacement };
  }

  return {
    read,
    saidEverything() {
      if (images > 0) outcome = "completed";
      return images > 0;
    },
    isEnding: () => images > 0,
    done: null,
    failure: (error: ApiError, requestId: string) =>
      formatEvent("error", JSON.stringify({ type: "error", error: errorObject(error, requestId) })),
    stillWorking: () => null,
    get usage() {
      return usage;
    },
    // One that its client or its upstream broke off was drawn all the same. The last of several may be under way too.
    get images() {
      return isBegun && outcome !== "completed" ? images + 1 : images;
    },
    responseId: null,
    get outcome() {
      return outcome;
    },
    get badEvents() {
      return badEvents;
    },
  };
}

const decoder = new TextDecoder();

function decode(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}
