/** The prompt cache of Messages: prefixes that end at a breakpoint, written once and read afterwards. */

import { isRecord, type JsonFields, parseJson } from "../json-fields.ts";
import { computeHash } from "../model/text.ts";

/** The input tokens of a request, by how they are billed. */
export interface CacheUse {
  fresh: number;
  read: number;
  written5m: number;
  written1h: number;
}

/** Prefixes that were written before. */
export interface PrefixCache {
  has(prefix: string): boolean;
  add(prefix: string): void;
}

const PREFIXES_MAX = 10_000;
export const BREAKPOINTS_MAX = 4;

export function createPrefixCache(): PrefixCache {
  const prefixes = new Set<string>();
  return {
    has: (prefix) => prefixes.has(prefix),
    add(prefix) {
      if (prefixes.size >= PREFIXES_MAX) prefixes.clear();
      prefixes.add(prefix);
    },
  };
}

interface Breakpoint {
  prefix: string;
  chars: number;
  isHour: boolean;
}

interface PromptBlock {
  text: string;
  control: unknown;
}

/** `inputTokens` is the count of the whole prompt. Returns null if there are too many breakpoints. */
export function useCache(
  { fields, model, cache }: { fields: JsonFields; model: string; cache: PrefixCache },
  inputTokens: number,
): CacheUse | null {
  const blocks = listBlocks(fields);
  const breakpoints = findBreakpoints(blocks, model);
  if (breakpoints.length > BREAKPOINTS_MAX) return null;
  const chars = blocks.reduce((sum, { text }) => sum + text.length, 0);
  const tokensUpTo = (end: number) => (chars === 0 ? 0 : Math.floor((inputTokens * end) / chars));
  const known = breakpoints.findLast(({ prefix }) => cache.has(prefix));
  const use: CacheUse = { fresh: 0, read: tokensUpTo(known?.chars ?? 0), written5m: 0, written1h: 0 };
  let at = use.read;
  for (const { prefix, chars: end, isHour } of breakpoints) {
    cache.add(prefix);
    const tokens = tokensUpTo(end);
    if (tokens <= at) continue;
    if (isHour) use.written1h += tokens - at;
    else use.written5m += tokens - at;
    at = tokens;
  }
  use.fresh = inputTokens - at;
  return use;
}

/** In the order of the prompt: tools, system, messages. */
function listBlocks(fields: JsonFields): PromptBlock[] {
  const blocks: PromptBlock[] = [];
  const add = (value: unknown): void => {
    if (!isRecord(value)) {
      blocks.push({ text: JSON.stringify(value) ?? "", control: null });
      return;
    }
    const { cache_control: control = null, ...rest } = value;
    blocks.push({ text: JSON.stringify(rest), control });
  };
  const addAll = (value: unknown): void => {
    for (const one of Array.isArray(value) ? value : value === undefined ? [] : [value]) add(one);
  };
  addAll(read(fields, "tools"));
  addAll(read(fields, "system"));
  const messages = read(fields, "messages");
  for (const message of Array.isArray(messages) ? messages : []) {
    addAll(isRecord(message) ? message.content : message);
  }
  // The breakpoint of the whole request is its last block.
  const automatic = read(fields, "cache_control");
  const last = blocks.at(-1);
  if (isRecord(automatic) && last !== undefined) last.control ??= automatic;
  return blocks;
}

function read(fields: JsonFields, name: string): unknown {
  const slice = fields.get(name);
  return slice === undefined ? undefined : parseJson(slice);
}

function findBreakpoints(blocks: readonly PromptBlock[], model: string): Breakpoint[] {
  const found: Breakpoint[] = [];
  let hash = 0;
  let chars = 0;
  for (const { text, control } of blocks) {
    hash = computeHash(hash, text);
    chars += text.length;
    if (!isRecord(control)) continue;
    found.push({ prefix: `${model} ${hash} ${chars}`, chars, isHour: control.ttl === "1h" });
  }
  return found;
}
