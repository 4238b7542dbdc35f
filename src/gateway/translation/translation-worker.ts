/** Worker that translates long requests and responses. See `translation-threads.ts`. */

import { uuidV7 } from "../../base/clock.ts";
import { joinParts, wholeBytesPart } from "../../base/parts.ts";
import { lookUpEndpoint } from "../../protocols/endpoints.ts";
import { DroppedFields } from "../../protocols/hub/dropped-fields.ts";
import { readWholeResponse } from "../../protocols/whole-response.ts";
import { type JobResult, serveJobs } from "../../threads/serve-jobs.ts";
import { listInputItems } from "../stored-responses/input-items.ts";
import { StateSeals } from "./state-seals.ts";
import { readBatch, translateEmbeddings, translateVectors } from "./translate-embeddings.ts";
import { translateRequest } from "./translate-request.ts";
import { type ResponseTranslation, translateResponse } from "./translate-response.ts";
import {
  type BatchJob,
  type EmbeddingsJob,
  type InputItemsJob,
  JobKeyring,
  KnownToolNames,
  type PassedJob,
  parseRepeated,
  type RequestJob,
  type ResponseJob,
  type TranslationJob,
  type TranslationResult,
} from "./translation-jobs.ts";

serveJobs<TranslationJob, TranslationResult>((job) => {
  switch (job.kind) {
    case "request":
      return runRequest(job);
    case "response":
      return runResponse(job);
    case "embeddings":
      return runEmbeddings(job);
    case "input_items":
      return runInputItems(job);
    case "vectors":
      return returnResponse(translateVectors(wholeBytesPart(job.body), job.terms), []);
    case "batch":
      return runBatch(job);
    case "passed":
      return runPassed(job);
  }
});

function runRequest({ body, turns, terms, seals }: RequestJob): JobResult<TranslationResult> {
  const keyring = new JobKeyring(seals.keys);
  const { toolNames, repeated, ...translation } = translateRequest({
    body: wholeBytesPart(body),
    turns,
    terms,
    sealer: new StateSeals(keyring).open(seals.target),
  });
  const sent = ownBuffer(translation.body);
  const input = translation.input === null ? null : ownBuffer(translation.input);
  return {
    result: {
      ...translation,
      kind: "request",
      body: sent,
      input,
      toolNames: toolNames.listChanged(),
      repeated: JSON.stringify(repeated),
      missingKids: keyring.missingKids,
    },
    transfer: input === null ? [sent.buffer] : [sent.buffer, input.buffer],
  };
}

function runResponse(job: ResponseJob): JobResult<TranslationResult> {
  const { repeated, ...client } = job.client;
  const dropped = new DroppedFields();
  const translation = translateResponse({
    body: wholeBytesPart(job.body),
    upstream: job.upstream,
    reading: {
      toolNames: new KnownToolNames(job.toolNames),
      sealer: new StateSeals(new JobKeyring(job.seals.keys)).open(job.seals.target),
      dropped,
    },
    client: { ...client, request: parseRepeated(repeated), newId: createId, dropped },
    isStored: job.isStored,
  });
  return returnResponse(translation, dropped.list());
}

function returnResponse(
  translation: ResponseTranslation,
  dropped: readonly string[],
): JobResult<TranslationResult> {
  if (translation.kind !== "response")
    return { result: { kind: "response", translation, dropped }, transfer: [] };
  const body = ownBuffer(translation.body);
  const turnHead = translation.turnHead === null ? null : ownBuffer(translation.turnHead);
  return {
    result: { kind: "response", translation: { ...translation, body, turnHead }, dropped },
    transfer: turnHead === null ? [body.buffer] : [body.buffer, turnHead.buffer],
  };
}

function runEmbeddings({ body, terms }: EmbeddingsJob): JobResult<TranslationResult> {
  const translation = translateEmbeddings(wholeBytesPart(body), terms);
  const batches = translation.batches.map((batch) => ({ ...batch, body: ownBuffer(batch.body) }));
  return {
    result: { kind: "embeddings", translation: { ...translation, batches } },
    transfer: batches.map((batch) => batch.body.buffer),
  };
}

function runBatch({ body, terms }: BatchJob): JobResult<TranslationResult> {
  const reading = readBatch(wholeBytesPart(body), terms);
  if (reading.kind !== "batch") return { result: { kind: "batch", reading }, transfer: [] };
  const entries = ownBuffer(reading.entries);
  return { result: { kind: "batch", reading: { ...reading, entries } }, transfer: [entries.buffer] };
}

function runInputItems({ body, terms }: InputItemsJob): JobResult<TranslationResult> {
  const list = ownBuffer(listInputItems(wholeBytesPart(body), terms));
  return { result: { kind: "input_items", body: list }, transfer: [list.buffer] };
}

function runPassed({ body, terms }: PassedJob): JobResult<TranslationResult> {
  // The request is not here, so each word of an error may be the upstream's own.
  const audience = { ...terms.audience, mentions: () => false };
  const endpoint = lookUpEndpoint(terms.endpoint);
  const read = readWholeResponse(wholeBytesPart(body), endpoint, audience, terms.depthMax);
  if (read.kind !== "response") return { result: { kind: "passed", response: read }, transfer: [] };
  const { describe: _describe, ...response } = read;
  const joined = new Uint8Array(joinParts(response.body));
  return {
    result: { kind: "passed", response: { ...response, body: joined } },
    transfer: [joined.buffer],
  };
}

/** As in the composition root. */
function createId(prefix: string): string {
  return prefix + uuidV7("id").slice("id_".length);
}

/** A short array may be a part of a buffer that is shared, and a shared buffer must not move. */
function ownBuffer(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  return bytes.buffer.byteLength === bytes.length ? bytes : new Uint8Array(bytes);
}
