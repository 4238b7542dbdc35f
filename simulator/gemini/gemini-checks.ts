/** Rejects requests that Google rejects, so that a wrong translation cannot pass a test. */

import type { Rejection } from "../errors.ts";
import { isRecord } from "../json-fields.ts";
import { invalidArgument } from "./google-rejection.ts";
import { isSignatureFor, signedCall } from "./signatures.ts";

type Json = Readonly<Record<string, unknown>>;

const BODY_FIELDS: ReadonlySet<string> = new Set([
  "model",
  "contents",
  "systemInstruction",
  "tools",
  "toolConfig",
  "safetySettings",
  "generationConfig",
  "cachedContent",
  "serviceTier",
  "store",
  "labels",
]);
/** The OpenAPI subset of `parameters`. A JSON schema belongs into `parametersJsonSchema`. */
const SCHEMA_FIELDS: ReadonlySet<string> = new Set(
  (
    "type format title description nullable enum maxItems minItems properties required minProperties maxProperties " +
    "minLength maxLength pattern example anyOf propertyOrdering default items minimum maximum"
  ).split(" "),
);
const TOOL_NAME = /^[A-Za-z_][A-Za-z0-9_.:-]{0,63}$/;

export function objects(value: unknown): Json[] {
  return Array.isArray(value) ? value.filter(isRecord) : [];
}

export interface SignatureRules {
  /** The model requires signatures, as Gemini 3 does. */
  readonly isStrict: boolean;
  readonly seed: number;
}

export function checkGeminiBody(body: Json, rules: SignatureRules): Rejection | null {
  const unknown = Object.keys(body).find((name) => !BODY_FIELDS.has(name));
  if (unknown !== undefined) return unknownName(unknown);
  const contents = mergeTurns(objects(body.contents));
  if (contents.length === 0)
    return invalidArgument("* GenerateContentRequest.contents: contents is not specified\n");
  return (
    checkTurns(contents) ??
    checkSignatures(contents, rules) ??
    checkTools(objects(body.tools)) ??
    checkConfig(isRecord(body.generationConfig) ? body.generationConfig : {})
  );
}

/** Contents of one role in a row are one turn: clients send the events of a stream back as they received them. */
function mergeTurns(contents: readonly Json[]): Json[] {
  const turns: Json[] = [];
  for (const content of contents) {
    const last = turns.at(-1);
    if (last === undefined || (last.role ?? "user") !== (content.role ?? "user")) turns.push(content);
    else turns[turns.length - 1] = { ...last, parts: [...objects(last.parts), ...objects(content.parts)] };
  }
  return turns;
}

function unknownName(name: string): Rejection {
  return invalidArgument(`Invalid JSON payload received. Unknown name "${name}": Cannot find field.`);
}

function checkTurns(contents: readonly Json[]): Rejection | null {
  let pendingCalls: readonly string[] = [];
  for (const [at, content] of contents.entries()) {
    const parts = objects(content.parts);
    const role = content.role ?? "user";
    if (role !== "user" && role !== "model") return invalidArgument("Please use a valid role: user, model.");
    if (parts.length === 0)
      return invalidArgument(
        `* GenerateContentRequest.contents[${at}].parts: contents.parts must not be empty.\n`,
      );
    const responses = parts.flatMap(({ functionResponse }) =>
      isRecord(functionResponse) ? [functionResponse] : [],
    );
    const calls = parts.flatMap(({ functionCall }) => (isRecord(functionCall) ? [functionCall] : []));
    if (responses.length !== pendingCalls.length)
      return invalidArgument(
        "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
      );
    if (responses.some(({ name, response }) => !pendingCalls.includes(String(name)) || !isRecord(response)))
      return invalidArgument(
        "Please ensure that function response turn comes immediately after a function call turn.",
      );
    if (calls.length > 0 && (role !== "model" || at === 0))
      return invalidArgument(
        "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
      );
    const empty = parts.find((part) =>
      Object.keys(part).every((key) => key === "thought" || key === "thoughtSignature"),
    );
    if (empty !== undefined)
      return invalidArgument(
        `* GenerateContentRequest.contents[${at}].parts[0].data: required oneof field 'data' must have one initialized field\n`,
      );
    pendingCalls = calls.map(({ name }) => String(name));
  }
  return pendingCalls.length === 0
    ? null
    : invalidArgument("Please ensure that single turn requests end with a user role or a function response.");
}

/** The current turn begins after the last message of the user. Only the first call of each of its steps is signed. */
function checkSignatures(contents: readonly Json[], { isStrict, seed }: SignatureRules): Rejection | null {
  const turnAt = contents.findLastIndex(
    ({ role, parts }) => role !== "model" && objects(parts).some(({ text }) => typeof text === "string"),
  );
  for (const [at, content] of contents.entries()) {
    if (content.role !== "model") continue;
    if (!isTextSigned(objects(content.parts), seed)) return invalidArgument("Corrupted thought signature.");
    const calls = objects(content.parts).filter(({ functionCall }) => isRecord(functionCall));
    for (const [index, part] of calls.entries()) {
      const call = isRecord(part.functionCall) ? part.functionCall : {};
      const { thoughtSignature } = part;
      if (thoughtSignature === undefined) {
        if (isStrict && index === 0 && at > turnAt)
          return invalidArgument(
            `Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call \`default_api:${String(call.name)}\` , position ${at + 1}.`,
          );
        continue;
      }
      if (!isSignatureFor(seed, thoughtSignature, signedCall(String(call.name), call.args)))
        return invalidArgument("Corrupted thought signature.");
    }
  }
  return null;
}

/** A text need not be signed. The signature of a stream is on its last part, and belongs to the text of all parts. */
function isTextSigned(parts: readonly Json[], seed: number): boolean {
  const texts = parts.filter(({ text, thought }) => typeof text === "string" && thought !== true);
  const whole = texts.map(({ text }) => text).join("");
  return texts.every(
    ({ thoughtSignature: signature }) => signature === undefined || isSignatureFor(seed, signature, whole),
  );
}

function checkTools(tools: readonly Json[]): Rejection | null {
  for (const { functionDeclarations } of tools) {
    for (const tool of objects(functionDeclarations)) {
      if (!TOOL_NAME.test(String(tool.name)))
        return invalidArgument(
          "Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.",
        );
      if (tool.parameters !== undefined && tool.parametersJsonSchema !== undefined)
        return invalidArgument("Only one of parameters and parameters_json_schema may be set.");
      const wrong = isRecord(tool.parameters) ? findUnknownSchemaField(tool.parameters) : null;
      if (wrong !== null) return unknownName(wrong);
    }
  }
  return null;
}

function findUnknownSchemaField(schema: Json): string | null {
  const own = Object.keys(schema).find((name) => !SCHEMA_FIELDS.has(name));
  if (own !== undefined) return own;
  const inner = [
    schema.items,
    ...objects(schema.anyOf),
    ...(isRecord(schema.properties) ? Object.values(schema.properties) : []),
  ];
  for (const one of inner) {
    const wrong = isRecord(one) ? findUnknownSchemaField(one) : null;
    if (wrong !== null) return wrong;
  }
  return null;
}

function checkConfig({
  thinkingConfig,
  stopSequences,
  responseJsonSchema,
  responseMimeType,
}: Json): Rejection | null {
  if (isRecord(thinkingConfig) && "thinkingLevel" in thinkingConfig && "thinkingBudget" in thinkingConfig)
    return invalidArgument("You can only set only one of thinking budget and thinking level.");
  if (Array.isArray(stopSequences) && stopSequences.length > 5)
    return invalidArgument("The number of stop sequences must be at most 5.");
  if (responseJsonSchema !== undefined && responseMimeType !== "application/json")
    return invalidArgument(
      "Function calling config or response schema requires response mime type: 'application/json'.",
    );
  return null;
}
