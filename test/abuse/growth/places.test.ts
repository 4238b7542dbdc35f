/**
 * Every place of a document that can repeat is in a sample, so that the growth tests try it. The places come from the
 * schemas of the public API and, because these describe a part of each dialect only, from the fields that the readers
 * in `src/protocols` read.
 */

import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { z } from "zod";
import { requestCounts, responseBounds } from "../../../src/count-limits.ts";
import { chatChunk, chatCompletion, chatRequest } from "../../../src/public-api/schemas/chat.ts";
import { geminiRequest, geminiResponse } from "../../../src/public-api/schemas/gemini.ts";
import { messageEvent, messageObject, messageRequest } from "../../../src/public-api/schemas/messages.ts";
import { responseEvent, responseObject, responseRequest } from "../../../src/public-api/schemas/responses.ts";
import { DIALECTS, type Dialect } from "./lab.ts";
import { listMissingPlaces, listReadFields, SampleContents } from "./places.ts";
import { SAMPLES } from "./samples.ts";

const SCHEMAS: Readonly<Record<Dialect, { request: z.ZodType; response: z.ZodType; event: z.ZodType }>> = {
  chat: { request: chatRequest, response: chatCompletion, event: chatChunk },
  responses: { request: responseRequest, response: responseObject, event: responseEvent },
  messages: { request: messageRequest, response: messageObject, event: messageEvent },
  gemini: { request: geminiRequest, response: geminiResponse, event: geminiResponse },
};

const listDocuments = (dialect: Dialect) => {
  const { requests, responses, streams } = SAMPLES[dialect];
  return {
    requests: requests.map(({ json }) => json),
    responses: responses.map(({ json }) => json),
    events: streams.flatMap(({ head, events, tail }) => [...head, ...events, ...tail]),
  };
};

describe.each(DIALECTS)("the samples of %s", (dialect) => {
  const { requests, responses, events } = listDocuments(dialect);

  test("have every repeated place of the described request", () => {
    expect(listMissingPlaces(SCHEMAS[dialect].request, requests)).toEqual([]);
  });

  test("have every repeated place of the described response", () => {
    expect(listMissingPlaces(SCHEMAS[dialect].response, responses)).toEqual([]);
  });

  test("have every repeated place of the described event", () => {
    expect(listMissingPlaces(SCHEMAS[dialect].event, events)).toEqual([]);
  });

  test("have every field and kind of element that the readers know", () => {
    const contents = new SampleContents([...requests, ...responses, ...events]);
    const missing = listReadFields(dialect).filter(
      (field) => !contents.has(field) && !NOT_IN_SAMPLES[dialect].has(field.name),
    );
    expect(missing.map(({ name, kind, file }) => `${kind} ${name} in ${file}`)).toEqual([]);
  });
});

/** Kinds of items and stops of the form between dialects, and settings: one value each, which does not repeat. */
const SINGLE_VALUES = [
  "text",
  "plain",
  "array",
  "failed",
  "foreign",
  "search",
  "reasoning",
  "message",
  "length",
  "context",
  "filtered",
  "paused",
  "tools",
];
const NOT_IN_SAMPLES: Readonly<Record<Dialect, ReadonlySet<string>>> = {
  // A reference to an item is rejected; a cancelled response has the form of an incomplete one.
  responses: new Set([...SINGLE_VALUES, "item_reference", "response.cancelled", "required", "none"]),
  chat: new Set([...SINGLE_VALUES, "eos", "function_call", "content_filter"]),
  messages: new Set([
    ...SINGLE_VALUES,
    ...["stop_sequence", "max_tokens", "model_context_window_exceeded", "refusal", "pause_turn"],
    ...["none", "any", "enabled", "disabled"],
  ]),
  // `cachedContent` is rejected. The last ones are names of a schema, which are members of the samples.
  gemini: new Set([
    ...SINGLE_VALUES,
    ...["cachedContent", "NONE", "ANY", "VALIDATED", "MAX_TOKENS", "CONTINUATION", "stop_sequence"],
    ...["type", "items", "anyOf", "properties", "minItems", "maxItems", "minLength", "maxLength"],
    ...["minProperties", "maxProperties"],
  ]),
};

test.each([
  ["request", requestCounts],
  ["response", responseBounds],
])("every bound on a count of a %s has a test that names it", (_, bounds) => {
  const root = join(import.meta.dir, "../../..");
  const tests = [...new Bun.Glob("{src,test}/**/*.test.ts").scanSync(root)]
    .map((file) => readFileSync(join(root, file), "utf8"))
    .join("\n");
  expect(Object.keys(bounds).filter((name) => !new RegExp(`\\b${name}\\b`).test(tests))).toEqual([]);
});
