/** Reads the body of a model request: checked, bounded, and parsed no further than the gateway needs. */

import { ApiError } from "../../errors.ts";
import type { IncomingHttpRequest } from "../../net/wire/http-message.ts";
import { putInTurns } from "../../net/wire/next-turn.ts";
import { partBytes, wholeBytesPart } from "../../net/wire/parts.ts";
import { readBoundary } from "../../protocols/images/multipart.ts";
import { openInspectedRequest, readJsonRequest } from "../../protocols/shared/json-request.ts";
import type { Endpoint, ModelRequest } from "../../protocols/shared/request.ts";
import { readBody } from "./body.ts";
import type { BodyOwner, BodyReservation } from "./body-budget.ts";
import type { BodyBudgets } from "./body-budgets.ts";
import { bodyError } from "./body-error.ts";
import { BodyInspector } from "./body-inspector.ts";
import type { BodyResult } from "./large-body.ts";
import { type MultipartRequestLimits, readMultipartRequest } from "./multipart-request.ts";

export interface RequestLimits extends MultipartRequestLimits {
  jsonBodyBytesMax: number;
  jsonDepthMax: number;
  /** Longer JSON bodies are inspected in a thread. */
  inspectInThreadAboveBytes: number;
}

export interface RequestReader {
  /** Reads the body of an HTTP request, as JSON or as a form. */
  read(
    request: IncomingHttpRequest,
    endpoint: Endpoint,
    owner: BodyOwner,
  ): Promise<ModelRequest> | ModelRequest;
  /**
   * Reads a complete JSON body, with its reservation if it is counted. The reader owns the bytes and may transfer a
   * long body to a thread.
   */
  readJson(
    bytes: Uint8Array,
    endpoint: Endpoint,
    held: BodyReservation | null,
  ): Promise<ModelRequest> | ModelRequest;
  close(): void;
}

export function openRequestReader(limits: RequestLimits, rooms: BodyBudgets): RequestReader {
  const json = { depthMax: limits.jsonDepthMax, modelNameCharsMax: limits.modelNameCharsMax };
  const inspector = new BodyInspector(json);
  const body = {
    ...limits.bodyReading,
    bytesMax: limits.jsonBodyBytesMax,
    idleTimeoutMs: limits.bodyIdleTimeoutMs,
    alarms: limits.alarms,
    smallRoom: rooms.small,
  };

  function parseResult(read: BodyResult, endpoint: Endpoint): Promise<ModelRequest> | ModelRequest {
    if (!("ok" in read)) {
      if (read.end - read.start > limits.inspectInThreadAboveBytes) {
        return readJson(partBytes(read), endpoint, null);
      }
      return readJsonRequest(read, endpoint, json);
    }
    if (!read.ok) throw bodyError(read);
    return readJson(read.bytes, endpoint, read.held);
  }

  async function parsePendingResult(reading: Promise<BodyResult>, endpoint: Endpoint): Promise<ModelRequest> {
    return parseResult(await reading, endpoint);
  }

  function readJson(
    bytes: Uint8Array,
    endpoint: Endpoint,
    held: BodyReservation | null,
  ): Promise<ModelRequest> | ModelRequest {
    if (bytes.length > limits.inspectInThreadAboveBytes) return readInThread(bytes, endpoint, held);
    try {
      return readJsonRequest(wholeBytesPart(bytes), endpoint, json, held?.release);
    } catch (error) {
      held?.release();
      throw error;
    }
  }

  async function readInThread(
    source: Uint8Array,
    endpoint: Endpoint,
    held: BodyReservation | null,
  ): Promise<ModelRequest> {
    try {
      const { bytes, inspection } = await inspector.inspect(await ownBytes(source), endpoint);
      return openInspectedRequest(wholeBytesPart(bytes), inspection, endpoint, json, held?.release ?? null);
    } catch (error) {
      held?.release();
      throw error;
    }
  }

  return {
    read(request, endpoint, owner) {
      const contentType = request.headers.get("content-type") ?? "";
      if (isJson(contentType)) {
        const reading = readBody(request, body, rooms.large, owner);
        return reading instanceof Promise
          ? parsePendingResult(reading, endpoint)
          : parseResult(reading, endpoint);
      }
      const takesForms = endpoint.name === "images.edits";
      const boundary = takesForms ? readBoundary(contentType) : null;
      if (boundary !== null)
        return readMultipartRequest(request, { boundary, contentType, limits, rooms, owner });
      throw new ApiError(
        "unsupported_media_type",
        `Send the body as ${takesForms ? "application/json or multipart/form-data" : "application/json"} and say so in Content-Type.`,
      );
    },
    readJson,
    close: () => inspector.close(),
  };
}

/**
 * Returns an array that covers its whole buffer. A small body may share its buffer with the head, which is still read.
 */
async function ownBytes(bytes: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  const { buffer } = bytes;
  if (buffer instanceof ArrayBuffer && buffer.byteLength === bytes.length) return new Uint8Array(buffer);
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  await putInTurns(copy, 0, bytes);
  return copy;
}

/** Compares the exact type without its parameters: a prefix would accept `application/jsonx`. */
function isJson(contentType: string): boolean {
  if (contentType === "application/json") return true;
  const [type = ""] = contentType.split(";", 1);
  return type.trim().toLowerCase() === "application/json";
}
