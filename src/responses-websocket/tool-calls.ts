/** Finds the tool calls in a list of items, and the tool outputs. */

import { findBytes } from "../base/bytes.ts";
import { type ByteRange, firstElements } from "../json/array.ts";
import { scanObject, stringValue, wantedFields } from "../json/scan.ts";

const ITEM = wantedFields(["type", "call_id"]);
const CALL_ID = new TextEncoder().encode('"call_id"');

const CALLS: ReadonlySet<string> = new Set(["function_call", "custom_tool_call"]);
const OUTPUTS: ReadonlySet<string> = new Set(["function_call_output", "custom_tool_call_output"]);

export interface ToolCalls {
  made: string[];
  completed: string[];
}

export function findToolCalls(bytes: Uint8Array, array: ByteRange, depthMax: number): ToolCalls {
  const calls: ToolCalls = { made: [], completed: [] };
  if (findBytes(bytes, CALL_ID, array.start, array.end) === -1) return calls;
  for (const item of firstElements(bytes, array, Number.POSITIVE_INFINITY))
    recordToolCall(bytes, item, depthMax, calls);
  return calls;
}

export function recordToolCall(bytes: Uint8Array, item: ByteRange, depthMax: number, calls: ToolCalls): void {
  const scan = scanObject(bytes, item.start, item.end, ITEM, { depthMax });
  if (!scan.ok || scan.fields.type === undefined || scan.fields.call_id === undefined) return;
  const type = stringValue(bytes, scan.fields.type) ?? "";
  const callId = stringValue(bytes, scan.fields.call_id);
  if (callId === null) return;
  if (CALLS.has(type)) calls.made.push(callId);
  else if (OUTPUTS.has(type)) calls.completed.push(callId);
}
