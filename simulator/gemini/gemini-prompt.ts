/** A Gemini request as the fields of a chat completion, so that one plan of the response serves every interface. */

import { isRecord, type JsonFields } from "../json-fields.ts";
import { objects } from "./gemini-checks.ts";

type Json = Readonly<Record<string, unknown>>;

export function toChatFields(body: Json): JsonFields {
  const config = isRecord(body.generationConfig) ? body.generationConfig : {};
  const contents = objects(body.contents);
  const fields: Record<string, unknown> = {
    messages: [
      ...(isRecord(body.systemInstruction)
        ? [{ role: "system", content: joinTexts(objects(body.systemInstruction.parts)) }]
        : []),
      ...contents.flatMap(toMessages),
    ],
    tools: objects(body.tools).flatMap(({ functionDeclarations }) =>
      objects(functionDeclarations).map((tool) => ({
        type: "function",
        function: { name: tool.name, parameters: tool.parametersJsonSchema ?? lowerTypes(tool.parameters) },
      })),
    ),
    tool_choice: toToolChoice(body.toolConfig),
    // As they are, for a count that does not depend on the form.
    systemInstruction: body.systemInstruction,
    contents: body.contents,
    geminiTools: body.tools,
    max_tokens: config.maxOutputTokens,
    n: config.candidateCount,
    stop: Array.isArray(config.stopSequences) ? config.stopSequences.slice(0, 4) : undefined,
    response_format: toResponseFormat(config),
    // Implicit caching: a later turn finds the beginning of its conversation in the cache.
    prompt_cache_key:
      contents.length > 1
        ? String(Bun.hash(JSON.stringify([body.systemInstruction, contents[0]])))
        : undefined,
  };
  return new Map(
    Object.entries(fields).flatMap(([name, value]) =>
      value === undefined || value === null ? [] : [[name, JSON.stringify(value)] as const],
    ),
  );
}

function toMessages({ role, parts }: Json): object[] {
  const all = objects(parts);
  const outputs = all.flatMap(({ functionResponse }) =>
    isRecord(functionResponse) ? [functionResponse] : [],
  );
  const text = joinTexts(all.filter(({ thought }) => thought !== true));
  if (role === "model") return [{ role: "assistant", content: text }];
  return [
    ...outputs.map(({ response }) => ({ role: "tool", content: readOutput(response) })),
    ...(text === "" && outputs.length > 0 ? [] : [{ role: "user", content: text }]),
  ];
}

function readOutput(response: unknown): string {
  const output = isRecord(response)
    ? (response.output ?? response.error ?? response.result ?? response)
    : response;
  return typeof output === "string" ? output : JSON.stringify(output);
}

function joinTexts(parts: readonly Json[]): string {
  return parts.flatMap(({ text }) => (typeof text === "string" && text !== "" ? [text] : [])).join(" ");
}

/** The old form of schemas has types in capitals. */
function lowerTypes(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(lowerTypes);
  if (!isRecord(schema)) return schema;
  return Object.fromEntries(
    Object.entries(schema).map(([name, value]) => [
      name,
      name === "type" && typeof value === "string" ? value.toLowerCase() : lowerTypes(value),
    ]),
  );
}

function toToolChoice(toolConfig: unknown): unknown {
  const config = isRecord(toolConfig) ? toolConfig.functionCallingConfig : null;
  if (!isRecord(config)) return undefined;
  const names = Array.isArray(config.allowedFunctionNames) ? config.allowedFunctionNames : [];
  if (config.mode === "NONE") return "none";
  const mode = config.mode === "ANY" ? "required" : "auto";
  if (names.length === 0) return mode;
  const tools = names.map((name) => ({ type: "function", function: { name } }));
  return { type: "allowed_tools", allowed_tools: { mode, tools } };
}

function toResponseFormat(config: Json): unknown {
  if (config.responseMimeType !== "application/json") return undefined;
  const schema = config.responseJsonSchema ?? lowerTypes(config.responseSchema);
  return schema === undefined
    ? { type: "json_object" }
    : { type: "json_schema", json_schema: { name: "response", schema } };
}
