/**
 * One turn of a stored conversation as bytes: three lines of JSON, with the response object as the client received it,
 * its output as hub items, and the `input` of the request. Memory holds the bytes and no objects, so that a budget in
 * bytes is a budget of memory.
 */

import type { Part } from "../../base/parts.ts";
import { isObject, parseJson } from "../../json/parse.ts";
import { parseBody } from "../../json/parse-body.ts";
import { lookUpCodec } from "../../protocols/codecs.ts";
import type { HubItem, TextPart } from "../../protocols/hub/hub-request.ts";
import type { OutputItem } from "../../protocols/hub/hub-response.ts";

const NEWLINE = 0x0a;
const LINE_BREAK = Buffer.from("\n");

/** The JSON of a response and of its output, as they are stored. */
export function writeTurnHead(response: string, output: readonly OutputItem[]): Uint8Array<ArrayBuffer> {
  // JSON text has no line breaks outside of strings, and none within them.
  return Buffer.from(`${response}\n${JSON.stringify(output)}`);
}

export function buildTurn(head: Uint8Array, input: Uint8Array): Uint8Array {
  return Buffer.concat([head, LINE_BREAK, input]);
}

/** The response object as JSON. */
export function turnResponse(turn: Uint8Array): Part {
  return { bytes: turn, start: 0, end: turn.indexOf(NEWLINE) };
}

export function turnOutput(turn: Uint8Array): Part {
  const start = turn.indexOf(NEWLINE) + 1;
  return { bytes: turn, start, end: turn.indexOf(NEWLINE, start) };
}

export function turnInput(turn: Uint8Array): Part {
  return { bytes: turn, start: turnOutput(turn).end + 1, end: turn.length };
}

/** A conversation as a request continues it. */
export interface ConversationItems {
  /** The system messages at its beginning. */
  readonly instructions: readonly TextPart[];
  readonly items: readonly HubItem[];
}

/** The turns in their order. */
export function readTurns(turns: readonly Uint8Array[]): ConversationItems {
  const instructions: TextPart[] = [];
  const items: HubItem[] = [];
  for (const turn of turns) {
    const input = parseBody(turnInput(turn));
    const read = lookUpCodec("responses").readRequest({ input }, { publicModel: "", stream: false });
    for (const part of read.instructions) instructions.push(part);
    for (const item of read.items) items.push(item);
    const { bytes, start, end } = turnOutput(turn);
    const output = parseJson(bytes, start, end);
    for (const item of Array.isArray(output) ? output : []) if (isOutputItem(item)) items.push(item);
  }
  return { instructions, items };
}

/** The turn was written by the gateway, so its items have the type that they were written with. */
function isOutputItem(item: unknown): item is OutputItem {
  return isObject(item) && typeof item.kind === "string";
}
