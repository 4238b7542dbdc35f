/** Places cache breakpoints in a Messages request, and keeps them within the number that the API accepts. */

import { isObject } from "../../json/parse.ts";
import type { DroppedFields } from "../hub/dropped-fields.ts";
import type { CacheHint } from "../hub/hub-request.ts";
import { formatCacheControl } from "../hub/media.ts";

const BREAKPOINTS_MAX = 4;

/** Clients of other dialects may mark more. The last ones cover the longest beginnings of the prompt, so they are kept. */
export function limitBreakpoints(body: Record<string, unknown>, dropped: DroppedFields): void {
  const messages = listObjects(body.messages).flatMap(({ content }) => listObjects(content));
  const marked = [...listObjects(body.tools), ...listObjects(body.system), ...messages].filter(
    (block) => block.cache_control !== undefined,
  );
  const kept = BREAKPOINTS_MAX - (body.cache_control === undefined ? 0 : 1);
  for (const block of marked.slice(0, Math.max(0, marked.length - kept))) {
    delete block.cache_control;
    dropped.add("cache_control");
  }
}

/** The API rejects a breakpoint on them. */
const UNMARKABLE: ReadonlySet<unknown> = new Set(["thinking", "redacted_thinking"]);

/** Where an upstream would place the breakpoint of the whole request itself. */
export function markLastBlock(body: Record<string, unknown>, hint: CacheHint): void {
  const block = listObjects(body.messages)
    .flatMap(({ content }) => listObjects(content))
    .findLast(({ type }) => !UNMARKABLE.has(type));
  if (block !== undefined) block.cache_control ??= formatCacheControl(hint);
}

function listObjects(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}
