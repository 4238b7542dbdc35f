/** Removes denied tools of vendors from a request, or rejects it. Functions of the client are never denied. */

import { type ByteRange, removeElements } from "../../json/array.ts";
import {
  type JsonValue,
  listElements,
  type ObjectVisitor,
  readArray,
  readObject,
  skipValue,
} from "../../json/members.ts";
import { wantedFields, wantedString } from "../../json/scan.ts";
import { editMembers } from "../../json/splice.ts";
import { ARRAY_OPEN, OBJECT_OPEN } from "../../json/walk.ts";
import type { Interface } from "../../records/interfaces.ts";
import type { BodyRules } from "../../records/request-policy.ts";
import { caseVariantError } from "../shared/case-variant-error.ts";
import { repeatedError } from "../shared/repeated-error.ts";
import {
  classifyGeminiTool,
  classifyToolType,
  listToolMembers,
  TOOL_MEMBERS,
  type ToolClass,
} from "../shared/tool-kinds.ts";
import { type PolicyBody, violation } from "./policy-body.ts";

type ToolsRule = NonNullable<BodyRules["tools"]>;

/** Of the items of a conversation. */
const ITEM_TOOLS = "input.tools";

/** The members that name tools. Null: the interface has no tools. */
export const TOOL_PLACES: Readonly<Record<Interface, readonly string[] | null>> = {
  responses: ["tools", "tool_choice", ITEM_TOOLS, "prompt"],
  chat: ["tools", "tool_choice", ...listToolMembers("chat"), "extra_body"],
  messages: ["tools", "tool_choice", ...listToolMembers("messages")],
  gemini: ["tools", "toolConfig", "cachedContent"],
  embeddings: null,
  images: null,
};

/** What they name or contain may have tools of its own, which cannot be removed. */
const OPAQUE_MEMBERS = ["prompt", "cachedContent", "extra_body"];

export function applyTools(body: PolicyBody, rule: ToolsRule): void {
  const places = TOOL_PLACES[body.interface];
  if (places === null) return;
  for (const name of OPAQUE_MEMBERS)
    if (places.includes(name) && body.member(name) !== null)
      throw violation("tools", name, "its content may use denied tools.");
  for (const { name, kind, isOffIfFalse } of TOOL_MEMBERS) {
    const value = places.includes(name) ? body.member(name) : null;
    if (value === null || (isOffIfFalse && value.kind === "false") || !rule.deny.includes(kind)) continue;
    if (rule.over === "reject") throw deniedError(name, kind);
    body.setMember(name, null);
    body.note("tools", name, kind, null);
  }
  const tools = new ToolLists(body, rule);
  tools.apply();
  checkToolChoice(body, rule, tools);
}

const TOOL_MEMBERS_READ = wantedFields(["type", "name", "tools"], { rejectsCaseVariants: true });
const ITEM_MEMBERS_READ = wantedFields(["tools"], { rejectsCaseVariants: true });

function rejectRepeated(name: string): never {
  throw repeatedError(`tools.${name}`);
}

function rejectVariant(name: string): never {
  throw caseVariantError(`tools.${name}`, "in `tools`");
}

/** Nearly all tools. They are compared as bytes. */
const FUNCTION_TYPES = wantedFields(["function", "custom"]);

function isFunction(bytes: Uint8Array, type: JsonValue): boolean {
  return type.kind === "string" && wantedString(bytes, type.start, type.end, FUNCTION_TYPES) !== undefined;
}

interface ToolList {
  readonly end: number;
  readonly elements: readonly ByteRange[];
  readonly dropped: ReadonlySet<ByteRange>;
}

/** The lists of tools, without the denied ones. */
class ToolLists {
  readonly #body: PolicyBody;
  readonly #rule: ToolsRule;
  /** Names of tools that were dropped, which a choice may name. */
  readonly droppedNames = new Set<string>();
  hasDropped = false;
  remaining = 0;

  constructor(body: PolicyBody, rule: ToolsRule) {
    this.#body = body;
    this.#rule = rule;
  }

  apply(): void {
    const body = this.#body;
    if (TOOL_PLACES[body.interface]?.includes(ITEM_TOOLS)) this.#applyToItems();
    const list = body.member("tools");
    if (list === null) return;
    const { elements, dropped } = this.#readList(list.start);
    if (dropped.size === 0) return;
    if (dropped.size < elements.length)
      body.splice(removeElements(list, elements, (one) => dropped.has(one)));
    else this.#removeAll();
  }

  /** Items of a conversation may offer further tools (`additional_tools`, `tool_search_output`). */
  #applyToItems(): void {
    const body = this.#body;
    const { bytes } = body;
    const input = body.member("input");
    if (input?.kind !== "array") return;
    const visitor: ObjectVisitor<"tools"> = {
      wanted: ITEM_MEMBERS_READ,
      onRepeated: () => {
        throw repeatedError("input.tools");
      },
      onVariant: () => {
        throw caseVariantError("input.tools", "in `input`");
      },
      descend: (_, at) => {
        if (bytes[at] !== ARRAY_OPEN) return null;
        const { end, elements, dropped } = this.#readList(at);
        body.splice(removeElements({ start: at, end }, elements, (one) => dropped.has(one)));
        return end;
      },
    };
    readArray(bytes, input.start, (at) =>
      bytes[at] === OBJECT_OPEN ? readObject(bytes, at, visitor).end : skipValue(bytes, at),
    );
  }

  #readList(start: number): ToolList {
    const { bytes } = this.#body;
    const elements: ByteRange[] = [];
    const dropped = new Set<ByteRange>();
    const read = (at: number): number => {
      const { end, isKept } = this.#read(at);
      const element = { start: at, end };
      elements.push(element);
      if (!isKept) dropped.add(element);
      return end;
    };
    // Google accepts a single tool in place of a list.
    const end = bytes[start] === ARRAY_OPEN ? readArray(bytes, start, read) : read(start);
    this.remaining += elements.length - dropped.size;
    return { end, elements, dropped };
  }

  /** Without tools, upstreams reject what belongs to them. */
  #removeAll(): void {
    this.#body.setMember("tools", null);
    if (this.remaining > 0) return;
    if (!this.#body.isGoogle && this.#body.member("parallel_tool_calls") !== null)
      this.#body.setMember("parallel_tool_calls", null);
  }

  /** Reads one tool in one pass. It is not kept if the whole tool is dropped. */
  #read(start: number): { readonly end: number; readonly isKept: boolean } {
    const { bytes, isGoogle } = this.#body;
    if (bytes[start] !== OBJECT_OPEN) return { end: skipValue(bytes, start), isKept: this.#deny("tools") };
    if (!isGoogle) return this.#readTypedTool(start);
    const end = skipValue(bytes, start);
    return { end, isKept: this.#keepGeminiTool({ start, end, kind: "object" }) };
  }

  #readTypedTool(start: number): { readonly end: number; readonly isKept: boolean } {
    const body = this.#body;
    // A namespace is kept or dropped as a whole.
    let isKept = true;
    const { fields, end } = readObject(body.bytes, start, {
      wanted: TOOL_MEMBERS_READ,
      onRepeated: rejectRepeated,
      onVariant: rejectVariant,
      descend: (name, at) => {
        if (name !== "tools" || body.bytes[at] !== ARRAY_OPEN) return null;
        return readArray(body.bytes, at, (inner) => {
          const nested = this.#read(inner);
          isKept &&= nested.isKept;
          return nested.end;
        });
      },
    });
    const { type, name } = fields;
    if (type !== undefined && isFunction(body.bytes, type)) return { end, isKept };
    const typeText = type === undefined ? null : body.text(type);
    // Messages has functions without a type, and no vendor runs a tool without one.
    const toolClass = type === undefined ? "client" : classifyToolType(typeText ?? "");
    if (!isDenied(this.#rule, toolClass)) return { end, isKept };
    const nameText = name === undefined ? null : body.text(name);
    if (nameText !== null) this.droppedNames.add(nameText);
    if (typeText !== null) this.droppedNames.add(typeText);
    return { end, isKept: this.#deny(typeText ?? "unknown") };
  }

  /** One tool of Gemini may have several members, each of which is a tool. */
  #keepGeminiTool(tool: JsonValue): boolean {
    const body = this.#body;
    const members = [...body.members(tool, "all", "tools")];
    const denied = members.filter(([name]) => isDenied(this.#rule, classifyGeminiTool(name)));
    for (const [name] of denied) this.#deny(name);
    if (denied.length === members.length) return denied.length === 0;
    if (denied.length > 0) {
      const fields = Object.fromEntries(members.map(([name, member]) => [name, { ...member, values: 0 }]));
      const edits = Object.fromEntries(denied.map(([name]) => [name, null]));
      const scan = { ok: true, fields, insertAt: tool.start + 1, empty: false, values: 0 } as const;
      body.splice(editMembers(body.bytes, scan, edits));
    }
    return true;
  }

  #deny(name: string): false {
    if (this.#rule.over === "reject") throw deniedError("tools", name);
    this.hasDropped = true;
    this.#body.note("tools", "tools", name, null);
    return false;
  }
}

function isDenied({ deny }: ToolsRule, toolClass: ToolClass): boolean {
  return toolClass === "unknown" || (toolClass !== "client" && deny.includes(toolClass));
}

function deniedError(param: string, tool: string) {
  return violation("tools", param, `the tool ${JSON.stringify(tool)} is not allowed.`);
}

/** A choice that needs a denied tool cannot be met. */
function checkToolChoice(body: PolicyBody, rule: ToolsRule, tools: ToolLists): void {
  const name = body.isGoogle ? "toolConfig" : "tool_choice";
  const choice = body.member(name);
  if (choice === null) return;
  if (namesDenied(body, rule, tools, choice))
    throw violation("tools", name, "requires a tool that is not allowed.");
  if (!tools.hasDropped || tools.remaining > 0) return;
  if (requiresTool(body, choice))
    throw violation("tools", name, "requires a tool, and no allowed tool is left.");
  body.setMember(name, null);
}

const CHOICE_MEMBERS = ["type", "name", "mode", "tools", "allowed_tools", "function"];

/** A choice names a tool, or has a list of tools, itself or in `allowed_tools`. Such a list has no further lists. */
function namesDenied(body: PolicyBody, rule: ToolsRule, tools: ToolLists, choice: JsonValue): boolean {
  if (body.isGoogle || choice.kind !== "object") return false;
  const isDeniedTool = (members: ReadonlyMap<string, JsonValue>) => {
    const type = members.get("type");
    const toolClass = classifyToolType((type === undefined ? null : body.text(type)) ?? "");
    if (toolClass !== "unknown" && isDenied(rule, toolClass)) return true;
    const name = members.get("name");
    return name !== undefined && toolClass !== "client" && tools.droppedNames.has(body.text(name) ?? "");
  };
  const outer = body.members(choice, CHOICE_MEMBERS, "tool_choice");
  const allowed = outer.get("allowed_tools");
  const inner =
    allowed?.kind === "object" ? body.members(allowed, CHOICE_MEMBERS, "tool_choice.allowed_tools") : null;
  if (isDeniedTool(outer) || (inner !== null && isDeniedTool(inner))) return true;
  return [outer.get("tools"), inner?.get("tools")].some(
    (list) =>
      list?.kind === "array" &&
      listElements(body.bytes, list).some(
        (tool) =>
          tool.kind === "object" && isDeniedTool(body.members(tool, ["type", "name"], "tool_choice.tools")),
      ),
  );
}

/** `required`, `any`, and everything else that does not say `auto` or `none`. */
function requiresTool(body: PolicyBody, choice: JsonValue): boolean {
  if (choice.kind === "string") return !isOptional(body.text(choice));
  if (choice.kind !== "object") return true;
  if (body.isGoogle) {
    const config = body.members(choice, ["functionCallingConfig"], "toolConfig").get("functionCallingConfig");
    if (config?.kind !== "object") return false;
    const mode = body.members(config, ["mode"], "toolConfig.functionCallingConfig").get("mode");
    return mode !== undefined && !isOptional(body.text(mode)?.toLowerCase() ?? null);
  }
  const members = body.members(choice, CHOICE_MEMBERS, "tool_choice");
  const inner = members.get("allowed_tools");
  const mode =
    inner?.kind === "object" ? body.members(inner, ["mode"], "tool_choice").get("mode") : members.get("mode");
  const type = mode ?? members.get("type");
  return type === undefined || !isOptional(body.text(type));
}

function isOptional(choice: string | null): boolean {
  return choice === "auto" || choice === "none" || choice === "validated";
}
