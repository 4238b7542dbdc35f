/** Reads the events of an image stream: partial images, then one `….completed` for each requested image. */

import { type ApiError, errorObject } from "../../errors.ts";
import { parseJson } from "../../json/parse.ts";
import { type JsonField, type ObjectScan, scanObject, stringValue, wantedFields } from "../../json/scan.ts";
import { editMembers, jsonString, spliceParts } from "../../json/splice.ts";
import type { Part } from "../../net/wire/parts.ts";
import { isDone, isPlain, readEvent } from "../../net/wire/sse.ts";
import { eventParts, formatEvent } from "../../net/wire/sse-write.ts";
import { readImageKind } from "../shared/image-kind.ts";
import {
  DROPPED,
  type EventVerdict,
  isEventName,
  PASS_CONTENT,
  type StreamOutcome,
  type StreamReader,
} from "../shared/stream.ts";
import { readUpstreamError } from "../shared/upstream-error.ts";
import { readUsage, type TokenUsage } from "../shared/usage.ts";

const EVENT_FIELDS = ["type", "model", "size", "quality", "usage", "error", "headers"] as const;
const EVENT = wantedFields(EVENT_FIELDS);
type EventScan = ObjectScan<(typeof EVENT_FIELDS)[number]>;

export interface ImagesReaderOptions {
  publicModel: string;
  choices: number;
  depthMax: number;
}

export function openImagesReader(options: ImagesReaderOptions): StreamReader {
  const publicModel = jsonString(options.publicModel);
  let usage: TokenUsage | null = null;
  let images = 0;
  let imageKind: string | null = null;
  /** Another image has begun. */
  let isBegun = false;
  /** The last event was a finished image. */
  let lastFinished = false;
  let outcome: StreamOutcome = "failed";
  let badEvents = 0;

  function read(bytes: Uint8Array, start: number, end: number): EventVerdict {
    const event = readEvent(bytes, start, end);
    const { data } = event;
    if (data === null || isDone(data)) return DROPPED;
    const scan = scanObject(data.bytes, data.start, data.end, EVENT, { depthMax: options.depthMax });
    const type = scan.ok && scan.fields.type ? stringValue(data.bytes, scan.fields.type) : null;
    if (scan.ok && (type === "error" || (scan.fields.error && scan.fields.error.kind !== "null"))) {
      isBegun = false;
      takeUsage(data, scan.fields.usage);
      const upstreamError = readUpstreamError(parseJson(data.bytes, data.start, data.end));
      return {
        phase: "failed",
        error: upstreamError ?? { code: null, type: null, param: null, message: "" },
      };
    }
    if (!scan.ok || type === null || !isEventName(type)) {
      badEvents++;
      return DROPPED;
    }
    if (!isImageEvent(type)) return DROPPED;
    const { size, quality, usage: counted } = scan.fields;
    imageKind = readImageKind(textIn(data, size), textIn(data, quality)) ?? imageKind;
    const block = isPlain(event, bytes, start, end) ? { bytes, start, end: end + 2 } : null;
    const replacement = buildPublicEvent(type, data, block, scan);
    lastFinished = type.endsWith(".completed");
    if (!lastFinished) {
      isBegun = true;
      return replacement === null ? PASS_CONTENT : { phase: "content", replacement };
    }
    images++;
    takeUsage(data, counted);
    if (images < options.choices) return { phase: "content", replacement };
    outcome = "completed";
    return { phase: "terminal", replacement };
  }

  function takeUsage({ bytes }: Part, counted: JsonField | undefined): void {
    if (counted?.kind === "object") usage = readUsage(parseJson(bytes, counted.start, counted.end)) ?? usage;
  }

  function isImageInProgress(): boolean {
    return isBegun && outcome !== "completed";
  }

  /**
   * Replaces the model name and removes `headers`. Returns null for a plain block that can be forwarded unchanged.
   * Image data is not copied.
   */
  function buildPublicEvent(type: string, data: Part, block: Part | null, scan: EventScan): Part[] | null {
    const named = scan.fields.model?.kind === "string" ? { model: publicModel } : {};
    const splices = editMembers(data.bytes, scan, { headers: null, ...named });
    if (block !== null && splices.length === 0) return null;
    const { bytes, start, end } = block ?? data;
    const parts = spliceParts(bytes, splices, start, end);
    return block === null ? eventParts(type, parts) : parts;
  }

  return {
    read,
    // Some upstreams generate fewer images than requested and then close. A stream that breaks off is not complete.
    saidEverything(how) {
      const all = how === "closed" && lastFinished;
      if (all) outcome = "completed";
      return all;
    },
    isEnding: () => lastFinished,
    done: null,
    failure: (error: ApiError, requestId: string) =>
      formatEvent("error", JSON.stringify({ type: "error", error: errorObject(error, requestId) })),
    stillWorking: () => null,
    // Usage reported with one image is not final while the next one is in progress.
    get usage() {
      return usage !== null && isImageInProgress() ? { ...usage, isEarly: true } : usage;
    },
    // An image that the client or the upstream aborted was generated all the same. The last of several may be in
    // progress too.
    get images() {
      return isImageInProgress() ? images + 1 : images;
    },
    get imageKind() {
      return imageKind;
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

/** Other events are private between the upstream and the gateway, as in Responses streams. */
function isImageEvent(type: string): boolean {
  return type.startsWith("image_");
}

function textIn({ bytes }: Part, field: JsonField | undefined): string | null {
  return field === undefined ? null : stringValue(bytes, field);
}
