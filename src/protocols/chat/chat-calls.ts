/** Reads the tool calls of a Chat Completions response: their tools and their ids. */

import { unwrapCustomInput } from "../hub/custom-input.ts";
import type { ClientTool, ToolNames } from "../hub/dialect-codec.ts";
import { type Json, readObject, readString } from "../hub/json-values.ts";
import { resolveTool } from "../hub/tool-names.ts";

/** A call, or a part of one. */
export interface ChatCall {
  readonly name: string | null;
  /** Arguments of a function, or the input of a custom tool. */
  readonly text: string;
  /** The upstream itself has custom tools, so the text is the input and not JSON. */
  readonly isCustom: boolean;
}

export function readChatCall(call: Json): ChatCall {
  const isCustom = isCustomCall(call);
  const definition = readObject(isCustom ? call.custom : call.function);
  const text = isCustom ? definition?.input : definition?.arguments;
  return {
    name: readString(definition?.name) || null,
    text: typeof text === "object" && text !== null ? JSON.stringify(text) : (readString(text) ?? ""),
    isCustom,
  };
}

/** Some vendors send both forms of a call, one of them empty. Pieces of a stream after the first have no `type`. */
export function isCustomCall(call: Json): boolean {
  const custom = readObject(call.custom);
  const definition = readObject(call.function);
  if (custom === null || definition === null) return custom !== null;
  if (call.type === "custom" || call.type === "function") return call.type === "custom";
  const isFilled = (one: Json) => Boolean(one.name) || Boolean(one.input) || Boolean(one.arguments);
  return isFilled(custom) && !isFilled(definition);
}

export function resolveCall(
  toolNames: Pick<ToolNames, "resolve">,
  { name, isCustom }: Omit<ChatCall, "text">,
): ClientTool {
  return resolveTool(toolNames, name ?? "", isCustom ? "custom" : "function");
}

export function readCallInput(tool: ClientTool, { text, isCustom }: Omit<ChatCall, "name">): string {
  return tool.tool === "custom" && !isCustom ? unwrapCustomInput(text) : text;
}
