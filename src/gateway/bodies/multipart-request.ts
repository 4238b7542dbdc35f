/** An image edit as a multipart form: spooled, and forwarded unchanged except for the model name. */

import type { Deadlines } from "../../base/deadlines.ts";
import { ApiError, paramError } from "../../errors.ts";
import type { IncomingHttpRequest } from "../../net/wire/http-message.ts";
import {
  type FormFault,
  type MultipartForm,
  MultipartFormScanner,
  type PartWatcher,
} from "../../protocols/images/multipart-form.ts";
import { readImageKind } from "../../protocols/shared/image-kind.ts";
import type { ModelRequest, RequestBody } from "../../protocols/shared/request.ts";
import type { BodyOwner } from "./body-budget.ts";
import { bodyError } from "./body-error.ts";
import type { BodyReading } from "./body-reader.ts";
import { bodyWithSplice, type SpoolBudgets, type SpooledBody, spoolBody } from "./spool.ts";

export interface MultipartRequestLimits {
  imageBodyBytesMax: number;
  imageFileBytesMax: number;
  imageFilesMax: number;
  spoolAboveBytes: number;
  bodyIdleTimeoutMs: number;
  modelNameCharsMax: number;
  spoolDir: string;
  deadlines: Deadlines;
  bodyReading: BodyReading;
}

const FORM = {
  partsMax: 64,
  headerBytesMax: 8 * 1024,
  fieldBytesMax: 256 * 1024,
  wanted: ["model", "prompt", "stream", "n", "size", "quality"],
} as const;

/** Images are not counted by their bytes. This is the usual total of input and output tokens of an edit. */
const FORM_TOKENS_USUAL = 2_000;

interface FormSource {
  readonly boundary: string;
  readonly contentType: string;
  readonly limits: MultipartRequestLimits;
  readonly budgets: SpoolBudgets;
  readonly owner: BodyOwner;
}

export async function readMultipartRequest(
  request: IncomingHttpRequest,
  { boundary, contentType, limits, budgets, owner }: FormSource,
): Promise<ModelRequest> {
  // A repeat is recognized by its content, and the image bytes pass only once, so the digest is computed here.
  const digest = request.headers.has("idempotency-key") ? openFormDigest() : null;
  const scanner = new MultipartFormScanner(boundary, {
    ...FORM,
    ...(digest === null ? {} : { watch: digest.watch }),
    filesMax: limits.imageFilesMax,
    fileBytesMax: limits.imageFileBytesMax,
  });
  const spooled = await spoolBody(request, {
    ...limits.bodyReading,
    bytesMax: limits.imageBodyBytesMax,
    memoryBytesMax: limits.spoolAboveBytes,
    dir: limits.spoolDir,
    idleTimeoutMs: limits.bodyIdleTimeoutMs,
    deadlines: limits.deadlines,
    budgets,
    owner,
    onChunk: (chunk) => scanner.push(chunk),
  });
  const scanned = spooled.ok || spooled.reason === "stopped" ? scanner.end() : null;
  try {
    if (scanned !== null && !scanned.ok) throw formError(scanned.fault);
    if (!spooled.ok) throw bodyError(spooled);
    if (scanned === null) throw new Error("a spooled form was not scanned");
    return buildRequest(scanned.form, spooled, contentType, limits.modelNameCharsMax, digest?.end() ?? null);
  } catch (error) {
    if (spooled.ok) await spooled.dispose();
    throw error;
  }
}

function buildRequest(
  form: MultipartForm,
  spooled: SpooledBody,
  contentType: string,
  modelNameCharsMax: number,
  formDigest: string | null,
): ModelRequest {
  const model = form.fields.get("model");
  if (!model || model.value === "") throw missing("model", "an id from GET /v1/models");
  if (model.value.length > modelNameCharsMax) {
    throw paramError(
      "model",
      "invalid_value",
      `\`model\` must be 1 to ${modelNameCharsMax} characters long.`,
    );
  }
  const prompt = form.fields.get("prompt")?.value;
  if (prompt === undefined) throw missing("prompt", "a description of the edit");
  if (!form.files.some(({ name }) => name === "image" || name.startsWith("image["))) {
    throw missing("image", "at least one image file");
  }
  return {
    publicModel: model.value,
    stream: readStream(form.fields.get("stream")?.value),
    hidesUsage: false,
    wantsBase64: false,
    choices: readCount(form.fields.get("n")?.value),
    previousResponseId: null,
    readsStored: false,
    storesResponse: false,
    background: false,
    tokensEstimate: () => FORM_TOKENS_USUAL,
    inputSize: () => ({ textBytes: Buffer.byteLength(prompt), media: form.files.length }),
    inputContents: () => ({
      textBytes: Buffer.byteLength(prompt),
      pictures: form.files.length,
      remotePictures: 0,
      files: 0,
      remoteFiles: 0,
      referencesItems: false,
      hostsTools: false,
      searchesWeb: false,
      namesCollections: false,
      hasSchema: false,
    }),
    searchOffer: () => null,
    outputTokensMax: null,
    reasoningEffort: () => null,
    requestedTier: () => null,
    checkBounds() {},
    lowerOutputLimit() {},
    scannedBody: () => null,
    imageKind: readImageKind(
      form.fields.get("size")?.value ?? null,
      form.fields.get("quality")?.value ?? null,
    ),
    inputText: { kind: "texts", texts: [prompt], formDigest },
    conversationName: () => null,
    body: formBody(form, model, spooled, contentType),
  };
}

/** Hashes field by field, because clients choose a new boundary each time they send the same form. */
function openFormDigest(): { watch(name: string): PartWatcher; end(): string } {
  const form = new Bun.CryptoHasher("sha256");
  return {
    watch(name) {
      const content = new Bun.CryptoHasher("sha256");
      return {
        add: (bytes) => void content.update(bytes),
        // The name has a length prefix and the digest a fixed length, so different forms cannot hash the same input.
        end: () => void form.update(`${name.length}:${name}${content.digest("hex")}`),
      };
    },
    end: () => form.digest("base64url"),
  };
}

function formBody(
  form: MultipartForm,
  model: { start: number; end: number },
  spooled: SpooledBody,
  contentType: string,
): RequestBody {
  const body: RequestBody = {
    contentType,
    forUpstream(upstreamModel) {
      const insert = new TextEncoder().encode(upstreamModel);
      return bodyWithSplice(spooled, [{ start: model.start, end: model.end, insert }]);
    },
    forUpstreamAfter: () => null,
    withoutEncryptedReasoning: () => null,
    // An image is limited by its size, not by tokens.
    withOutputCap: () => body,
    withSearchLimit: () => body,
    mentions: (word) => [...form.fields.values()].some(({ value }) => value.includes(word)),
    isPlain: () => false,
    findJsonError: async () => null,
    dispose: spooled.dispose,
  };
  return body;
}

function readStream(value: string | undefined): boolean {
  if (value === undefined || value === "" || value === "false") return false;
  if (value === "true") return true;
  throw paramError("stream", "invalid_value", "`stream` must be true or false.");
}

function readCount(value: string | undefined): number {
  if (value === undefined || value === "") return 1;
  const count = Number(value);
  if (Number.isInteger(count) && count >= 1 && count <= 128) return count;
  throw paramError("n", "invalid_value", "`n` must be between 1 and 128.");
}

function missing(name: string, description: string): ApiError {
  return paramError(
    name,
    "missing_required_parameter",
    `Missing required parameter: \`${name}\` (${description}).`,
  );
}

function formError(fault: FormFault): ApiError {
  const detail = { param: fault.param };
  switch (fault.reason) {
    case "file_too_large":
    case "field_too_large":
    case "too_many_files":
    case "too_many_parts":
    case "headers_too_large":
      return new ApiError("request_too_large", fault.message, detail);
    case "repeated_field":
      return new ApiError("duplicate_parameter", fault.message, detail);
    case "case_variant":
      return new ApiError("unknown_parameter", fault.message, detail);
    case "malformed":
    case "truncated":
    case "not_text":
      return new ApiError("invalid_request", fault.message, detail);
  }
}
