/** Reads the input items of a Responses request. */

import { ApiError } from "../../errors.ts";
import { withCitations } from "../hub/citations.ts";
import type {
  BuiltInTool,
  CallItem,
  CallOutputItem,
  HubItem,
  HubPart,
  HubTool,
  OpaqueState,
  TextPart,
} from "../hub/hub-request.ts";
import { type Json, readArray, readObject, readObjects, readString } from "../hub/json-values.ts";
import { readCacheHint, readMediaUrl } from "../hub/media.ts";
import { readOpaqueText } from "../hub/sealed-state.ts";
import { unsupportedField } from "../hub/unsupported-field.ts";
import { readAnnotations } from "../openai/openai-annotations.ts";
import { joinTexts } from "./responses-output.ts";
import { readResponsesTools } from "./responses-tools.ts";

/** Calls of built-in tools that the client runs, with the member that contains their arguments. */
const BUILT_IN_CALLS: ReadonlyMap<unknown, { tool: BuiltInTool; member: string }> = new Map([
  ["local_shell_call", { tool: "local_shell", member: "action" }],
  ["shell_call", { tool: "shell", member: "action" }],
  ["apply_patch_call", { tool: "apply_patch", member: "operation" }],
  ["tool_search_call", { tool: "tool_search", member: "arguments" }],
]);

const OUTPUT_TYPES: ReadonlySet<unknown> = new Set([
  "function_call_output",
  "custom_tool_call_output",
  "local_shell_call_output",
  "shell_call_output",
  "apply_patch_call_output",
  "tool_search_output",
]);

export class ResponsesItemReader {
  readonly instructions: TextPart[] = [];
  readonly items: HubItem[] = [];
  /** Tools that items of the conversation add. */
  readonly tools: HubTool[] = [];
  readonly unread: string[] = [];

  read(input: unknown): void {
    if (typeof input === "string") {
      this.items.push({ kind: "message", role: "user", parts: [textPart(input)] });
      return;
    }
    readArray(input).forEach((item, at) => {
      const json = readObject(item);
      if (json === null)
        throw new ApiError("invalid_type", `\`input[${at}]\` must be an object.`, { param: `input[${at}]` });
      this.#readItem(json, `input[${at}]`);
    });
  }

  #readItem(json: Json, path: string): void {
    const { type } = json;
    if (type === undefined || type === "message") this.#readMessage(json, path);
    else if (isServerSearch(json)) this.#readServerSearch(json, path);
    else if (type === "function_call" || type === "custom_tool_call") this.items.push(readCall(json));
    else if (BUILT_IN_CALLS.has(type)) this.items.push(readBuiltInCall(json));
    else if (OUTPUT_TYPES.has(type)) this.#readOutput(json, path);
    else if (type === "reasoning") this.#readReasoning(json);
    else if (type === "additional_tools") this.tools.push(...readResponsesTools(json.tools, `${path}.tools`));
    else this.#readForeign(json, path);
  }

  /** OpenAI has run the search itself: there is no call to respond to, but the tools that it found are offered from then on. */
  #readServerSearch(json: Json, path: string): void {
    this.tools.push(...readResponsesTools(json.tools, `${path}.tools`));
    this.items.push({
      kind: "foreign",
      dialect: "responses",
      path: `${path}.${readString(json.type)}`,
      json,
    });
  }

  #readMessage(json: Json, path: string): void {
    const parts = this.#readParts(json.content, `${path}.content`);
    switch (json.role) {
      case "user":
      case "assistant":
        this.items.push({ kind: "message", role: json.role, parts });
        return;
      case "system":
      case "developer":
        if (this.items.length > 0) this.items.push({ kind: "message", role: "system", parts });
        else for (const part of parts) if (part.kind === "text") this.instructions.push(part);
        return;
      default:
        throw new ApiError(
          "invalid_value",
          `\`${path}.role\` must be user, assistant, system or developer.`,
          {
            param: `${path}.role`,
          },
        );
    }
  }

  #readOutput(json: Json, path: string): void {
    const { type } = json;
    // The tools that a search found are offered from then on.
    if (type === "tool_search_output") this.tools.push(...readResponsesTools(json.tools, `${path}.tools`));
    this.items.push({
      kind: "call_output",
      callId: readString(json.call_id) ?? "",
      tool: type === "custom_tool_call_output" ? "custom" : "function",
      parts: this.#readOutputParts(json, path),
      isError: json.status === "failed",
      cacheHint: null,
    } satisfies CallOutputItem);
  }

  #readOutputParts({ type, output, tools }: Json, path: string): HubPart[] {
    if (type === "tool_search_output") return [textPart(describeTools(tools))];
    if (typeof output === "string") return output === "" ? [] : [textPart(output)];
    if (type === "shell_call_output") return [textPart(JSON.stringify(output ?? null))];
    return this.#readParts(output, `${path}.output`);
  }

  #readReasoning(json: Json): void {
    const summary = joinTexts(json.summary);
    const content = joinTexts(json.content);
    const encrypted = readString(json.encrypted_content);
    this.items.push({
      kind: "reasoning",
      text: content === "" ? summary : content,
      isSummary: content === "",
      opaque: encrypted === null ? null : readEncrypted(encrypted),
    });
  }

  #readForeign(json: Json, path: string): void {
    const type = readString(json.type) ?? "type";
    // Without these the model would miss a part of the conversation, or of its task.
    if (type === "item_reference") throw unsupportedField(path, "Send the item itself instead of its id.");
    if (type.startsWith("compaction"))
      throw unsupportedField(
        `${path}.${type}`,
        "Compact the conversation in the client, and send its summary.",
      );
    this.items.push({ kind: "foreign", dialect: "responses", path: `${path}.${type}`, json });
  }

  #readParts(content: unknown, path: string): HubPart[] {
    if (typeof content === "string") return content === "" ? [] : [textPart(content)];
    return readArray(content).flatMap((part, at) => {
      const place = `${path}[${at}]`;
      const unread = { add: (name: string) => this.unread.push(`${place}.${name}`) };
      const read = readPart(readObject(part) ?? {}, unread);
      if (read === null) this.unread.push(place);
      return read ?? [];
    });
  }
}

function isServerSearch({ type, call_id: callId }: Json): boolean {
  return (type === "tool_search_call" || type === "tool_search_output") && readString(callId) === null;
}

function textPart(text: string): TextPart {
  return { kind: "text", text, cacheHint: null };
}

function readPart(part: Json, unread: { add(name: string): void }): HubPart | null {
  const cacheHint = readCacheHint(part.cache_control);
  switch (part.type) {
    case "input_text":
    case "output_text":
    case "text":
    case "summary_text":
      return {
        kind: "text",
        text: readString(part.text) ?? "",
        cacheHint,
        ...withCitations(readAnnotations(readObjects(part.annotations), unread)),
      };
    case "refusal":
      return { kind: "refusal", text: readString(part.refusal) ?? "" };
    case "input_image": {
      const source = readSource(part.image_url, part.file_id);
      return source === null ? null : { kind: "image", source, detail: readString(part.detail), cacheHint };
    }
    case "input_file": {
      const source = readSource(part.file_data ?? part.file_url, part.file_id);
      return source === null
        ? null
        : { kind: "file", source, filename: readString(part.filename), cacheHint };
    }
    case "input_audio": {
      const audio = readObject(part.input_audio);
      const base64 = readString(audio?.data);
      return base64 === null ? null : { kind: "audio", format: readString(audio?.format) ?? "wav", base64 };
    }
    default:
      return null;
  }
}

function readSource(url: unknown, fileId: unknown): ReturnType<typeof readMediaUrl> | null {
  const text = readString(url) ?? readString(readObject(url)?.url);
  if (text !== null) return readMediaUrl(text);
  const id = readString(fileId);
  return id === null ? null : { kind: "file_id", id };
}

function readEncrypted(value: string): OpaqueState {
  return readOpaqueText(value, { dialect: "responses", field: "encrypted_content" });
}

function readCall(json: Json): CallItem {
  const isCustom = json.type === "custom_tool_call";
  return {
    kind: "call",
    callId: readString(json.call_id) ?? readString(json.id) ?? "",
    name: readString(json.name) ?? "",
    namespace: readString(json.namespace),
    tool: isCustom ? "custom" : "function",
    input: readString(isCustom ? json.input : json.arguments) ?? "",
    opaque: null,
  };
}

function readBuiltInCall(json: Json): CallItem {
  const { tool = "shell", member = "action" } = BUILT_IN_CALLS.get(json.type) ?? {};
  return {
    kind: "call",
    callId: readString(json.call_id) ?? readString(json.id) ?? "",
    name: tool,
    namespace: null,
    tool: "function",
    input: JSON.stringify(json[member] ?? {}),
    opaque: null,
  };
}

function describeTools(tools: unknown): string {
  const names = readObjects(tools).map(({ name, type }) => readString(name) ?? readString(type) ?? "");
  return names.length === 0 ? "No tools were found." : `These tools are available now: ${names.join(", ")}`;
}
