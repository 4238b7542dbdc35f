/** Reads the events of an image stream: partial images, then one `….completed` for each requested image. */

import type { Part } from "../../base/parts.ts";
import { type ApiError, errorObject } from "../../errors.ts";
import { type JsonField, type ObjectScan, scanObject, stringValue, wantedFields } from "../../json/scan.ts";
import { editMembers, jsonString, spliceParts } from "../../json/splice.ts";
import { isDone, isPlain, readEvent } from "../../net/wire/sse.ts";
import { eventParts, formatEvent } from "../../net/wire/sse-format.ts";
import { parseUsageMember } from "../shared/event-bounds.ts";
import { readImageKind } from "../shared/image-kind.ts";
import {
  DROPPED,
  type EventVerdict,
  isEventName,
  PASS_CONTENT,
  type StreamOutcome,
  type StreamReader,
} from "../shared/stream.ts";
import { readFailure } from "../shared/upstream-error.ts";
import { readUsage, type TokenUsage } from "../shared/usage.ts";

const EVENT_FIELDS = ["type", "model", "size", "quality", "usage", "error", "headers"] as const;
const EVENT = wantedFields(EVENT_FIELDS);
type EventScan = ObjectScan<(typeof EVENT_FIELDS)[number]>;

interface ImagesReaderOptions {
  publicModel: string;
  choices: number;
  depthMax: number;
}

interface ImageEvent {
  readonly type: string;
  readonly data: Part;
  /** The event with its blank line, if it has no lines besides its name and its data. */
  readonly block: Part | null;
  readonly scan: EventScan;
}

export function openImagesReader(options: ImagesReaderOptions): StreamReader {
  return new ImagesReader(options);
}

class ImagesReader implements StreamReader {
  readonly endMarker = null;
  imageKind: string | null = null;
  outcome: StreamOutcome = "failed";
  badEvents = 0;

  readonly #publicModelJson: Uint8Array;
  readonly #choices: number;
  readonly #depthMax: number;
  #usage: TokenUsage | null = null;
  #finishedImages = 0;
  /** A partial image was received, so an image may be in progress until the response ends. */
  #hasPartialImages = false;
  #lastEventFinishedImage = false;

  constructor(options: ImagesReaderOptions) {
    this.#publicModelJson = jsonString(options.publicModel);
    this.#choices = options.choices;
    this.#depthMax = options.depthMax;
  }

  read(bytes: Uint8Array, start: number, end: number): EventVerdict {
    const event = readEvent(bytes, start, end);
    const { data } = event;
    if (data === null || isDone(data)) return DROPPED;
    const scan = scanObject(data.bytes, data.start, data.end, EVENT, { depthMax: this.#depthMax });
    const type = scan.ok && scan.fields.type ? stringValue(data.bytes, scan.fields.type) : null;
    if (scan.ok && (type === "error" || (scan.fields.error && scan.fields.error.kind !== "null"))) {
      return this.#readError(data, scan);
    }
    if (!scan.ok || type === null || !isEventName(type)) {
      this.badEvents++;
      return DROPPED;
    }
    if (!isImageEvent(type)) return DROPPED;
    this.#takeImageKind(data, scan);
    const block = isPlain(event, bytes, start, end) ? { bytes, start, end: end + 2 } : null;
    const replacement = this.#buildPublicEvent({ type, data, block, scan });
    this.#lastEventFinishedImage = type.endsWith(".completed");
    if (this.#lastEventFinishedImage) return this.#readFinishedImage(data, scan, replacement);
    this.#hasPartialImages = true;
    return replacement === null ? PASS_CONTENT : { phase: "content", replacement };
  }

  #readError(data: Part, scan: EventScan): EventVerdict {
    this.#hasPartialImages = false;
    this.#takeUsage(data, scan);
    return { phase: "failed", error: readFailure(data) };
  }

  #readFinishedImage(data: Part, scan: EventScan, replacement: Part[] | null): EventVerdict {
    this.#finishedImages++;
    this.#takeUsage(data, scan);
    if (this.#finishedImages < this.#choices) return { phase: "content", replacement };
    this.outcome = "completed";
    return { phase: "terminal", replacement };
  }

  #takeImageKind(data: Part, { fields }: EventScan): void {
    const kind = readImageKind(readString(data, fields.size), readString(data, fields.quality));
    this.imageKind = kind ?? this.imageKind;
  }

  #takeUsage({ bytes }: Part, { fields: { usage } }: EventScan): void {
    if (usage?.kind !== "object") return;
    this.#usage = readUsage(parseUsageMember(bytes, usage)) ?? this.#usage;
  }

  /** Replaces the model name and removes `headers`; null if nothing changes. Image data is not copied. */
  #buildPublicEvent({ type, data, block, scan }: ImageEvent): Part[] | null {
    const modelEdit = scan.fields.model?.kind === "string" ? { model: this.#publicModelJson } : {};
    const splices = editMembers(data.bytes, scan, { headers: null, ...modelEdit });
    if (block !== null && splices.length === 0) return null;
    const { bytes, start, end } = block ?? data;
    const parts = spliceParts(bytes, splices, start, end);
    return block === null ? eventParts(type, parts) : parts;
  }

  /** Some upstreams generate fewer images than requested and then close. A stream that breaks off is not complete. */
  isCompleteWithoutTerminal(how: "closed" | "broke off"): boolean {
    const isComplete = how === "closed" && this.#lastEventFinishedImage;
    if (isComplete) this.outcome = "completed";
    return isComplete;
  }

  isEnding(): boolean {
    return this.#lastEventFinishedImage;
  }

  failure(error: ApiError, requestId: string): Uint8Array {
    return formatEvent("error", JSON.stringify({ type: "error", error: errorObject(error, requestId) }));
  }

  progressEvent(): null {
    return null;
  }

  /** Usage reported with one image is not final while the next one is in progress. */
  get usage(): TokenUsage | null {
    const isEarly = this.#isImageInProgress();
    return this.#usage !== null && isEarly ? { ...this.#usage, isEarly } : this.#usage;
  }

  /** An aborted image was generated all the same. The last of several may be in progress too. */
  get images(): number {
    return this.#isImageInProgress() ? this.#finishedImages + 1 : this.#finishedImages;
  }

  #isImageInProgress(): boolean {
    return this.#hasPartialImages && this.outcome !== "completed";
  }
}

/** Other events are private between the upstream and the gateway, as in Responses streams. */
function isImageEvent(type: string): boolean {
  return type.startsWith("image_");
}

function readString({ bytes }: Part, field: JsonField | undefined): string | null {
  return field === undefined ? null : stringValue(bytes, field);
}
