/**
 * Translates a whole response of an upstream for the client. It depends on its arguments alone, so that it runs in a
 * thread as well as here.
 */

import type { Part } from "../../base/parts.ts";
import { isObject } from "../../json/parse.ts";
import { parseBody } from "../../json/parse-body.ts";
import { writeFinishReason } from "../../protocols/chat/chat-hub-writer.ts";
import { lookUpCodec } from "../../protocols/codecs.ts";
import type { ClientTarget, ResponseReadOptions } from "../../protocols/hub/dialect-codec.ts";
import type { HubResponse } from "../../protocols/hub/hub-response.ts";
import { readString } from "../../protocols/hub/json-values.ts";
import { ResponseBoundError } from "../../protocols/hub/response-bounds.ts";
import type { ResponseFacts } from "../../protocols/shared/response-facts.ts";
import { readUpstreamError, type UpstreamError } from "../../protocols/shared/upstream-error.ts";
import type { TokenUsage } from "../../protocols/shared/usage.ts";
import type { Dialect } from "../../records/interfaces.ts";
import { writeTurnHead } from "../stored-responses/stored-turn.ts";
import { isTooDeep } from "./json-depth.ts";
import { isEmptyStop } from "./translated-reader.ts";

interface ResponseSource {
  readonly body: Part;
  readonly upstream: Dialect;
  readonly reading: ResponseReadOptions;
  readonly client: ClientTarget;
  readonly isStored: boolean;
}

export type ResponseTranslation =
  | {
      readonly kind: "response";
      readonly body: Uint8Array<ArrayBuffer>;
      readonly usage: TokenUsage | null;
      readonly status: string | null;
      /** The reason for its end explains that it has no output. */
      readonly isEmptyExpected: boolean;
      /** What is stored of it; null if nothing is. */
      readonly turnHead: Uint8Array<ArrayBuffer> | null;
      readonly facts: ResponseFacts;
    }
  | { readonly kind: "error"; readonly error: UpstreamError }
  | { readonly kind: "malformed" };

/** No model produces as much text in one response. */
const WHOLE_BYTES_MAX = 32 * 1024 * 1024;
const MALFORMED: ResponseTranslation = { kind: "malformed" };

export function translateResponse(source: ResponseSource): ResponseTranslation {
  const { body, upstream, reading, client, isStored } = source;
  if (body.end - body.start > WHOLE_BYTES_MAX || isTooDeep(body)) return MALFORMED;
  const json = parseBody(body);
  if (!isObject(json)) return MALFORMED;
  const error = json.error == null && json.type !== "error" ? null : readUpstreamError(json);
  if (error !== null) return { kind: "error", error };
  const response = readWithinBounds(() => lookUpCodec(upstream).readResponse(json, reading));
  if (response === null) return MALFORMED;
  if ("error" in response) return response;
  const written = lookUpCodec(client.request.dialect).writeResponse(response, client);
  const text = JSON.stringify(written);
  return {
    kind: "response",
    body: Buffer.from(text),
    usage: response.usage,
    isEmptyExpected: isEmptyStop(response.stop),
    status: typeof written.status === "string" ? written.status : null,
    turnHead: isStored ? writeTurnHead(text, response.items) : null,
    facts: {
      id: response.responseId,
      model: readString(json.model) ?? readString(json.modelVersion),
      finishReasons: [writeFinishReason(response.stop)],
    },
  };
}

/** A response that exceeds a bound is an error of its upstream. */
function readWithinBounds(
  read: () => HubResponse | null,
): HubResponse | Extract<ResponseTranslation, { kind: "error" }> | null {
  try {
    return read();
  } catch (error) {
    if (error instanceof ResponseBoundError) return { kind: "error", error: error.upstreamError };
    throw error;
  }
}
