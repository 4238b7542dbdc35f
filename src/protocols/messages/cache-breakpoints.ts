/** Keeps a request within the number of cache breakpoints that the Messages API accepts. */

import { isObject } from "../../json/parse.ts";
import type { DroppedFields } from "../hub/dropped-fields.ts";

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

function listObjects(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}
