/** Requests as text, to be changed, cut and concatenated. */

import { TEST_KEY } from "../support/running-gateway.ts";

export const CHAT = "/v1/chat/completions";
export const HOST = "Host: gateway.test";
export const KEY = `Authorization: Bearer ${TEST_KEY}`;
export const TYPE = "Content-Type: application/json";

export function message(line: string, fields: readonly string[], body = ""): string {
  return `${[line, ...fields].join("\r\n")}\r\n\r\n${body}`;
}

export function get(path: string, ...fields: string[]): string {
  return message(`GET ${path} HTTP/1.1`, [HOST, KEY, ...fields]);
}

export function chatBody(change: object = {}): string {
  return JSON.stringify({ model: "fast", messages: [{ role: "user", content: "Hello" }], ...change });
}

/** A call with its length. */
export function post(body: string, ...fields: string[]): string {
  return postHead(`Content-Length: ${Buffer.byteLength(body)}`, ...fields) + body;
}

export function postHead(...fields: string[]): string {
  return message(`POST ${CHAT} HTTP/1.1`, [HOST, KEY, TYPE, ...fields]);
}

/** A call in chunks, one a piece, with its end. */
export function postChunked(pieces: readonly string[], ...fields: string[]): string {
  return postHead("Transfer-Encoding: chunked", ...fields) + pieces.map(chunk).join("") + chunk("");
}

export function chunk(piece: string): string {
  return `${Buffer.byteLength(piece).toString(16)}\r\n${piece}\r\n`;
}
