/** Reads a Gemini request into the form between dialects. */

import { paramError } from "../../errors.ts";
import type { ReadOptions } from "../hub/dialect-codec.ts";
import {
  EFFORTS,
  type Effort,
  type HubFormat,
  type HubReasoning,
  type HubRequest,
  type HubSettings,
  type HubTool,
  type HubToolChoice,
  type TextPart,
} from "../hub/hub-request.ts";
import { type Json, readNumber, readObject, readObjects, readString } from "../hub/json-values.ts";
import { unsupportedField } from "../hub/unsupported-field.ts";
import { readTierName } from "../shared/service-tier.ts";
import { ContentReader } from "./gemini-content-reader.ts";
import { member, objectMember, unknownMembers } from "./gemini-members.ts";
import { toJsonSchema } from "./gemini-schema.ts";

const READ_FIELDS: ReadonlySet<string> = new Set([
  "model",
  "contents",
  "systemInstruction",
  "tools",
  "toolConfig",
  "generationConfig",
  "serviceTier",
  "cachedContent",
]);
const READ_CONFIG_FIELDS: ReadonlySet<string> = new Set([
  "maxOutputTokens",
  "temperature",
  "topP",
  "topK",
  "stopSequences",
  "candidateCount",
  "seed",
  "presencePenalty",
  "frequencyPenalty",
  "responseLogprobs",
  "logprobs",
  "responseMimeType",
  "responseSchema",
  "responseJsonSchema",
  "thinkingConfig",
]);

/**
 * gemini-cli sends this budget with every request. It is about what reasoning models spend by default, and a model
 * without reasoning would reject any effort.
 */
const USUAL_BUDGET_TOKENS = 8_192;

export function readGeminiHubRequest(json: Json, { publicModel, stream }: ReadOptions): HubRequest {
  if (readString(member(json, "cachedContent")) !== null)
    throw unsupportedField("cachedContent", "Send the whole content, or choose a model of Google.");
  const contents = new ContentReader();
  contents.read(member(json, "contents"));
  const config = objectMember(json, "generationConfig") ?? {};
  return {
    dialect: "gemini",
    publicModel,
    stream,
    instructions: readInstructions(member(json, "systemInstruction")),
    items: contents.items,
    tools: readObjects(json.tools).flatMap(readTools),
    toolChoice: readToolChoice(objectMember(json, "toolConfig")),
    settings: readSettings(json, config),
    unread: [
      ...unknownMembers(json, READ_FIELDS),
      ...unknownMembers(config, READ_CONFIG_FIELDS)
        .filter((name) => !isTextOnly(name, config[name]))
        .map((name) => `generationConfig.${name}`),
      ...contents.unread,
    ],
    original: json,
  };
}

/** `responseModalities: ["TEXT"]` is the default. */
function isTextOnly(name: string, value: unknown): boolean {
  return /^response_?modalities$/i.test(name) && Array.isArray(value) && value.every((one) => one === "TEXT");
}

function readInstructions(instruction: unknown): TextPart[] {
  if (typeof instruction === "string") return [{ kind: "text", text: instruction, cacheHint: null }];
  const content = readObject(instruction);
  return readObjects(content?.parts).flatMap(({ text }) =>
    typeof text === "string" && text !== "" ? [{ kind: "text" as const, text, cacheHint: null }] : [],
  );
}

function readTools(tool: Json, at: number): HubTool[] {
  const functions = readObjects(member(tool, "functionDeclarations")).map(readFunction);
  const hosted = Object.entries(tool).flatMap(([name, value]): HubTool[] => {
    if (/^function_?declarations$/i.test(name) || value === null) return [];
    const type = /^google_?search(?:_?retrieval)?$/i.test(name) ? "web_search" : "other";
    const json = readObject(value) ?? {};
    return [{ kind: "hosted", dialect: "gemini", type, path: `tools[${at}].${name}`, json }];
  });
  return [...functions, ...hosted];
}

function readFunction(declaration: Json): HubTool {
  const jsonSchema = objectMember(declaration, "parametersJsonSchema");
  const parameters = readObject(declaration.parameters);
  return {
    kind: "function",
    name: readString(declaration.name) ?? "",
    namespace: null,
    description: readString(declaration.description),
    parameters: jsonSchema ?? (parameters === null ? null : toJsonSchema(parameters)),
    strict: null,
    cacheHint: null,
  };
}

function readToolChoice(toolConfig: Json | null): HubToolChoice | null {
  const config = toolConfig && objectMember(toolConfig, "functionCallingConfig");
  if (!config) return null;
  const allowed = member(config, "allowedFunctionNames");
  const names = Array.isArray(allowed) ? allowed.filter((name) => typeof name === "string") : [];
  const [only] = names;
  switch (config.mode) {
    case "NONE":
      return { kind: "none" };
    case "ANY":
      if (only === undefined) return { kind: "required" };
      return names.length === 1
        ? { kind: "tool", name: only, namespace: null }
        : { kind: "allowed", mode: "required", names };
    case "AUTO":
    case "VALIDATED":
      return names.length === 0 ? { kind: "auto" } : { kind: "allowed", mode: "auto", names };
    default:
      return null;
  }
}

function readSettings(json: Json, config: Json): HubSettings {
  const stop = member(config, "stopSequences");
  return {
    outputTokensMax: readNumber(member(config, "maxOutputTokens")),
    temperature: readNumber(config.temperature),
    topP: readNumber(member(config, "topP")),
    topK: readNumber(member(config, "topK")),
    stop: Array.isArray(stop) && stop.length > 0 ? stop.filter((text) => typeof text === "string") : null,
    seed: readNumber(config.seed),
    presencePenalty: readNumber(member(config, "presencePenalty")),
    frequencyPenalty: readNumber(member(config, "frequencyPenalty")),
    logprobs: member(config, "responseLogprobs") === true ? (readNumber(config.logprobs) ?? 0) : null,
    choices: requireOneCandidate(readNumber(member(config, "candidateCount")) ?? 1),
    parallelCalls: null,
    reasoning: readReasoning(objectMember(config, "thinkingConfig")),
    format: readFormat(config),
    verbosity: null,
    serviceTier: readServiceTier(member(json, "serviceTier")),
    promptCacheKey: null,
    promptCacheRetention: null,
    safetyIdentifier: null,
    user: null,
    metadata: null,
    wantsEncryptedReasoning: true,
    cacheHint: null,
  };
}

function requireOneCandidate(count: number): number {
  if (count === 1) return count;
  throw unsupportedField("generationConfig.candidateCount", "Send one request for each candidate.");
}

function readServiceTier(tier: unknown): string | null {
  const name = readTierName(tier);
  return name === "standard" ? "default" : name;
}

function readReasoning(config: Json | null): HubReasoning | null {
  if (config === null) return null;
  const isShown = member(config, "includeThoughts") === true;
  const budget = readNumber(member(config, "thinkingBudget"));
  const level = readLevel(member(config, "thinkingLevel"));
  if (level !== null) return { effort: level, budgetTokens: null, isShown };
  if (budget === 0) return { effort: "none", budgetTokens: null, isShown };
  // A negative budget leaves the effort to the model.
  const isSet = budget !== null && budget > 0 && budget !== USUAL_BUDGET_TOKENS;
  return isSet || isShown ? { effort: null, budgetTokens: isSet ? budget : null, isShown } : null;
}

function readLevel(level: unknown): Effort | null {
  const name = readString(level)?.toLowerCase();
  return EFFORTS.find((effort) => effort === name) ?? null;
}

function readFormat(config: Json): HubFormat | null {
  const type = readString(member(config, "responseMimeType"));
  if (type === null || type === "text/plain") return null;
  if (type !== "application/json")
    throw paramError(
      "generationConfig.responseMimeType",
      "unsupported_parameter",
      `\`generationConfig.responseMimeType\` ${type.slice(0, 64)} is not supported for this model. Use application/json or text/plain.`,
    );
  const older = objectMember(config, "responseSchema");
  const schema = objectMember(config, "responseJsonSchema") ?? (older === null ? null : toJsonSchema(older));
  return schema === null
    ? { kind: "json" }
    : { kind: "json_schema", name: "response", description: null, schema, strict: null };
}
