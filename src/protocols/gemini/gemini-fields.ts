/**
 * The members of Gemini's request bodies that the gateway uses, under both names that Google accepts for each. Unlike
 * servers of other interfaces, Google's decoder never folds case, so other spellings are left to it.
 */

import type { Part } from "../../base/parts.ts";
import { ApiError, paramError } from "../../errors.ts";
import {
  integerValue,
  isValidUtf8,
  type JsonField,
  type ObjectScan,
  scanObject,
  stringValue,
  wantedFields,
} from "../../json/scan.ts";
import { invalidJsonError } from "../shared/body-search.ts";
import { repeatedError } from "../shared/repeated-error.ts";

const FIELDS = [
  "model",
  "contents",
  "content",
  "requests",
  "systemInstruction",
  "system_instruction",
  "tools",
  "toolConfig",
  "tool_config",
  "generationConfig",
  "generation_config",
  "cachedContent",
  "cached_content",
  "generateContentRequest",
  "generate_content_request",
  "serviceTier",
  "service_tier",
  "store",
] as const;
type GeminiField = (typeof FIELDS)[number];
export type GeminiScan = ObjectScan<GeminiField>;

const WANTED = wantedFields(FIELDS);

const CONFIG_FIELDS = [
  "maxOutputTokens",
  "max_output_tokens",
  "candidateCount",
  "candidate_count",
  "thinkingConfig",
  "thinking_config",
] as const;
type ConfigField = (typeof CONFIG_FIELDS)[number];
export type ConfigScan = ObjectScan<ConfigField>;

const CONFIG = wantedFields(CONFIG_FIELDS);
const THINKING = wantedFields(["thinkingLevel", "thinking_level"]);
const THINKING_DEPTH_MAX = 8;

/** Throws the error of a body that is not a JSON object, or that repeats one of these members. */
export function scanGeminiBody({ bytes, start, end }: Part, depthMax: number): GeminiScan {
  if (!isValidUtf8(bytes, start)) {
    throw new ApiError("invalid_json", "The request body is not valid UTF-8. Send JSON encoded as UTF-8.");
  }
  const scan = scanObject(bytes, start, end, WANTED, { depthMax });
  if (scan.ok) return scan;
  if (scan.reason === "duplicate_field") throw repeatedError(scan.field ?? "");
  throw invalidJsonError(bytes, scan, start);
}

/** Scans `generationConfig`; null if the body has none. */
export function scanConfig(bytes: Uint8Array, scan: GeminiScan, depthMax: number): ConfigScan | null {
  const field = pick(scan.fields, "generationConfig", "generation_config");
  if (field === undefined || field.kind === "null") return null;
  if (field.kind !== "object") throw objectError("generationConfig");
  const config = scanObject(bytes, field.start, field.end, CONFIG, { depthMax });
  if (config.ok) return config;
  throw repeatedError(`generationConfig.${config.field ?? ""}`);
}

/** The member under either name. Both at once are rejected: upstreams differ in which one they use. */
export function pick<Name extends string>(
  fields: { readonly [name in Name]?: JsonField },
  camel: Name,
  snake: Name,
): JsonField | undefined {
  if (fields[camel] !== undefined && fields[snake] !== undefined) throw repeatedError(camel);
  return fields[camel] ?? fields[snake];
}

/** The limit of output tokens that the client sets; null if it sets none that is a count. */
export function readOutputLimit(bytes: Uint8Array, config: ConfigScan | null): number | null {
  const field = config && pick(config.fields, "maxOutputTokens", "max_output_tokens");
  const tokens = field ? integerValue(bytes, field) : null;
  return tokens !== null && tokens >= 1 ? tokens : null;
}

export function readCandidateCount(bytes: Uint8Array, config: ConfigScan | null): number {
  const field = config && pick(config.fields, "candidateCount", "candidate_count");
  if (!field || field.kind === "null") return 1;
  const count = integerValue(bytes, field);
  if (count === null || count < 1 || count > 8) {
    throw paramError(
      "generationConfig.candidateCount",
      "invalid_value",
      "`generationConfig.candidateCount` must be between 1 and 8.",
    );
  }
  return count;
}

/** `low`, `high`, as the other interfaces name the effort. */
export function readThinkingLevel(bytes: Uint8Array, config: ConfigScan | null): string | null {
  const field = config && pick(config.fields, "thinkingConfig", "thinking_config");
  if (field?.kind !== "object") return null;
  const thinking = scanObject(bytes, field.start, field.end, THINKING, { depthMax: THINKING_DEPTH_MAX });
  if (!thinking.ok) return null;
  const level = thinking.fields.thinkingLevel ?? thinking.fields.thinking_level;
  return level === undefined ? null : (stringValue(bytes, level)?.toLowerCase() ?? null);
}

function objectError(name: string): ApiError {
  return paramError(name, "invalid_type", `Invalid type for \`${name}\`: expected an object.`);
}
