/** Events of a streamed image: partial pictures, then one `….completed` for each picture asked for. */

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
  isEventName,
  PASS_CONTENT,
  type StreamOutcome,
  type StreamReader,
  type Verdict,
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
  /** One more has been begun. */
  let isBegun = false;
  /** What came last was a finished one. */
  let lastFinished = false;
  let outcome: StreamOutcome = "failed";
  let badEvents = 0;

  function read(bytes: Uint8Array, start: number, end: number): Verdict {
    const event = readEvent(bytes, start, end);
    const { data } = event;
    if (data === null || isDone(data)) return DROPPED;
    const scan = scanObject(data.bytes, data.start, data.end, EVENT, { depthMax: options.depthMax });
    const type = scan.ok && scan.fields.type ? stringValue(data.bytes, scan.fields.type) : null;
    if (scan.ok && (type === "error" || (scan.fields.error && scan.fields.error.kind !== "null"))) {
      isBegun = false;
      takeUsage(data, scan.fields.usage);
      const found = readUpstreamError(parseJson(data.bytes, data.start, data.end));
      return { phase: "failed", error: found ?? { code: null, type: null, param: null, message: "" } };
    }
    if (!scan.ok || type === null || !isEventName(type)) {
      badEvents++;
      return DROPPED;
    }
    if (!isPictureEvent(type)) return DROPPED;
    const { size, quality, usage: counted } = scan.fields;
    imageKind = readImageKind(textIn(data, size), textIn(data, quality)) ?? imageKind;
    const block = isPlain(event, bytes, start, end) ? { bytes, start, end: end + 2 } : null;
    const replacement = published(type, data, block, scan);
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

  function isUnderWay(): boolean {
    return isBegun && outcome !== "completed";
  }

  /**
   * With the public model in it and without what would be headers; null for a plain block that can go on as it is. No
   * picture is copied.
   */
  function published(type: string, data: Part, block: Part | null, scan: EventScan): Part[] | null {
    const named = scan.fields.model?.kind === "string" ? { model: publicModel } : {};
    const splices = editMembers(data.bytes, scan, { headers: null, ...named });
    if (block !== null && splices.length === 0) return null;
    const { bytes, start, end } = block ?? data;
    const parts = spliceParts(bytes, splices, start, end);
    return block === null ? eventParts(type, parts) : parts;
  }

  return {
    read,
    // Some draw fewer than they were asked for, and then close. They do not begin one for that, or break off.
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
    // What was told with one picture is not all, while the next is under way.
    get usage() {
      return usage !== null && isUnderWay() ? { ...usage, isEarly: true } : usage;
    },
    // One that its client or its upstream broke off was drawn all the same. The last of several may be under way too.
    get images() {
      return isUnderWay() ? images + 1 : images;
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

/** What else an upstream says there is between it and us, as on the streams of Responses. */
function isPictureEvent(type: string): boolean {
  return type.startsWith("image_");
}

function textIn({ bytes }: Part, field: JsonField | undefined): string | null {
  return field === undefined ? null : stringValue(bytes, field);
}
