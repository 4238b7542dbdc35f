/** Requests for embeddings in the form between OpenAI's and Google's API: reads either, writes either. */

import { paramError } from "../../errors.ts";
import { member, unknownMembers } from "../gemini/gemini-members.ts";
import { DroppedFields } from "../hub/dropped-fields.ts";
import { type Json, readArray, readNumber, readObject, readString } from "../hub/json-values.ts";
import { unsupportedField } from "../hub/unsupported-field.ts";

interface EmbeddingsRequest {
  readonly texts: readonly string[];
  readonly dimensions: number | null;
  /** What the vectors are for, in Google's words: `RETRIEVAL_QUERY`. */
  readonly taskType: string | null;
  /** Google: the title of each document. */
  readonly hasTitle: boolean;
  /** The client's name of its user. */
  readonly user: string | null;
  /** Fields that neither API has in common. They are dropped and named. */
  readonly unread: readonly string[];
}

interface WrittenEmbeddings {
  readonly path: string;
  readonly body: Record<string, unknown>;
  /** By their names in the client's API. */
  readonly dropped: readonly string[];
}

const OPENAI_FIELDS: ReadonlySet<string> = new Set([
  "model",
  "input",
  "dimensions",
  "encoding_format",
  "user",
  "task_type",
]);

export function readOpenaiEmbeddings(json: Json): EmbeddingsRequest {
  return {
    texts: readTexts(json.input),
    dimensions: readDimensions(json.dimensions, "dimensions"),
    taskType: readString(json.task_type),
    hasTitle: false,
    user: readString(json.user),
    unread: Object.keys(json).filter((name) => json[name] !== null && !OPENAI_FIELDS.has(name)),
  };
}

function readTexts(input: unknown): string[] {
  const inputs = Array.isArray(input) ? input : [input];
  return inputs.map((text) => {
    if (typeof text === "string") return text;
    // A token has a meaning in the vocabulary of one vendor only.
    if (typeof text === "number" || Array.isArray(text))
      throw unsupportedField("input", "Send texts instead of tokens.");
    throw paramError("input", "invalid_type", "`input` must be a string or an array of strings.");
  });
}

function readDimensions(value: unknown, param: string): number | null {
  if (value === undefined || value === null) return null;
  const dimensions = readNumber(value);
  if (dimensions !== null && Number.isInteger(dimensions) && dimensions >= 1) return dimensions;
  throw paramError(param, "invalid_value", `\`${param}\` must be an integer of 1 or more.`);
}

const GEMINI_FIELDS: ReadonlySet<string> = new Set([
  "model",
  "content",
  "taskType",
  "title",
  "outputDimensionality",
]);

/** `embedContent` is one request, `batchEmbedContents` has a list of them. */
export function readGeminiEmbeddings(json: Json): EmbeddingsRequest {
  const isBatch = json.requests !== undefined;
  const requests = isBatch ? readArray(json.requests) : [json];
  const parts = requests.map((request, at) => readGeminiPart(request, isBatch ? `requests[${at}]` : ""));
  const [first] = parts;
  if (first === undefined)
    throw paramError("requests", "invalid_value", "`requests` must have at least one request.");
  for (const [at, { dimensions }] of parts.entries()) {
    if (dimensions === first.dimensions) continue;
    const field = `requests[${at}].outputDimensionality`;
    throw unsupportedField(field, "Send requests with different dimensions separately.");
  }
  const others = isBatch ? unknownMembers(json, new Set(["requests", "model"])) : [];
  return {
    texts: parts.map(({ text }) => text),
    dimensions: first.dimensions,
    taskType: parts.find(({ taskType }) => taskType !== null)?.taskType ?? null,
    hasTitle: parts.some(({ hasTitle }) => hasTitle),
    user: null,
    unread: [...new Set([...others, ...parts.flatMap(({ unread }) => unread)])],
  };
}

interface GeminiPart {
  readonly text: string;
  readonly dimensions: number | null;
  readonly taskType: string | null;
  readonly hasTitle: boolean;
  readonly unread: readonly string[];
}

function readGeminiPart(request: unknown, path: string): GeminiPart {
  const json = readObject(request);
  if (json === null) throw paramError(path, "invalid_type", `\`${path}\` must be an object.`);
  const at = (name: string) => (path === "" ? name : `${path}.${name}`);
  const content = readObject(json.content);
  const parts = readArray(content?.parts);
  if (parts.length === 0)
    throw paramError(
      at("content"),
      "missing_required_parameter",
      `Missing required parameter: \`${at("content")}\`.`,
    );
  const texts = parts.map((part, index) => {
    const text = readString(readObject(part)?.text);
    if (text === null) throw unsupportedField(at(`content.parts[${index}]`), "Send text only.");
    return text;
  });
  return {
    text: texts.join("\n"),
    dimensions: readDimensions(member(json, "outputDimensionality"), at("outputDimensionality")),
    taskType: readTaskType(member(json, "taskType")),
    hasTitle: readString(json.title) !== null,
    unread: unknownMembers(json, GEMINI_FIELDS),
  };
}

/** The unspecified type is the same as none. */
function readTaskType(value: unknown): string | null {
  const taskType = readString(value);
  return taskType === "TASK_TYPE_UNSPECIFIED" ? null : taskType;
}

/** OpenAI's API has vectors for one purpose, so the task type is dropped. */
export function writeOpenaiEmbeddings(request: EmbeddingsRequest, upstreamModel: string): WrittenEmbeddings {
  const { texts, dimensions, taskType, hasTitle, unread } = request;
  const dropped = new DroppedFields(unread);
  dropped.addIfSet("taskType", taskType);
  if (hasTitle) dropped.add("title");
  return {
    path: "/embeddings",
    body: {
      model: upstreamModel,
      input: texts,
      encoding_format: "float",
      ...(dimensions === null ? {} : { dimensions }),
    },
    dropped: dropped.list(),
  };
}

/** As many texts as OpenAI accepts in one request, and Google in one batch. */
const OPENAI_TEXTS_MAX = 2_048;
const GEMINI_BATCH_MAX = 100;

interface WrittenBatches extends Omit<WrittenEmbeddings, "body"> {
  /** One or more, each with the number of its texts. */
  readonly batches: readonly { readonly body: Record<string, unknown>; readonly count: number }[];
}

export function writeGeminiEmbeddings(request: EmbeddingsRequest, upstreamModel: string): WrittenBatches {
  const { texts, dimensions, taskType, user, unread } = request;
  if (texts.length === 0 || texts.length > OPENAI_TEXTS_MAX)
    throw paramError(
      "input",
      "invalid_value",
      `\`input\` must have between 1 and ${OPENAI_TEXTS_MAX} texts.`,
    );
  const dropped = new DroppedFields(unread);
  dropped.addIfSet("user", user);
  const requests = texts.map((text) => ({
    model: `models/${upstreamModel}`,
    content: { parts: [{ text }] },
    ...(taskType === null ? {} : { taskType }),
    ...(dimensions === null ? {} : { outputDimensionality: dimensions }),
  }));
  const batches = Array.from({ length: Math.ceil(requests.length / GEMINI_BATCH_MAX) }, (_, at) =>
    requests.slice(at * GEMINI_BATCH_MAX, (at + 1) * GEMINI_BATCH_MAX),
  );
  return {
    path: "/models/{model}:batchEmbedContents",
    batches: batches.map((batch) => ({ body: { requests: batch }, count: batch.length })),
    dropped: dropped.list(),
  };
}
