/** A long response that passes is read in a thread with the same result as in the event loop. */

import { afterAll, expect, test } from "bun:test";
import { isPending } from "../../base/maybe-promise.ts";
import { joinParts, wholeBytesPart } from "../../base/parts.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { EMBEDDINGS } from "../../protocols/embeddings/embeddings-endpoints.ts";
import { IMAGE_GENERATIONS } from "../../protocols/images/images-endpoints.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import { readWholeResponse, type WholeResponseResult } from "../../protocols/whole-response.ts";
import { openTemporaryKeyring } from "../../secrets/keyring.ts";
import { TranslationThreads } from "../translation/translation-threads.ts";
import { readPassedResponse } from "./passed-response.ts";

const threads = new TranslationThreads({
  limits: limits.translationThreads,
  keyring: openTemporaryKeyring(),
  monotonicMs: () => performance.now(),
});
afterAll(() => threads.close());

const { jsonDepthMax } = limits;
const AUDIENCE = { publicModel: "public", upstreamModel: "upstream", account: null, mentions: () => false };

function read(json: string, endpoint: Endpoint) {
  const terms = { endpoint, audience: AUDIENCE, owner: "account" };
  return readPassedResponse({ jsonDepthMax, threads }, wholeBytesPart(Buffer.from(json)), terms);
}

function readHere(json: string, endpoint: Endpoint): WholeResponseResult {
  return readWholeResponse(wholeBytesPart(Buffer.from(json)), endpoint, AUDIENCE, jsonDepthMax);
}

function describe(result: WholeResponseResult) {
  if (result.kind !== "response") return result;
  const { body, describe: _describe, ...rest } = result;
  return { ...rest, text: Buffer.from(joinParts(body)).toString("latin1") };
}

const VECTOR = `[${"0.123456789,".repeat(500_000)}1]`;
const USAGE = '"usage":{"prompt_tokens":7,"total_tokens":7}';

test("vectors of several MiB are read in a thread, with their usage and the public model", async () => {
  const json = `{"object":"list","model":"upstream","data":[{"index":0,"embedding":${VECTOR}}],${USAGE}}`;
  const result = read(json, EMBEDDINGS);
  expect(isPending(result)).toBe(true);
  const response = describe(await result);
  expect(response).toEqual(describe(readHere(json, EMBEDDINGS)));
  expect(response).toMatchObject({ usage: { inputTokens: 7 } });
});

test("errors, and what is no response, are found in the thread as well", async () => {
  for (const json of [`{"error":{"message":"no","code":"bad"},"data":${VECTOR}}`, `{"data":${VECTOR}`])
    expect(await read(json, EMBEDDINGS)).toEqual(readHere(json, EMBEDDINGS));
});

test("an image of several MiB needs no thread", () => {
  const json = `{"created":1,"data":[{"b64_json":"${"A".repeat(6_000_000)}"}]}`;
  const result = read(json, IMAGE_GENERATIONS);
  expect(isPending(result)).toBe(false);
  expect(result).toMatchObject({ kind: "response", images: 1 });
});
