/** The embeddings of the Gemini API. */

import type { Call } from "../endpoint.ts";
import type { Rejection } from "../errors.ts";
import { isRecord, parseJson } from "../json-fields.ts";
import { computeHash } from "../model/text.ts";
import { unitVector } from "../openai/embeddings.ts";
import { jsonReply, type Reply } from "../reply.ts";
import { objects } from "./gemini-checks.ts";
import { invalidArgument } from "./google-rejection.ts";

type Json = Readonly<Record<string, unknown>>;

/** As `gemini-embedding-001`. */
const DIMENSIONS = 3_072;
const BATCH_MAX = 100;

export function embedContent(call: Call): Reply {
  const request: Json = Object.fromEntries([...call.fields].map(([name, value]) => [name, parseJson(value)]));
  const embedded = embed(call, request);
  if ("kind" in embedded) return embedded;
  return jsonReply(JSON.stringify({ embedding: { values: embedded.values } }), usage(embedded.tokens));
}

export function batchEmbedContents(call: Call, model: string): Reply {
  const requests = objects(parseJson(call.fields.get("requests") ?? "null"));
  if (requests.length > BATCH_MAX)
    return invalidArgument(
      "* BatchEmbedContentsRequest.requests: at most 100 requests can be in one batch\n",
    );
  const embeddings: { values: number[] }[] = [];
  let tokens = 0;
  for (const request of requests) {
    if (request.model !== `models/${model}`)
      return invalidArgument("* BatchEmbedContentsRequest.requests[0].model: unexpected model name format\n");
    const embedded = embed(call, request);
    if ("kind" in embedded) return embedded;
    embeddings.push({ values: embedded.values });
    tokens += embedded.tokens;
  }
  return jsonReply(JSON.stringify({ embeddings }), usage(tokens));
}

function embed(
  call: Call,
  { content, outputDimensionality }: Json,
): { values: number[]; tokens: number } | Rejection {
  const texts = objects(isRecord(content) ? content.parts : null).flatMap(({ text }) =>
    typeof text === "string" && text !== "" ? [text] : [],
  );
  if (texts.length === 0) return invalidArgument("* EmbedContentRequest.content: content is empty\n");
  const dimensions = outputDimensionality ?? DIMENSIONS;
  if (typeof dimensions !== "number" || dimensions < 1 || dimensions > DIMENSIONS)
    return invalidArgument("* EmbedContentRequest.output_dimensionality: must be between 1 and 3072\n");
  // A shorter vector is the beginning of the whole one, and no longer has the length 1.
  const whole = unitVector(computeHash(call.seed, texts.join(" ")), DIMENSIONS);
  return { values: Array.from(whole.subarray(0, dimensions)), tokens: call.tokens.ofTexts(texts) };
}

function usage(input: number) {
  return { input, cached: 0, output: 0, reasoning: 0 };
}
