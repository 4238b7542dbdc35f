/** The Images interface of the simulator. */

import type { Call } from "../endpoint.ts";
import { invalid, missing, notJson, type Rejection } from "../errors.ts";
import { echoed, intField, isTrue, type JsonFields, parseJson, stringField } from "../json-fields.ts";
import type { Usage } from "../model/model-output.ts";
import { computeHash } from "../model/text.ts";
import { eventsReply, type Frame, frame, jsonReply, type Reply, reportUsage, usageJson } from "../reply.ts";
import { gradientPng, type Picture, type PictureSize } from "./png.ts";

export type ImageWork = "image_generation" | "image_edit";

const IMAGES_MAX = 10;
const PARTIALS_MAX = 3;
const OUTPUT_TOKENS_PER_IMAGE = 272;
const INPUT_TOKENS_PER_IMAGE = 64;
const CACHED_MAX = 64;
const AUTO_SIZE: PictureSize = { width: 1024, height: 1024 };
/** The pixels of a 4K screen. */
const PIXELS_MAX = 3840 * 2160;
const SIDE_MAX = 4096;

const encodedImages = new Map<string, string>();

export function images(call: Call, work: ImageWork, uploads: number): Reply {
  const { fields } = call;
  const prompt = stringField(fields, "prompt");
  if (prompt === null) return missing("prompt");
  const sources = uploads > 0 ? uploads : jsonSources(fields.get("images"));
  if (sources === null) return notJson();
  if (work === "image_edit" && sources === 0) return missing("image");
  const count = fields.has("n") ? intField(fields, "n") : 1;
  if (count === null || count < 1 || count > IMAGES_MAX) {
    return invalid("n", `Invalid value for 'n': expected 1 to ${IMAGES_MAX}.`);
  }
  const size = readSize(fields);
  if ("kind" in size) return size;
  const urlRejection = rejectUrl(fields);
  if (urlRejection !== null) return urlRejection;

  const textTokens = call.tokens.ofTexts([prompt]);
  const imageTokens = sources * INPUT_TOKENS_PER_IMAGE;
  const usage: Usage = {
    input: textTokens + imageTokens,
    cached: 0,
    output: count * OUTPUT_TOKENS_PER_IMAGE,
    reasoning: 0,
  };
  const reportedUsage = reportUsage(usage, call.fault);
  const usageText = reportedUsage === null ? "" : `,"usage":${imageUsage(reportedUsage, imageTokens)}`;
  const format = formatFields(call, size);
  const picture = (index: number): string =>
    base64Png({ ...size, hash: computeHash(call.seed + index, prompt), bytes: call.behaviour.bytes });

  if (isTrue(fields, "stream")) {
    const partials = Math.min(intField(fields, "partial_images") ?? 0, PARTIALS_MAX);
    return eventsReply(imageEvents(call, work, count, partials, picture, format, usageText), usage, count);
  }
  const data = Array.from({ length: count }, (_, index) => `{"b64_json":"${picture(index)}"}`);
  const body = `{"created":${call.createdAt},"data":[${data.join(",")}],${format}${usageText}}`;
  return jsonReply(body, usage, count);
}

/** The image has exactly this size; `auto` leaves the choice to the simulator. */
function readSize(fields: JsonFields): PictureSize | Rejection {
  if (echoed(fields, "size", "") === "") return AUTO_SIZE;
  const text = stringField(fields, "size");
  if (text === "auto") return AUTO_SIZE;
  const match = /^(\d{1,5})x(\d{1,5})$/.exec(text ?? "");
  const [width, height] = [Number(match?.[1] ?? 0), Number(match?.[2] ?? 0)];
  const isPossible = width >= 1 && height >= 1 && width <= SIDE_MAX && height <= SIDE_MAX;
  if (isPossible && width * height <= PIXELS_MAX) return { width, height };
  return invalid(
    "size",
    `Invalid 'size': expected 'auto', or a width and a height such as 1024x1024, sides up to ${SIDE_MAX} and ${PIXELS_MAX} pixels in all.`,
  );
}

/** The simulator does not serve the images, so a URL could not be resolved. */
function rejectUrl(fields: JsonFields): Rejection | null {
  if (echoed(fields, "response_format", "") === "") return null;
  const format = stringField(fields, "response_format");
  if (format === "b64_json") return null;
  if (format !== "url")
    return invalid("response_format", "Invalid 'response_format': leave it out, images come as base64.");
  return invalid(
    "response_format",
    "'response_format' cannot be 'url': the simulator stores no images. Leave it out: images come as base64.",
  );
}

function jsonSources(slice: string | undefined): number | null {
  if (slice === undefined) return 0;
  const value = parseJson(slice);
  return value === undefined ? null : Array.isArray(value) ? value.length : 0;
}

function formatFields(call: Call, { width, height }: PictureSize): string {
  const quality = stringField(call.fields, "quality") ?? "auto";
  const background = stringField(call.fields, "background") ?? "auto";
  return `"background":"${background === "auto" ? "opaque" : background}","output_format":"png","quality":"${quality === "auto" ? "low" : quality}","size":"${width}x${height}"`;
}

function imageUsage(usage: Usage, imageTokens: number): string {
  const images = Math.min(imageTokens, Math.max(usage.input, 0));
  return usageJson(
    `{"input_tokens":${usage.input},"input_tokens_details":{"text_tokens":${usage.input - images},"image_tokens":${images}},"output_tokens":${usage.output},"output_tokens_details":{"text_tokens":0,"image_tokens":${usage.output}},"total_tokens":${usage.input + usage.output}}`,
  );
}

function* imageEvents(
  call: Call,
  work: ImageWork,
  count: number,
  partials: number,
  picture: (index: number) => string,
  format: string,
  usageText: string,
): Generator<Frame> {
  const metadata = `"created_at":${call.createdAt},${format}`;
  for (let index = 0; index < count; index++) {
    for (let partial = 0; partial < partials; partial++) {
      const type = `${work}.partial_image`;
      yield frame(
        type,
        `{"type":"${type}","partial_image_index":${partial},"b64_json":"${picture(index)}",${metadata}}`,
      );
    }
    const type = `${work}.completed`;
    const last = index === count - 1 ? usageText : "";
    yield {
      event: type,
      data: `{"type":"${type}","b64_json":"${picture(index)}",${metadata}${last}}`,
      outputText: "",
      lane: 0,
      outputBytes: OUTPUT_TOKENS_PER_IMAGE * 4,
      isTextDelta: false,
    };
  }
}

function base64Png(picture: Picture): string {
  const { hash, bytes, width, height } = picture;
  const key = `${hash}/${bytes}/${width}x${height}`;
  const cached = encodedImages.get(key);
  if (cached !== undefined) return cached;
  const text = gradientPng(picture).toString("base64");
  if (encodedImages.size >= CACHED_MAX) encodedImages.clear();
  if (text.length < 1_000_000) encodedImages.set(key, text);
  return text;
}
