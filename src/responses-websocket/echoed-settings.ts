/** The settings of a request as repeated in the response of a warm-up, which is not sent to an upstream. */

import { parseJson } from "../json/parse.ts";
import { type JsonField, scanObject, type ValueKind, wantedFields } from "../json/scan.ts";

const SETTINGS = [
  "instructions",
  "tools",
  "tool_choice",
  "truncation",
  "parallel_tool_calls",
  "text",
  "top_p",
  "presence_penalty",
  "frequency_penalty",
  "top_logprobs",
  "temperature",
  "reasoning",
  "max_output_tokens",
  "max_tool_calls",
  "store",
  "metadata",
  "safety_identifier",
  "prompt_cache_key",
] as const;
type Setting = (typeof SETTINGS)[number];

const BOOLEAN: readonly ValueKind[] = ["true", "false"];
/** A value of any other kind is not repeated, because strict clients validate the response. */
const KINDS: Readonly<Record<Setting, readonly ValueKind[]>> = {
  instructions: ["string"],
  tools: ["array"],
  tool_choice: ["string", "object"],
  truncation: ["string"],
  parallel_tool_calls: BOOLEAN,
  text: ["object"],
  top_p: ["number"],
  presence_penalty: ["number"],
  frequency_penalty: ["number"],
  top_logprobs: ["number"],
  temperature: ["number"],
  reasoning: ["object"],
  max_output_tokens: ["number"],
  max_tool_calls: ["number"],
  store: BOOLEAN,
  metadata: ["object"],
  safety_identifier: ["string"],
  prompt_cache_key: ["string"],
};

const WANTED = wantedFields(SETTINGS);

/** The JSON of each setting. Text, because a long frame is read in a thread, which returns no graph of objects. */
export type EchoedSettings = Readonly<Record<string, string>>;

/**
 * Reads the settings that a frame contains. It walks the whole frame. A setting that would exceed `bytesMax` in total is omitted: a warm-up
 * is free, so its response must not be larger than a reasonable request.
 */
export function readEchoedSettings(
  bytes: Uint8Array,
  limits: { readonly depthMax: number; readonly bytesMax: number },
): EchoedSettings {
  const scan = scanObject(bytes, 0, bytes.length, WANTED, { depthMax: limits.depthMax });
  const settings: Record<string, string> = {};
  let bytesLeft = limits.bytesMax;
  if (!scan.ok) return settings;
  for (const name of SETTINGS) {
    const field: JsonField | undefined = scan.fields[name];
    if (field === undefined || !KINDS[name].includes(field.kind)) continue;
    const size = field.end - field.start;
    if (size > bytesLeft) continue;
    bytesLeft -= size;
    settings[name] = JSON.stringify(completeSetting(name, parseJson(bytes, field.start, field.end)));
  }
  return settings;
}

/** The schema of a response requires some fields that a request may leave out. */
function completeSetting(name: Setting, value: unknown): unknown {
  switch (name) {
    case "tools":
      return Array.isArray(value) ? value.map(completeTool) : value;
    case "text":
      return { format: { type: "text" }, ...asObject(value) };
    case "reasoning":
      return { effort: null, summary: null, ...asObject(value) };
    default:
      return value;
  }
}

function completeTool(tool: unknown): unknown {
  const fields = asObject(tool);
  if (fields.type !== "function") return tool;
  return { description: null, parameters: null, strict: null, ...fields };
}

function asObject(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : {};
}
