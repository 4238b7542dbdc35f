/** Checks the turns of a Messages request: roles, blocks, tool results and signatures. */

import type { Rejection } from "../errors.ts";
import { isRecord } from "../json-fields.ts";
import { invalidMessages } from "./messages-errors.ts";
import { CITATION_INDEX, isSigned, redactedData } from "./messages-signature.ts";

type Block = Record<string, unknown>;

export interface MessagesTurn {
  role: "user" | "assistant" | "system";
  blocks: readonly Block[];
}

interface TurnRules {
  seed: number;
  needsThinking: boolean;
}

const CALL_ID = /^[a-zA-Z0-9_-]+$/;
const BLOCKS: Readonly<Record<MessagesTurn["role"], ReadonlySet<string>>> = {
  user: new Set(["text", "image", "document", "tool_result", "search_result", "container_upload"]),
  assistant: new Set([
    "text",
    "thinking",
    "redacted_thinking",
    "tool_use",
    "server_tool_use",
    "web_search_tool_result",
  ]),
  system: new Set(["text"]),
};
const IMAGE_TYPES: ReadonlySet<unknown> = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"]);

export function checkTurns(messages: unknown, rules: TurnRules): MessagesTurn[] | Rejection {
  if (!Array.isArray(messages) || messages.length === 0)
    return invalidMessages("messages: at least one message is required");
  const turns: MessagesTurn[] = [];
  for (const [index, message] of messages.entries()) {
    const turn = readTurn(message, index, rules);
    if ("kind" in turn) return turn;
    turns.push(turn);
  }
  if (turns[0]?.role !== "user") return invalidMessages('messages: first message must use the "user" role');
  return checkResults(turns) ?? checkThinking(turns, rules) ?? checkLast(turns) ?? turns;
}

function readTurn(message: unknown, index: number, rules: TurnRules): MessagesTurn | Rejection {
  const role = isRecord(message) ? message.role : null;
  if (!isRecord(message) || (role !== "user" && role !== "assistant" && role !== "system"))
    return invalidMessages(`messages.${index}.role: Input should be 'user' or 'assistant'`);
  const { content } = message;
  const blocks = typeof content === "string" ? [{ type: "text", text: content }] : content;
  if (!Array.isArray(blocks) || blocks.length === 0)
    return invalidMessages(`messages.${index}: all messages must have non-empty content`);
  for (const [at, block] of blocks.entries()) {
    const where = `messages.${index}.content.${at}`;
    const problem = checkBlock(block, role, where, rules);
    if (problem !== null) return problem;
  }
  const texts = blocks.filter(({ type }) => type === "text");
  if (texts.length > 0 && texts.every(({ text }) => text.trim() === ""))
    return invalidMessages("messages: text content blocks must contain non-whitespace text");
  return { role, blocks };
}

function checkBlock(
  block: unknown,
  role: MessagesTurn["role"],
  where: string,
  { seed }: TurnRules,
): Rejection | null {
  if (!isRecord(block) || typeof block.type !== "string" || !BLOCKS[role].has(block.type))
    return invalidMessages(`${where}: Input tag found using 'type' does not match any of the expected tags`);
  switch (block.type) {
    case "text":
      if (block.text === "" || typeof block.text !== "string")
        return invalidMessages(`${where}: text content blocks must be non-empty`);
      return checkCitations(block.citations, where);
    case "image":
      return checkImage(block, where);
    case "tool_use":
      if (typeof block.id !== "string" || !CALL_ID.test(block.id))
        return invalidMessages(`${where}.tool_use.id: String should match pattern '${CALL_ID.source}'`);
      return isRecord(block.input)
        ? null
        : invalidMessages(`${where}.tool_use.input: Input should be a valid dictionary`);
    case "tool_result":
      return checkResultContent(block.content, where);
    case "thinking":
      return isSigned(seed, String(block.thinking), block.signature) ||
        isSigned(seed, "omitted", block.signature)
        ? null
        : invalidMessages(`${where}: Invalid \`signature\` in \`thinking\` block`);
    case "redacted_thinking":
      return block.data === redactedData(seed)
        ? null
        : invalidMessages(`${where}: Invalid \`data\` in \`redacted_thinking\` block`);
    default:
      return null;
  }
}

function checkCitations(citations: unknown, where: string): Rejection | null {
  const isIssued = (citation: unknown) => isRecord(citation) && citation.encrypted_index === CITATION_INDEX;
  return Array.isArray(citations) && !citations.every(isIssued)
    ? invalidMessages(`${where}.citations: Invalid \`encrypted_index\` in citation`)
    : null;
}

function checkImage({ source }: Block, where: string): Rejection | null {
  if (!isRecord(source)) return invalidMessages(`${where}.image.source: Field required`);
  if (source.type === "base64" && !IMAGE_TYPES.has(source.media_type))
    return invalidMessages(
      `${where}.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'`,
    );
  return source.type === "base64" || source.type === "url"
    ? null
    : invalidMessages(`${where}.image.source: Input tag does not match`);
}

function checkResultContent(content: unknown, where: string): Rejection | null {
  if (content === undefined || typeof content === "string") return null;
  if (!Array.isArray(content))
    return invalidMessages(`${where}.tool_result.content: Input should be a valid list`);
  const isValid = content.every((part) => isRecord(part) && !(part.type === "text" && part.text === ""));
  return isValid
    ? null
    : invalidMessages(`${where}.tool_result.content: text content blocks must be non-empty`);
}

/** Every call has exactly one result, at the beginning of the next user turn. */
function checkResults(turns: readonly MessagesTurn[]): Rejection | null {
  const merged = mergeTurns(turns);
  for (const [index, { role, blocks }] of merged.entries()) {
    if (role === "assistant") {
      const calls = ids(blocks, "tool_use", "id");
      const results = ids(merged[index + 1]?.blocks ?? [], "tool_result", "tool_use_id");
      const open = calls.filter((id) => !results.includes(id));
      if (open.length > 0)
        return invalidMessages(
          `messages.${index}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${open.join(", ")}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`,
        );
    }
    if (role !== "user") continue;
    const calls = ids(merged[index - 1]?.blocks ?? [], "tool_use", "id");
    const results = ids(blocks, "tool_result", "tool_use_id");
    const unknown = results.find((id) => !calls.includes(id));
    if (unknown !== undefined)
      return invalidMessages(
        `messages.${index}.content.0: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${unknown}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`,
      );
    if (new Set(results).size < results.length)
      return invalidMessages(
        `messages.${index}: each tool_use must have a single result. Found multiple \`tool_result\` blocks.`,
      );
  }
  return null;
}

/** Neighbours of the same role are one turn. A system turn in between belongs to the user's side. */
function mergeTurns(turns: readonly MessagesTurn[]): MessagesTurn[] {
  const merged: MessagesTurn[] = [];
  for (const turn of turns) {
    const role = turn.role === "system" ? "user" : turn.role;
    const last = merged.at(-1);
    if (last?.role === role) merged[merged.length - 1] = { role, blocks: [...last.blocks, ...turn.blocks] };
    else merged.push({ role, blocks: turn.blocks });
  }
  return merged;
}

function ids(blocks: readonly Block[], type: string, field: string): string[] {
  return blocks.filter((block) => block.type === type).map((block) => String(block[field]));
}

/** In a tool loop the thinking before the call must be sent back unchanged. */
function checkThinking(turns: readonly MessagesTurn[], { needsThinking }: TurnRules): Rejection | null {
  const merged = mergeTurns(turns);
  const last = merged.at(-1);
  const before = merged.at(-2);
  if (!needsThinking || last === undefined || before?.role !== "assistant") return null;
  if (!last.blocks.some(({ type }) => type === "tool_result")) return null;
  const first = before.blocks[0]?.type;
  return first === "thinking" || first === "redacted_thinking"
    ? null
    : invalidMessages(
        `messages.${merged.length - 2}.content.0.type: Expected \`thinking\` or \`redacted_thinking\`, but found \`${String(first)}\`. When \`thinking\` is enabled, a final \`assistant\` message must start with a thinking block.`,
      );
}

function checkLast(turns: readonly MessagesTurn[]): Rejection | null {
  const last = turns.at(-1);
  const block = last?.role === "assistant" ? last.blocks.at(-1) : undefined;
  return block !== undefined && typeof block.text === "string" && /\s$/.test(block.text)
    ? invalidMessages("messages: final assistant content cannot end with trailing whitespace")
    : null;
}
